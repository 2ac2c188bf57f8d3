"""Sentences come out whole, with their documents, from CoNLL's columns and KLUE's characters."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from bertsmith.reading.conll import TaggedSentence, tagged_sentences


def _read(tmp_path: Path, text: str, tag_column: int = -1) -> list[TaggedSentence]:
    path = tmp_path / "words.txt"
    path.write_text(text, encoding="utf-8")
    return list(tagged_sentences(path, tag_column))


def test_sentences_documents_and_places(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\n. . O O\n\n\nPeter NNP I-NP I-PER\n\n" \
        "-DOCSTART- -X- O O\n\nHe PRP I-NP O"  # fmt: skip
    first, second, third = _read(tmp_path, text)
    assert (first.words, first.tags) == (("EU", "."), ("I-ORG", "O"))
    assert first.place.endswith("words.txt:3")
    assert [each.document for each in (first, second, third)] == [0, 0, 1]
    assert third.words == ("He",)
    assert _read(tmp_path, text, 1)[0].tags == ("NNP", ".")


def test_characters_with_blanks_comments_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = "\ufeff## id-1\t<수:QT> 학\n수\tB-QT\n \tO\n학\tO\n\n# text = no words\n#\tO\n"
    first, second = _read(tmp_path, text)
    assert (first.words, first.tags) == (("수", " ", "학"), ("B-QT", "O", "O"))
    assert second.words == ("#",)


def test_a_word_that_looks_like_a_comment_is_a_word(tmp_path: Path) -> None:
    (sentence,) = _read(tmp_path, "the O\n## O\n# O\nx B-A\n")
    assert sentence.words == ("the", "##", "#", "x")
    (column,) = _read(tmp_path, "the\n##\n")
    assert column.words == ("the", "##")


def test_a_document_begins_at_its_line_without_an_empty_one_before(tmp_path: Path) -> None:
    text = "a O\n-DOCSTART- O\nb O\n-DOCSTART-x O\n"
    found = _read(tmp_path, text)
    assert [(each.words, each.document) for each in found] == [
        (("a",), 0),
        (("b", "-DOCSTART-x"), 1),
    ]


def test_a_single_column_has_no_tags(tmp_path: Path) -> None:
    (sentence,) = _read(tmp_path, "a\nb\n")
    assert (sentence.words, sentence.tags) == (("a", "b"), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\nb\n", r"words.txt:2: 1 column, expected 2 as in line 1: 'b'"),
        ("a\tO\n\tO\n", r"words.txt:2: a word of no characters"),
        ("\n\n", "no sentences"),
        ("-DOCSTART- O\n", "no sentences"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _read(tmp_path, text)


def test_a_column_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no column 3, found 2"):
        _read(tmp_path, "a O\n", 3)
    with pytest.raises(FileNotFoundError):
        next(tagged_sentences(tmp_path / "none.txt"))


@pytest.mark.data
def test_the_real_sets_have_their_published_sizes() -> None:
    data = Path(os.environ["BERTSMITH_DATA"])
    # Tjong Kim Sang and De Meulder 2003, table 1: 946 articles, 14,987 sentences with -DOCSTART-.
    sentences = list(tagged_sentences(data / "conll2003/eng.train.gz"))
    assert len(sentences) == 14_041
    assert sum(len(sentence.words) for sentence in sentences) == 203_621
    # The first document's line stands at the end of this copy, and marks nothing there.
    assert len({sentence.document for sentence in sentences}) == 946
    korean = list(tagged_sentences(data / "korean/klue_ner/train.tsv.gz"))
    assert len(korean) == 4_000
    kinds = Counter(tag for sentence in korean for tag in sentence.tags or ())
    assert {tag[2:] for tag in kinds if tag != "O"} == {"PS", "LC", "OG", "DT", "TI", "QT"}
    assert any(" " in sentence.words for sentence in korean)
