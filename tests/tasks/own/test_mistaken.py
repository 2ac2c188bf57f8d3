"""A file that holds no words with tags is refused with what it is, and which option reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith.tasks.own.words import read
from tests.tasks.own.written import lines_at

MISTAKEN = {
    "a table between commas": (
        "a.csv", ("text,label", "the dog,a"),
        "a.csv: a table with the columns 'text', 'label'; words with tags are read from CoNLL's "
        "columns (a word a line, its tag behind a tab or a blank: .tsv, .txt), or from .jsonl or "
        ".parquet with a list of words and one of tags a row, or from a table of a word a row that "
        "has a column of its sentence (--sentence-column); a table of texts is read by --texts",
    ),
    "a table of choices": (
        "a.csv", ("sent1,sent2,ending0,ending1,ending2,ending3,label", "a,b,c,d,e,f,0"),
        "a table of questions with choices is read by --choices",
    ),
    "JSON": (
        "a.json", ('{"data": []}',),
        "a.json: one JSON object; words with tags .* (--sentence-column); SQuAD's questions are "
        "read by --squad",
    ),
    "a table between tabs": (
        "a.tsv", ("text\tlabel", "the dog likes my cat\ta", "he is in paris\tb"),
        "a.tsv:2: 'the dog likes my cat' is a text, as in 2 of 2 lines; words with tags .* a "
        "table of texts is read by --texts, this one with --text-columns text --label-column label",
    ),
    "a table whose texts stand last": (
        "a.tsv", ("about\twords", "a\tthe dog likes my cat", "b\the is in paris"),
        "a.tsv:2: 'the dog likes my cat' is a text, .* --text-columns words --label-column about",
    ),
    "a table of pairs without a header": (
        "a.tsv", ("1\tthe dog\tmy cat\tyes", "2\tthe cat\tmy dog\tno"),
        "a.tsv:1: 'the dog' is a text, .* --no-header --text-columns 2 3 --label-column 4",
    ),
    "words without tags": (
        "a.txt", ("the", "dog", "", "my"),
        "a.txt:1: 'the' stands alone, expected a word and its tag, as in 'Rome B-LOC', in every "
        "line: nothing can be learned of words without tags",
    ),
    "texts without columns": (
        "a.txt", ("the dog likes my cat", "he is hairy"),
        "a.txt:2: 3 columns, expected 5 as in line 1: 'he is hairy' (a line holds one word and "
        "its tag; whole texts with labels are read by --texts, as a table); mend it, or leave such",
    ),
    "a spreadsheet": (
        "a.xlsx", ("PK",),
        "a.xlsx: a spreadsheet (.xlsx) is not read: export the sheet as CSV in UTF-8 from the",
    ),
    "rows of texts": (
        "a.jsonl", ('{"text": "the dog", "label": "a"}',),
        "a.jsonl: no column 'tokens', found 'text', 'label': name the lists of words with "
        "--word-column and those of tags with --tag-column; a table of texts is read by --texts",
    ),
    "rows with another name": (
        "a.jsonl", ('{"token": ["the", "dog"], "ner_tags": ["O", "O"]}',),
        "a.jsonl: no column 'tokens', found 'token', .* --tag-column; did you mean 'token'?",
    ),
    "rows of questions": (
        "a.jsonl", ('{"id": "1", "question": "a", "context": "b", "answers": []}',),
        "questions about passages are read by --squad",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKEN)
def test_a_file_that_holds_no_tagged_words_is_refused_with_what_it_is(
    tmp_path: Path, name: str
) -> None:
    file, lines, told = MISTAKEN[name]
    with pytest.raises(ValueError, match=file) as error:
        read(lines_at(tmp_path / file, *lines))
    for part in told.split(" .* "):
        assert part in str(error.value)


def test_a_few_words_with_blanks_are_words(tmp_path: Path) -> None:
    path = lines_at(tmp_path / "a.tsv", "about\tO", "1 000\tO", "euros\tO", "", " \tO", "paid\tO")
    assert [each.words for each in read(path).examples] == [
        ("about", "1 000", "euros"),
        (" ", "paid"),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ("dog\tan animal\tO", "he\ta pronoun\tO", "", "dog\tan animal\tO"),
        ("Hà Nội\tB-LOC", "thủ đô\tO", "", "Việt Nam\tB-LOC"),
    ],
)
def test_with_empty_lines_between_sentences_any_column_may_hold_blanks(
    tmp_path: Path, lines: tuple[str, ...]
) -> None:
    found = read(lines_at(tmp_path / "a.tsv", *lines)).examples
    assert [len(each.words) for each in found] == [2, 1]
