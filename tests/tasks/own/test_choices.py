"""Questions and choices come out of SWAG's columns, of ARC's objects, and of lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.tasks.own.choices import ARC, SWAG, ChoiceColumns, contents, read, summary
from bertsmith.tasks.own.files import FileOptions
from tests.tasks.own.written import lines_at, real, rows_at

LISTS = ChoiceColumns(text="question", choices=("choices",), label="answer")
SWAG_HEADER = "sent1,sent2,ending0,ending1,ending2,ending3,label"


def _arc(key: str, answer: object, *labels: object) -> dict[str, object]:
    choices = [{"text": f"choice {label}", "label": label} for label in labels]
    return {"id": key, "question": {"stem": "Why?", "choices": choices}, "answerKey": answer}


def test_endings_go_on_with_the_begun_sentence_as_many_as_there_are(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.csv", SWAG_HEADER, 'He sat.,"Then, he",ran,fell,,,1',
                    "He ran.,She,a,b,c,d,3")  # fmt: skip
    first, second = read(path, SWAG).examples
    assert (first.text, first.choices, first.label) == (
        "He sat.", ("Then, he ran", "Then, he fell"), 1,
    )  # fmt: skip
    assert (len(second.choices), second.label, second.place) == (4, 3, f"{path}:3")
    unlabelled = read(path, replace(SWAG, label=None)).examples
    assert [each.label for each in unlabelled] == [None, None]
    assert summary(read(path, SWAG)).lines()[1:] == [
        "the right choice is number 2 in 1 (50.0%), number 4 in 1 (50.0%)",
        "characters of the text: 7 (median), 7 (95% at most), 7 (longest)",
        "characters of a choice: 5 (median), 13 (95% at most), 13 (longest)",
        "choices: 2 in 1, 4 in 1",
    ]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_the_right_choice_is_named_by_its_own_label(tmp_path: Path, name: str) -> None:
    rows = [_arc("a", "B", "A", "B", "C"), _arc("b", "2", "1", "2", "3", "4")]
    file = read(rows_at(tmp_path / name, *rows), ARC)
    assert [(each.text, each.label) for each in file.examples] == [("Why?", 1), ("Why?", 1)]
    assert file.examples[0].choices == ("choice A", "choice B", "choice C")
    hub = {"text": ["x", "y"], "label": ["A", "B"]}
    path = rows_at(tmp_path / name, {"question": "Why?", "choices": hub, "answer": "B"})
    (example,) = read(path, LISTS).examples
    assert (example.choices, example.label) == (("x", "y"), 1)


@pytest.mark.parametrize(
    ("answer", "first_number", "label"),
    [
        ("C", 0, 2),
        ("b", 0, 1),
        (0, 0, 0),
        ("2", 0, 2),
        (3, 1, 2),
        ("1", 1, 0),
        ("1.0", 0, 1),
        (2.0, 1, 1),
    ],
)
def test_choices_without_labels_are_counted_by_letters_or_numbers(
    tmp_path: Path, answer: object, first_number: int, label: int
) -> None:
    row = {"question": "Why?", "choices": ["x", "y", "z"], "answer": answer}
    path = rows_at(tmp_path / "a.jsonl", row)
    (example,) = read(path, replace(LISTS, first_number=first_number)).examples
    assert example.label == label


@pytest.mark.parametrize(
    ("choices", "answer", "first_number", "label"),
    [
        (["a cat", "Paris"], "Paris", None, 1),
        (["x ", "y"], " x", None, 0),
        (["B", "b"], "b", None, 1),
        (["10", "20"], 20, None, 1),
        (["1", "0"], "0", 0, 0),
        (["1", "2"], "2", 1, 1),
        ({"text": ["cat", "dog"], "label": ["A", "B"]}, "dog", None, 1),
        ({"text": ["B", "A"], "label": ["A", "B"]}, "A", None, 0),
    ],
)
def test_a_label_may_be_the_text_of_a_choice(
    tmp_path: Path, choices: object, answer: object, first_number: int | None, label: int
) -> None:
    row = {"question": "Why?", "choices": choices, "answer": answer}
    path = rows_at(tmp_path / "a.jsonl", row)
    (example,) = read(path, replace(LISTS, first_number=first_number)).examples
    assert example.label == label


def test_a_column_whose_name_holds_a_point_is_found(tmp_path: Path) -> None:
    row = {"q.stem": "Why?", "choices": ["x", "y"], "answer": 0}
    (example,) = read(rows_at(tmp_path / "a.jsonl", row), replace(LISTS, text="q.stem")).examples
    assert example.text == "Why?"


@pytest.mark.parametrize(
    ("columns", "row", "message"),
    [
        (ARC, _arc("b", "D", "A", "B"), "label 'D' stands at 0 of the choices, labelled A, B"),
        (ARC, _arc("b", "A", "A", "A"), "label 'A' stands at 2 of the choices"),
        (ARC, _arc("b", None, "A", "B"), "a.jsonl:2: no label"),
        (ARC, _arc("b", "A", "A"), "1 choice, expected at least 2"),
        (ARC, _arc("a", "A", "A", "B"), "id 'a' stands at"),
        (ARC, {**_arc("b", "A"), "question": {"choices": []}}, "no field 'stem' in 'question'"),
        (LISTS, {"question": "?", "choices": ["x", "y"], "answer": 2},
         "label '2' is none of the 2 choices counted from 0; where"),
        (LISTS, {"question": "?", "choices": ["x", "y"], "answer": "D"}, "counted from A"),
        (LISTS, {"question": "?", "choices": ["x", "y"], "answer": "no"}, "is no letter and no"),
        (LISTS, {"question": "?", "choices": ["x", "y"], "answer": 0.5}, "is no letter and no"),
        (LISTS, {"question": "?", "choices": ["cat", "b", "cat"], "answer": "cat"},
         "a.jsonl:2: label 'cat' is the text of choices 1 and 3: expected one"),
        (LISTS, {"question": "?", "choices": ["1", "0"], "answer": "0"},
         "label '0' is the text of choice 2, and counts choice 1: where .* --first-choice"),
        (LISTS, {"question": "?", "choices": ["", "y"], "answer": 0}, "choice 1 of 2 is empty"),
        (LISTS, {"question": "?", "choices": [1, 2], "answer": 0}, "a choice must hold text"),
        (LISTS, {"question": "?", "choices": "x", "answer": 0}, "choices must be a list of texts"),
        (LISTS, {"question": "?", "choices": {"text": ["x"]}, "answer": 0}, "must be a list of"),
    ],
)  # fmt: skip
def test_a_broken_row_is_refused_or_left_out(
    tmp_path: Path, columns: ChoiceColumns, row: dict[str, object], message: str
) -> None:
    good = _arc("a", "A", "A", "B")
    if columns is LISTS:
        good = {"question": "?", "choices": ["x", "y"], "answer": 0}
    path = rows_at(tmp_path / "a.jsonl", good, row)
    with pytest.raises(ValueError, match=message):
        read(path, columns)
    file = read(path, columns, FileOptions(skip_malformed=True))
    assert (len(file.examples), len(file.left_out)) == (1, 1)


def test_empty_texts_are_left_out_and_missing_columns_refused(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.csv", SWAG_HEADER, ",b,c,d,e,f,0", "a,b,c,d,e,f,0")
    assert read(path, SWAG).left_out == (f"{path}:2: column 'sent1' is empty",)
    with pytest.raises(ValueError, match="no column 'ending3'; did you mean 'ending"):
        read(lines_at(path, SWAG_HEADER.replace("ending3", "x"), "a,b,c,d,e,f,0"), SWAG)
    with pytest.raises(ValueError, match="choices must name a column"):
        replace(SWAG, choices=())


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "columns", "count", "choices"),
    [
        ("ARC-Challenge-Train.jsonl.gz", ARC, 1_119, "choices: 3 in 1, 4 in 1,117, 5 in 1"),
        ("ARC-Easy-Train.jsonl.gz", ARC, 2_251, "choices: 3 in 6, 4 in 2,241, 5 in 4"),
        ("ARC-Easy-Dev.jsonl.gz", ARC, 570, "choices: 3 in 1, 4 in 567, 5 in 2"),
        ("openbook_qa-train.jsonl.gz", ARC, 4_957, "choices: 4 in 4,957"),
        ("swag_sample.jsonl", SWAG, 10, "choices: 4 in 10"),
        ("turkish_plu/next-event-dev.csv.gz", SWAG, 655, "choices: 4 in 655"),
        ("turkish_plu/next-event-train.csv.gz", SWAG, 5_000, "choices: 4 in 5,000"),
    ],
)
def test_the_real_sets_are_read_whole(
    name: str, columns: ChoiceColumns, count: int, choices: str
) -> None:
    file = read(real(f"multiple_choice/{name}"), columns)
    assert (len(file.examples), file.left_out) == (count, ())
    assert choices in summary(file).notes
    assert len(contents(file.examples)) == count
