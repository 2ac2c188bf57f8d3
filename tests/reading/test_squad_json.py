"""Questions come with their passage and with answers that stand in it, or are told."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bertsmith.reading.squad_json import Answer, Questions, located, read_questions

PASSAGE = "The cat sat on the mat. The dog sat on the rug."


def _file(tmp_path: Path, *questions: dict[str, Any]) -> Path:
    path = tmp_path / "questions.json.gz"
    paragraphs = [{"context": PASSAGE, "qas": list(questions)}]
    content = {"version": "1.1", "data": [{"title": "Pets", "paragraphs": paragraphs}]}
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return path


def _read(tmp_path: Path, *questions: dict[str, Any]) -> Questions:
    return read_questions(_file(tmp_path, *questions))


def _question(key: str, *answers: tuple[str, int], **more: object) -> dict[str, Any]:
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": key, "question": "Who sat?", "answers": listed, **more}


def test_answers_stand_where_they_are_said_to_or_are_found_nearby(tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        _question("a", ("cat", 4)),
        _question("b", ("sat", 30), ("The", 99)),
        _question("c", ("bird", 0)),
        _question("d", ("cat", 4), is_impossible=True),
    )
    right, moved, lost, unanswerable = found.questions
    assert right.answers == (Answer(text="cat", start=4),)
    assert [answer.start for answer in moved.answers] == [PASSAGE.rindex("sat"), 24]
    assert (found.num_moved, lost.answers, unanswerable.answers) == (2, (), ())
    assert len(found.lost) == 1
    assert found.lost[0].endswith("data[0].paragraphs[0].qas[2].answers[0]")
    assert found.has_unanswerable
    assert [question.is_lost for question in found.questions] == [False, False, True, False]
    assert right.passage is moved.passage


@pytest.mark.parametrize(
    ("text", "start", "place"),
    [
        ("The", 0, 0),
        ("The", -1, 0),
        ("The", 20, 24),
        ("sat", -9, 8),
        ("The", 999, 24),
        ("a", -1, 5),
    ],
)
def test_an_answer_is_located_at_its_start_or_nearest_to_it(
    text: str, start: int, place: int
) -> None:
    assert located(PASSAGE, text, start) == Answer(text=text, start=place)
    assert located(PASSAGE, "bird", start) is None


def test_questions_whose_mark_and_answers_differ_are_told_by_their_places(tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        _question("a", ("cat", 4), is_impossible=True),
        _question("b", is_impossible=False),
        _question("c"),
        _question("d", is_impossible=True),
        _question("e", ("cat", 4), is_impossible=False),
    )
    assert [question.answers for question in found.questions[:4]] == [(), (), (), ()]
    answered, unanswered = found.impossible_answered, found.possible_unanswered
    assert [place[-6:] for place in (*answered, *unanswered)] == ["qas[0]", "qas[1]", "qas[2]"]
    assert (len(answered), len(unanswered)) == (1, 2)


def test_a_file_without_answers_is_one_to_predict_on(tmp_path: Path) -> None:
    (question,) = _read(tmp_path, {"id": "a", "question": "Who?"}).questions
    assert question.answers == ()


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"id": "a"}, r"qas\[0\]: no field 'question', found 'id'"),
        (_question("a", ("", 0)), "the answer is empty"),
        ({"id": "a", "question": "?", "answers": {}}, "expected list, found dict"),
        (
            {"id": "a", "question": "?", "answers": [{"text": "cat", "answer_start": "4"}]},
            "answer_start: expected int, found str 4",
        ),
    ],
)
def test_what_is_no_question_is_refused_with_its_place(
    tmp_path: Path, question: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, question)


def test_an_id_that_occurs_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"qas\[1\]: id 'a' stands at .*qas\[0\] too"):
        _read(tmp_path, _question("a"), _question("a"))


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "not JSON"), ("[]", r"SQuAD's JSON, .* found list"), ('{"data": []}', "no questions"),
     ("{}", "no field 'data'")],
)  # fmt: skip
def test_other_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_questions(path)
    with pytest.raises(FileNotFoundError):
        read_questions(tmp_path / "none.json")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("squad/train-v1.1.json.gz", 87_599),
        ("squad/dev-v1.1.json.gz", 7_753),
        ("squad/dev-v2.0.json.gz", 2_413),
        ("squad/train-v2.0-small.json.gz", 5_569),
        ("korean/korquad/KorQuAD_v1.0_dev.json.gz", 5_774),
    ],
)
def test_the_real_sets_are_read_whole(name: str, count: int) -> None:
    found = read_questions(Path(os.environ["BERTSMITH_DATA"]) / name)
    assert len(found.questions) == count
    assert (found.num_moved, found.lost) == (0, ())
    assert (found.impossible_answered, found.possible_unanswered) == ((), ())
    assert found.has_unanswerable is ("2.0" in name)
    assert all(
        question.passage.startswith(answer.text, answer.start)
        for question in found.questions
        for answer in question.answers
    )
