"""Answers that are a text a row are read from every kind of table, with and without their place."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest

from bertsmith.reading.squad_json import Answer
from bertsmith.tasks.own.files import FileOptions
from bertsmith.tasks.own.question_rows import QuestionColumns
from bertsmith.tasks.own.questions import read
from tests.tasks.own.written import lines_at, rows_at

PASSAGE = "The cat, a cat, sat on the mat."
NAMES = ("a.csv", "a.tsv", "a.jsonl", "a.parquet")


def _row(answer: object, **others: object) -> dict[str, object]:
    return {"question": "Who sat?", "context": PASSAGE, "answer": answer, **others}


def table_at(path: Path, *rows: Mapping[str, object]) -> Path:
    """CSV, TSV, JSONL or Parquet, as the name says."""
    if path.suffix not in (".csv", ".tsv"):
        return rows_at(path, *rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="," if path.suffix == ".csv" else "\t")
        writer.writerows([list(rows[0]), *(row.values() for row in rows)])
    return path


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_a_text_that_stands_where_the_column_beside_it_says(
    tmp_path: Path, name: str
) -> None:
    rows = [
        _row("cat", answer_start=11, id="a"),
        _row("mat", answer_start=0, id="b"),
        _row(" ", answer_start=None, id="c"),
        _row("dog", answer_start=4, id="d"),
    ]
    file = read(table_at(tmp_path / name, *rows))
    assert [each.key for each in file.examples] == ["a", "b", "c", "d"]
    assert [each.answers for each in file.examples] == [
        (Answer(text="cat", start=11),), (Answer(text="mat", start=27),), (), (),
    ]  # fmt: skip
    assert [each.gold for each in file.examples] == [("cat",), ("mat",), (), ("dog",)]
    assert list(file.unlearnable) == [3]
    assert file.notes == (
        "1 answer not where the file says, and found elsewhere in the passage: moved",
    )


@pytest.mark.parametrize("name", NAMES)
def test_without_its_place_an_answer_is_found_that_stands_in_the_passage_once(
    tmp_path: Path, name: str
) -> None:
    columns = QuestionColumns(key="")
    path = table_at(tmp_path / name, _row("mat"), _row(""), _row("dog"))
    file = read(path, columns)
    assert [each.answers for each in file.examples] == [(Answer(text="mat", start=27),), (), ()]
    assert file.notes == (
        "1 answer of which the file does not say where: found by the text, which stands in the "
        "passage once",
    )
    fault = file.unlearnable[2]
    assert fault == f"{file.examples[2].place}: its answer 'dog' is not in the passage"
    table_at(path, _row("mat"), _row("cat"))
    told = r"(:3|:2|row 2): the answer 'cat' stands in the passage more than once, at 4 and at 11"
    with pytest.raises(ValueError, match=rf"{told} .*\(--start-column\)"):
        read(path, columns)
    left = read(path, columns, FileOptions(skip_malformed=True))
    assert (len(left.examples), len(left.left_out)) == (1, 1)


def test_ids_may_be_missing_in_csv_and_must_be_unique_where_they_are(tmp_path: Path) -> None:
    path = table_at(tmp_path / "a.csv", _row("mat"), _row("mat"))
    assert [each.key for each in read(path).examples] == [f"{path}:2", f"{path}:3"]
    with pytest.raises(ValueError, match=r"a.csv:3: id '1' stands at .*a.csv:2 too"):
        read(table_at(path, _row("mat", id=1), _row("mat", id=1)))


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ("4.0", 4), ("", 27), (" 4 ", 4),
        ("four", "a.csv:2: an answer starts at the number of its first character .* 'four'"),
    ],
)  # fmt: skip
def test_a_start_is_a_whole_number_however_it_is_written(
    tmp_path: Path, start: str, told: object
) -> None:
    text = "cat" if start.strip() else "mat"
    path = table_at(tmp_path / "a.csv", _row(text, answer_start=start))
    if isinstance(told, str):
        with pytest.raises(ValueError, match=told):
            read(path)
    else:
        assert read(path).examples[0].answers[0].start == told


def test_an_empty_answer_begins_nowhere(tmp_path: Path) -> None:
    path = table_at(tmp_path / "a.csv", _row("mat", answer_start=27), _row("", answer_start="none"))
    assert [each.gold for each in read(path).examples] == [("mat",), ()]


def test_columns_have_any_names_or_numbers(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.tsv", f"Who sat?\t{PASSAGE}\tcat\t11")
    columns = QuestionColumns(key="", question="1", passage="2", answers="3", start="4")
    (found,) = read(path, columns, FileOptions(has_header=False)).examples
    assert (found.question, found.answers) == ("Who sat?", (Answer(text="cat", start=11),))
