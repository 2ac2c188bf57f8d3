"""Sentences come out of tables of a word a row, and are checked as those of other files are."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith.tasks.own.files import FileOptions
from bertsmith.tasks.own.word_columns import (
    KAGGLE,
    WORD_A_ROW,
    WordColumns,
    is_word_table,
    layout_of,
    word_rows_of,
)
from bertsmith.tasks.own.words import read
from tests.tasks.own.written import lines_at, rows_at

ROWS = ("1,Anna,B-PER", "1,slept,O", "2,In,O", "2,Rome,B-LOC")
HEADER = "sentence_id,word,tag"


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_a_word_a_row_is_read_from_every_table(tmp_path: Path, name: str) -> None:
    path, cells = tmp_path / name, [row.split(",") for row in ROWS]
    if path.suffix in (".csv", ".tsv"):
        between = "," if path.suffix == ".csv" else "\t"
        lines_at(path, *(between.join(row) for row in (HEADER.split(","), *cells)))
    else:
        rows_at(path, *(dict(zip(HEADER.split(","), row, strict=True)) for row in cells))
    first, second = read(path, WORD_A_ROW).examples
    assert (first.words, first.tags) == (("Anna", "slept"), ("B-PER", "O"))
    assert (second.words, second.tags) == (("In", "Rome"), ("O", "B-LOC"))
    assert (first.document, second.document) == (0, 1)
    if path.suffix != ".parquet":
        line = 4 + (path.suffix != ".jsonl")
        assert second.place_of(1) == f"{path}:{line}"


def test_sentences_may_be_numbered_at_their_first_word_alone(tmp_path: Path) -> None:
    path = lines_at(
        tmp_path / "a.csv", "Sentence #,Word,POS,Tag", "Sentence: 1,Anna,NNP,B-PER", ",slept,VBD,O",
        "Sentence: 2,\"\"\"\",,O", ",Rome,NNP,B-LOC",
    )  # fmt: skip
    assert word_rows_of(["Sentence #", "Word"]) is KAGGLE
    file = read(path, KAGGLE)
    assert [each.words for each in file.examples] == [("Anna", "slept"), ('"', "Rome")]
    assert file.notes == ("2 words have an empty 'Sentence #': in the sentence of the row before",)
    with pytest.raises(ValueError, match=r"a.csv:2: no sentence in 'Sentence #', and no row"):
        read(lines_at(path, "Sentence #,Word,POS,Tag", ",slept,VBD,O"), KAGGLE)


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_number_that_is_none_goes_on_with_the_sentence_before(tmp_path: Path, name: str) -> None:
    numbers = (1.0, float("nan"), None, 2.0)
    rows = [{"sentence_id": number, "word": "a", "tag": "O"} for number in numbers]
    found = read(rows_at(tmp_path / name, *rows), WORD_A_ROW).examples
    assert [len(each.words) for each in found] == [3, 1]


def test_rows_of_one_sentence_are_neighbours(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.csv", HEADER, *ROWS, "1,again,O")
    with pytest.raises(
        ValueError,
        match=r"a.csv:6: sentence '1' began at .*a.csv:2, and .* must be neighbours, so sort",
    ):
        read(path, WORD_A_ROW)


def test_sentences_may_be_counted_anew_in_each_document(tmp_path: Path) -> None:
    path = lines_at(
        tmp_path / "a.csv", f"{HEADER},paper", "1,a,O,x", "2,b,B-LOC,x", "1,c,O,y", "1,d,O,z"
    )
    columns = WordColumns(words="word", tags="tag", sentence="sentence_id", document="paper")
    file = read(path, columns)
    assert [each.words for each in file.examples] == [("a",), ("b",), ("c",), ("d",)]
    assert [each.document for each in file.examples] == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("row", "message", "num_left"),
    [
        ("1,x", r"a.csv:3: 2 columns, expected 3 as in the first row", 2),
        ("1,,O", r"a.csv:3: a word of no characters", 2),
        ("1,x,", r"a.csv:3: the label is empty", 2),
        ("1,x,LOC", r"a.csv:3: word 2 \('x'\): 'LOC' is no tag", 2),
    ],
)
def test_a_broken_row_leaves_its_sentence_out_where_that_is_asked_for(
    tmp_path: Path, row: str, message: str, num_left: int
) -> None:
    path = lines_at(tmp_path / "a.csv", HEADER, ROWS[0], row, *ROWS[1:], "3,so,O")
    with pytest.raises(ValueError, match=rf"{message}.*--skip-malformed"):
        read(path, WORD_A_ROW)
    file = read(path, WORD_A_ROW, FileOptions(skip_malformed=True))
    assert (len(file.examples), len(file.left_out)) == (num_left, 1)


def test_a_row_that_cannot_be_read_may_belong_to_either_of_two_sentences(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.csv", HEADER, *ROWS[:2], "torn", *ROWS[2:], "3,so,O")
    file = read(path, WORD_A_ROW, FileOptions(skip_malformed=True))
    assert ([each.words for each in file.examples], len(file.left_out)) == ([("so",)], 2)


def test_tags_may_be_numbers_with_names(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.csv", HEADER, "1,Anna,1", "1,slept,0")
    columns = WordColumns(
        words="word", tags="tag", sentence="sentence_id", tag_names=("O", "B-PER")
    )
    assert read(path, columns).examples[0].tags == ("B-PER", "O")
    numbered = rows_at(tmp_path / "a.jsonl", {"sentence_id": 1, "word": "Anna", "tag": 1})
    with pytest.raises(ValueError, match=r"a.jsonl:1: the tag is a number.*--tag-names"):
        read(numbered, WORD_A_ROW)


def test_a_missing_column_is_named_with_its_option(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.csv", "sentence,word,tag", *ROWS)
    with pytest.raises(
        ValueError, match=r"no column 'sentence_id'.* with --sentence-column.*mean 'sentence'\?"
    ):
        read(path, WORD_A_ROW)
    assert len(read(path, WordColumns(words="word", tags="tag", sentence="sentence")).examples) == 2
    with pytest.raises(ValueError, match="a table of texts is read by --texts"):
        read(lines_at(path, "text,label", "a,b"), WORD_A_ROW)


@pytest.mark.parametrize(
    ("name", "line", "sentence", "layout"),
    [
        ("a.csv", "text,label", "", "words"),
        ("a.tsv", "sentence_id\tword\ttag", "", "words"),
        ("a.tsv", "Anna\tB-PER", "", "lines"),
        ("a.tsv", "number\tword\ttag", "number", "words"),
        ("a.txt", "Anna B-PER", "", "lines"),
        ("eng.testa", "Anna B-PER", "", "lines"),
        ("a.jsonl", '{"tokens": []}', "", "sentences"),
        ("a.jsonl", '{"n": 1}', "n", "words"),
    ],
)
def test_how_a_file_is_laid_out(
    tmp_path: Path, name: str, line: str, sentence: str, layout: str
) -> None:
    path = lines_at(tmp_path / name, line)
    assert layout_of(path, sentence) == layout
    assert is_word_table(path, sentence, has_header=True) is bool(sentence)
