"""Questions come out of SQuAD's JSON and of the Hub's rows alike, their answers checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertsmith.reading.compressed import BLOCK_BYTES
from bertsmith.reading.squad_json import Answer
from bertsmith.tasks.own.files import FileOptions
from bertsmith.tasks.own.question_rows import QuestionColumns
from bertsmith.tasks.own.questions import (
    contents,
    read,
    summary,
    version_of,
)
from tests.tasks.own.written import lines_at, real, rows_at

PASSAGE = "The cat sat on the mat."


def _row(key: str, *answers: tuple[str, int], passage: str = PASSAGE) -> dict[str, object]:
    texts, starts = [text for text, _ in answers], [start for _, start in answers]
    listed = {"text": texts, "answer_start": starts}
    return {"id": key, "question": "Who sat?", "context": passage, "answers": listed}


ROWS = [_row("a", ("cat", 4)), _row("b", ("mat", 2), ("bird", 0)), _row("c", ("dog", 4)), _row("d")]


def _squad(path: Path, *rows: dict[str, object]) -> Path:
    paragraphs = []
    for row in rows:
        answers = row["answers"]
        assert isinstance(answers, dict)
        pairs = zip(answers["text"], answers["answer_start"], strict=True)
        listed = [{"text": text, "answer_start": start} for text, start in pairs]
        asked = {"id": row["id"], "question": row["question"], "answers": listed}
        paragraphs.append({"context": row["context"], "qas": [asked]})
    return lines_at(path, json.dumps({"data": [{"paragraphs": paragraphs}]}))


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.parquet"])
def test_answers_stand_in_the_passage_and_lost_questions_are_only_scored(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    file = read(_squad(path, *ROWS) if path.suffix == ".json" else rows_at(path, *ROWS))
    assert [each.key for each in file.examples] == ["a", "b", "c", "d"]
    assert [each.answers for each in file.examples] == [
        (Answer(text="cat", start=4),),
        (Answer(text="mat", start=19),),
        (),
        (),
    ]
    assert [each.gold for each in file.examples] == [("cat",), ("mat", "bird"), ("dog",), ()]
    assert list(file.unlearnable) == [2]
    assert file.unlearnable[2].endswith("its answer 'dog' is not in the passage")
    assert file.left_out == ()
    unmarked = (
        "1 question contradicts itself (data[0].paragraphs[3].qas[0]): not is_impossible, and "
        "without answers: taken to have none",
    )
    assert file.notes == (
        *(unmarked if path.suffix == ".json" else ()),
        "1 answer not where the file says, and found elsewhere in the passage: moved",
        "1 question with answers of which some stand nowhere in the passage: these are not "
        "learned, and count where they are scored",
    )
    assert summary(file).balance == "1 passage; 1 question without an answer (25.0%)"


def test_questions_whose_mark_and_answers_differ_are_counted_with_the_first_place(
    tmp_path: Path,
) -> None:
    answers = [{"text": "cat", "answer_start": 4}]
    asked = [
        {"id": str(number), "question": "q", "is_impossible": is_impossible, "answers": listed}
        for number, (is_impossible, listed) in enumerate(
            [(True, []), (True, answers), (False, answers), (True, answers)]
        )
    ]
    paragraphs = [{"context": PASSAGE, "qas": asked}]
    path = lines_at(tmp_path / "a.json", json.dumps({"data": [{"paragraphs": paragraphs}]}))
    assert read(path).notes == (
        "2 questions contradict themselves (data[0].paragraphs[0].qas[1] first): is_impossible, "
        "and with answers, which are left out",
    )


def test_other_ways_to_list_answers(tmp_path: Path) -> None:
    as_objects = {**_row("a"), "answers": [{"text": "cat", "answer_start": 4}]}
    path = rows_at(tmp_path / "a.jsonl", as_objects, {**_row("b"), "answers": None})
    assert [len(each.answers) for each in read(path).examples] == [1, 0]
    columns = QuestionColumns(key="", answers=None)
    first, second = read(path, columns).examples
    assert (first.answers, first.key, second.key) == ((), f"{path}:1", f"{path}:2")
    assert "of an answer" not in " ".join(summary(read(path, columns)).lines())
    assert first.passage is second.passage


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("a.json", '{"version": "KorQuAD_v1.0_dev", "data": []}', "korquad"),
        ("a.json", '{"data": [{"is_impossible" : true}]}', "2.0"),
        ("a.json", '{"data": [{"is_impossible": false}]}', "1.1"),
        ("a.jsonl", '{"answers": {"text": ["a"]}}\n{"answers": {"text": []}}', "2.0"),
        ("a.jsonl", '{"answers": null}', "2.0"),
        ("a.jsonl", '{"answers": [{"text": "a"}]}\n{"other": 1}', "1.1"),
        ("a.jsonl", '{"answer": "a"}\n{"answer": " "}', "2.0"),
        ("a.csv", "question,answer\nq,a\nq,", "2.0"),
        ("a.tsv", "question\tanswers\nq\ta", "1.1"),
    ],
)
def test_the_evaluator_is_that_of_the_files(
    tmp_path: Path, name: str, text: str, version: str
) -> None:
    path = lines_at(tmp_path / name, text)
    plain = lines_at(tmp_path / "plain.json", '{"data": []}')
    assert version_of([path]) == version_of([plain, path]) == version


def test_a_mark_is_found_wherever_a_block_of_the_file_ends(tmp_path: Path) -> None:
    for padding in range(BLOCK_BYTES - 40, BLOCK_BYTES, 7):
        lines_at(tmp_path / "a.json", " " * padding + '{"is_impossible":   true}')
        assert version_of([tmp_path / "a.json"]) == "2.0"


@pytest.mark.parametrize(
    ("question", "fault"),
    [
        ({"id": "b"}, r"qas\[1\]: no field 'question'"),
        ({"id": "a", "question": "q"}, r"qas\[1\]: id 'a' stands at .*qas\[0\] too"),
        ({"id": "b", "question": "q", "answers": [{"text": "", "answer_start": 0}]}, "is empty"),
        (7, r"qas\[1\]: expected dict, found int 7"),
    ],
)
def test_a_broken_question_of_squads_json_is_refused_or_left_out(
    tmp_path: Path, question: object, fault: str
) -> None:
    good = {"id": "a", "question": "q", "answers": [{"text": "cat", "answer_start": 4}]}
    paragraphs = [{"context": PASSAGE, "qas": [good, question]}]
    path = lines_at(tmp_path / "a.json", json.dumps({"data": [{"paragraphs": paragraphs}]}))
    with pytest.raises(ValueError, match=f"{fault}.*; mend it, or leave such rows out"):
        read(path)
    file = read(path, options=FileOptions(skip_malformed=True))
    assert [each.key for each in file.examples] == ["a"]
    assert len(file.left_out) == 1


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ([{"paragraphs": 7}], r"data\[0\].paragraphs: expected list, found int 7"),
        ([{"paragraphs": [{"qas": []}]}], r"paragraphs\[0\]: no field 'context'"),
    ],
)
def test_a_broken_passage_is_refused_or_left_out(
    tmp_path: Path, data: list[object], fault: str
) -> None:
    whole = {"context": PASSAGE, "qas": [{"id": "a", "question": "q", "answers": []}]}
    path = lines_at(tmp_path / "a.json", json.dumps({"data": [*data, {"paragraphs": [whole]}]}))
    with pytest.raises(ValueError, match=fault):
        read(path)
    file = read(path, options=FileOptions(skip_malformed=True))
    assert (len(file.examples), len(file.left_out)) == (1, 1)


def test_questions_of_one_passage_stay_together(tmp_path: Path) -> None:
    rows = [_row("a"), _row("b", passage="Another."), _row("c", passage="the  CAT sat on the mat.")]
    first, second, third = contents(read(rows_at(tmp_path / "a.jsonl", *rows)).examples)
    assert first == third != second


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**_row("b"), "answers": {"text": ["cat"]}}, "answers must hold text and answer_start"),
        ({**_row("b"), "answers": {"text": ["cat"], "answer_start": []}}, "of one length"),
        ({**_row("b"), "answers": ["cat"]}, "answers must hold text and answer_start"),
        (_row("b", ("cat", "4")), "the number of its first character, found 'cat' and '4'"),  # type: ignore[arg-type]
        (_row("b", (" ", 3)), "an answer is empty"),
        (_row("a"), r"a.jsonl:2: id 'a' stands at .*a.jsonl:1 too"),
        ({"id": "b"}, "no field 'question'"),
    ],
)
def test_a_broken_row_is_refused_or_left_out(
    tmp_path: Path, row: dict[str, object], message: str
) -> None:
    path = rows_at(tmp_path / "a.jsonl", ROWS[0], row)
    with pytest.raises(ValueError, match=message):
        read(path)
    file = read(path, options=FileOptions(skip_malformed=True))
    assert (len(file.examples), len(file.left_out)) == (1, 1)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize(
    ("empty", "fault"),
    [
        ({"question": " "}, "the question is empty"),
        ({"context": "\u200b"}, "the passage is empty"),
        ({"answers": {"text": ["x", "y"], "answer_start": [0, 1]}}, "none of its 2 answers is in"),
    ],
)
def test_what_cannot_be_learned_is_kept_to_be_scored(
    tmp_path: Path, name: str, empty: dict[str, object], fault: str
) -> None:
    path, rows = tmp_path / name, [ROWS[0], {**_row("b", ("cat", 4)), **empty}]
    file = read(_squad(path, *rows) if path.suffix == ".json" else rows_at(path, *rows))
    assert (len(file.examples), file.left_out, list(file.unlearnable)) == (2, (), [1])
    assert fault in file.unlearnable[1]


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"questions are read from SQuAD's .json, or from .csv"):
        read(lines_at(tmp_path / "a.txt", "id,question"))
    with pytest.raises(ValueError, match=r"a.xlsx: a spreadsheet .* export the sheet as CSV"):
        read(lines_at(tmp_path / "a.xlsx", "PK"))
    with pytest.raises(FileNotFoundError, match=r"none.json: no such file"):
        read(tmp_path / "none.json")


@pytest.mark.data
def test_the_real_sets_are_read_whole() -> None:
    file = read(real("korean/korquad/KorQuAD_v1.0_dev.json.gz"))
    assert (len(file.examples), file.left_out, file.notes) == (5_774, (), ())
    assert len(set(contents(file.examples))) == len({each.passage for each in file.examples})
    assert version_of([real("korean/korquad/KorQuAD_v1.0_dev.json.gz")]) == "korquad"
    assert version_of([real("squad/dev-v1.1.json.gz")]) == "1.1"
    assert version_of([real("squad/dev-v1.1.json.gz"), real("squad/dev-v2.0.json.gz")]) == "2.0"
