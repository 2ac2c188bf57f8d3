"""Every row of a file is a question or says why it is none, and keeps what could be read of it."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.commands.asked_entry import Entry, RowFiles
from bertsmith.commands.asked_rows import units_of_file
from bertsmith.commands.questions import STANDARD_INPUT
from bertsmith.tasks.asked import TextToTag
from bertsmith.tasks.own.unlabelled import AskedRows, QuestionsAsked, TextsAsked, WordsAsked

TEXTS = TextsAsked(texts=("text",))
WORDS = WordsAsked(words=("tokens", "words", "text"), document="", by_character=False)
QUESTIONS = QuestionsAsked(question="question", passage="context", key="id")


def entries(file: Path, rows: AskedRows, how: RowFiles) -> list[Entry]:
    return [entry for unit, _ in units_of_file(file, rows, how) for entry in unit]


def test_a_broken_row_keeps_what_could_be_read(tmp_path: Path) -> None:
    how = RowFiles(keep=("id",), skip_malformed=True)
    (tmp_path / "a.csv").write_text("text,id\na dog,1\na cat\n,3\n", "utf-8")
    (tmp_path / "a.jsonl").write_text(
        '{"text": "a dog", "id": 1}\n{"id": 2}\n{"text": "\n{"text": "a cat"}\n', "utf-8"
    )
    of_csv = entries(tmp_path / "a.csv", TEXTS, how)
    assert [entry.kept for entry in of_csv] == [{"id": "1"}, {}, {"id": "3"}]
    assert [entry.fault == "" for entry in of_csv] == [True, False, False]
    of_jsonl = entries(tmp_path / "a.jsonl", TEXTS, how)
    assert [entry.kept for entry in of_jsonl] == [{"id": 1}, {"id": 2}, {}, {}]
    assert [entry.fault == "" for entry in of_jsonl] == [True, False, False, True]
    assert "a.jsonl:2: no column 'text'" in of_jsonl[1].fault
    assert "a.jsonl:3: not JSON" in of_jsonl[2].fault


@pytest.mark.parametrize(
    ("name", "rows", "content", "what"),
    [
        ("a.conll", WORDS, "paris O\n", "CoNLL's columns"),
        ("a.json", QUESTIONS, '{"data": []}', "SQuAD's JSON"),
        ("a.txt", TEXTS, "paris\n", "plain text"),
    ],
)
def test_what_has_no_named_columns_keeps_none(
    name: str, rows: AskedRows, content: str, what: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(ValueError, match=f"{name} is {what}, which has none of a name"):
        entries(tmp_path / name, rows, RowFiles(keep=("id",)))


def test_a_column_to_keep_that_is_not_there_is_told_with_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.tsv").write_text("text\tid\na dog\t1\n", "utf-8")
    told = r"no column 'nope'; the columns are 'text', 'id': name those to keep with --keep$"
    with pytest.raises(ValueError, match=told):
        entries(tmp_path / "a.tsv", TEXTS, RowFiles(keep=("nope",)))
    piped = io.TextIOWrapper(io.BytesIO(b'{"text": "a dog", "id": 1}\n'))
    monkeypatch.setattr(sys, "stdin", piped)
    with pytest.raises(ValueError, match=told):
        entries(STANDARD_INPUT, TEXTS, RowFiles(keep=("nope",), piped="jsonl"))
    other = replace(TEXTS, texts=("id", "nope"))
    with pytest.raises(ValueError, match="name those to read with --columns"):
        entries(tmp_path / "a.tsv", other, RowFiles(keep=("id",)))


def texts(file: Path, rows: AskedRows, how: RowFiles) -> list[str]:
    return [
        entry.asked.text for entry in entries(file, rows, how) if isinstance(entry.asked, TextToTag)
    ]


def test_a_table_between_tabs_is_tagged_by_its_texts(tmp_path: Path) -> None:
    table = tmp_path / "a.tsv"
    table.write_text("id\ttext\n1\tthe dog\n2\tmy cat\n", "utf-8")
    assert texts(table, WORDS, RowFiles()) == ["the dog", "my cat"]
    assert texts(table, WORDS, RowFiles(is_conll=True)) == ["id 1 2"]
    named = replace(WORDS, words=("id",), is_named=True)
    assert texts(table, named, RowFiles()) == ["1", "2"]
    with pytest.raises(ValueError, match=r"a\.tsv is read as CoNLL's columns, of which"):
        entries(table, named, RowFiles(is_conll=True))


def test_tags_are_never_tagged(tmp_path: Path) -> None:
    lines, how = tmp_path / "a.txt", RowFiles()
    lines.write_text("paris B-LOC\nlikes O\n\ndog O\n", "utf-8")
    assert texts(lines, WORDS, how) == ["paris likes", "dog"]
    lines.write_text("paris likes\nmy dog\n", "utf-8")
    assert texts(lines, WORDS, how) == ["paris likes", "my dog"]


def test_a_pipe_has_no_sentences_of_word_lines() -> None:
    with pytest.raises(ValueError, match="--conll reads files, and no pipe"):
        entries(STANDARD_INPUT, WORDS, RowFiles(is_conll=True))


def test_a_broken_row_of_a_pipe_is_told_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = b'{"text": "a dog", "id": 1}\n{"text": \n\n{"id": 3}\n[]\n{"text": "a cat"}\n'
    how = RowFiles(keep=("id",), piped="jsonl", skip_malformed=True)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
    found = entries(STANDARD_INPUT, TEXTS, how)
    assert [entry.fault == "" for entry in found] == [True, False, False, False, True]
    assert [entry.kept for entry in found] == [{"id": 1}, {}, {"id": 3}, {}, {}]
    assert "standard input:2: not JSON" in found[1].fault
    assert "standard input:4: no column 'text'" in found[2].fault
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
    with pytest.raises(ValueError, match="standard input:2: not JSON"):
        entries(STANDARD_INPUT, TEXTS, replace(how, skip_malformed=False))


def test_words_with_tags_through_a_pipe_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"paris is big\nparis B-LOC\n")))
    with pytest.raises(ValueError, match="standard input:2: 'paris B-LOC' is a word and its tag"):
        entries(STANDARD_INPUT, replace(WORDS, tags=("O", "B-LOC")), RowFiles())
