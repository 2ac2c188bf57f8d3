"""A file of one word a line -> sentences of words and tags, and which document each is in.

CoNLL's columns (CoNLL-2003 and its kin: blanks or tabs between them, an empty line behind a
sentence, a -DOCSTART- line before a document), and files of one character a line (KLUE-NER), whose
words may be a blank. Nothing here knows what a tag means.

Source: Tjong Kim Sang and De Meulder 2003; Park et al. 2021 (KLUE), section 3.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertsmith.reading.counted import counted
from bertsmith.reading.faults import refuse
from bertsmith.reading.lines import Numbered, numbered_lines

DOCUMENT_START = "-DOCSTART-"
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, kw_only=True)
class TaggedSentence:
    """The words of one sentence."""

    place: str
    """`file:line` of the first word."""
    words: tuple[str, ...]
    """As they stand; in files of characters a word is one character, blanks included."""
    tags: tuple[str, ...] | None
    """One a word; None in a file of a single column."""
    document: int
    """Which document of the file it is in, from 0: all in one where the file marks none."""
    lines: tuple[int, ...] = ()
    """The line of each word, in files of a word a line."""

    def place_of(self, word: int) -> str:
        """Where a word stands, counted from 0; in a row of words the place is the row's."""
        return f"{self.place.rpartition(':')[0]}:{self.lines[word]}" if self.lines else self.place


def tagged_sentences(
    path: Path, tag_column: int = -1, on_malformed: Callable[[str], None] = refuse
) -> Iterator[TaggedSentence]:
    """The sentences of a file, in its order; words stand in the first column.

    `tag_column` counts from 0, or from the end below it. A sentence with a line of another width
    than the first, or with a word of no characters, is told to `on_malformed`, and left out. Raises
    FileNotFoundError; ValueError, with file and line, for what nobody is told of, for a column that
    is not there and bytes that are no text, and for a file without sentences.
    """
    _require_file(path)
    reader = _Reader(path, tag_column)
    for block in _blocks(path):
        try:
            sentence = reader.sentence(block)
        except _BrokenSentence as fault:
            on_malformed(str(fault))
            continue
        if sentence is not None:
            yield sentence
    if reader.num_sentences == 0:
        raise ValueError(f"{path}: no sentences: expected a word a line and empty lines between")


def marks_documents(path: Path) -> bool:
    """Whether a line says that a document begins."""
    _require_file(path)
    return any(_begins_document(line) for _, _, line in numbered_lines(path))


def is_comment(line: str) -> bool:
    """KLUE's `## id<tab>sentence` before its characters, CoNLL-U's `# text = ...`."""
    mark, _, rest = line.partition(" ")
    return (mark == "##" and "\t" in rest) or (mark == "#" and " = " in rest)


class _BrokenSentence(ValueError):
    """A sentence that cannot be read, among others that perhaps can."""


class _Reader:
    """What is known of a file while it is read."""

    def __init__(self, path: Path, tag_column: int) -> None:
        self.path = path
        self.tag_column = tag_column
        self.document = 0
        self.num_sentences = 0
        self.width = 0
        self.width_line = 0
        self.has_tabs = False

    def sentence(self, block: Sequence[Numbered[str]]) -> TaggedSentence | None:
        """None for a block without words, such as the one that begins a document."""
        lines = [self._fields(number, line) for number, _, line in block if not is_comment(line)]
        words = [fields for fields in lines if fields[1][0] != DOCUMENT_START]
        if len(words) < len(lines) and self.num_sentences:
            self.document += 1
        if not words:
            return None
        self.num_sentences += 1
        return TaggedSentence(
            place=f"{self.path}:{words[0][0]}",
            words=tuple(fields[0] for _, fields in words),
            tags=tuple(self._tag(*line) for line in words) if self.width > 1 else None,
            document=self.document,
            lines=tuple(number for number, _ in words),
        )

    def _fields(self, number: int, line: str) -> tuple[int, list[str]]:
        if not self.width:
            self.has_tabs = "\t" in line
        fields = line.split("\t") if self.has_tabs else line.split()
        if not self.width:
            self.width, self.width_line = len(fields), number
        if len(fields) != self.width:
            raise _BrokenSentence(
                f"{self.path}:{number}: {counted(len(fields), 'column')}, expected {self.width} as "
                f"in line {self.width_line}: {line!r:.60}"
            )
        if not fields[0]:
            raise _BrokenSentence(f"{self.path}:{number}: a word of no characters: {line!r:.60}")
        return number, fields

    def _tag(self, number: int, fields: list[str]) -> str:
        if not -self.width <= self.tag_column < self.width:
            raise ValueError(
                f"{self.path}:{number}: no column {self.tag_column}, found {self.width} (counted "
                f"from 0, or from the end by -1, -2, ...)"
            )
        return fields[self.tag_column]


def _require_file(path: Path) -> None:
    if not path.is_file():
        told = "is a directory, expected a file" if path.is_dir() else "no such file"
        raise FileNotFoundError(f"{path}: {told}")


def _blocks(path: Path) -> Iterator[list[Numbered[str]]]:
    """Runs of lines that are not empty; one that begins a document begins a run.

    A line of a tab and blanks is not empty: its word is a blank.
    """
    block: list[Numbered[str]] = []
    for number, position, raw in numbered_lines(path):
        line = raw.removeprefix(_BYTE_ORDER_MARK) if number == 1 else raw
        is_empty = not line.strip() and "\t" not in line
        if block and (is_empty or _begins_document(line)):
            yield block
            block = []
        if not is_empty:
            block.append((number, position, line))
    if block:
        yield block


def _begins_document(line: str) -> bool:
    return line.split(maxsplit=1)[:1] == [DOCUMENT_START]
