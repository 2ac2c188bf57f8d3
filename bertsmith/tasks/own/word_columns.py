"""A file of tagged words -> how it is laid out, and where words and tags stand.

Three layouts: lines of CoNLL's columns; rows of a sentence each, with lists; and rows of a word
each, with a column that says which sentence it is in. Two of the last have names, and are values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertsmith.reading import tables
from bertsmith.reading.detect import suffix_of

Layout = Literal["lines", "sentences", "words"]

_OF_SENTENCES = (".jsonl", ".ndjson", ".parquet")
_OF_WORDS = ".csv"
_OF_EITHER = (".tsv", ".tab")


@dataclass(frozen=True, kw_only=True)
class WordColumns:
    """Where words and tags stand."""

    words: str = "tokens"
    """A column of lists, or of words where `sentence` is given; CoNLL's words stand first."""
    tags: str | None = "ner_tags"
    """Another; None for words to predict on."""
    sentence: str = ""
    """Of rows of a word each: equal for those of one sentence, or empty behind its first."""
    tag_names: tuple[str, ...] = ()
    """Of tags that are numbers, the names of 0, 1, ...; the Hub's Parquet brings its own."""
    document: str = ""
    """A column that is equal for sentences of one document; empty: each is one."""
    tag_column: int = -1
    """Of CoNLL's files: from 0, or from the end below it."""
    is_one_document: bool = False
    """Whether a file of CoNLL's columns that marks no documents is one, not each sentence alone."""


WORD_A_ROW = WordColumns(words="word", tags="tag", sentence="sentence_id")
KAGGLE = WordColumns(words="Word", tags="Tag", sentence="Sentence #")
"""The annotated corpus of Kaggle, whose sentences are numbered at their first word."""


def layout_of(path: Path, sentence: str = "", *, has_header: bool = True) -> Layout:
    """How a file is laid out, by its name; of tabs by whether it has a known column of sentences.

    `sentence` is such a column where one is named. Raises as `tables.columns` does.
    """
    suffix = suffix_of(path.name)
    if sentence or suffix == _OF_WORDS:
        return "words"
    if suffix in _OF_SENTENCES:
        return "sentences"
    if suffix in _OF_EITHER and path.is_file() and has_header:
        known = {WORD_A_ROW.sentence, KAGGLE.sentence}
        return "words" if known & set(tables.columns(path)) else "lines"
    return "lines"


def is_word_table(path: Path, sentence: str, *, has_header: bool) -> bool:
    """Whether it is a table with the column `sentence`, which is empty for none.

    Raises as `tables.columns` does.
    """
    is_table = suffix_of(path.name) in (_OF_WORDS, *_OF_EITHER, *_OF_SENTENCES)
    return bool(sentence) and is_table and sentence in tables.columns(path, has_header=has_header)


def word_rows_of(columns: Sequence[str]) -> WordColumns:
    """The layout that has a name and these columns; else the first."""
    return KAGGLE if KAGGLE.sentence in columns else WORD_A_ROW
