r"""Blocks of text -> whole documents, for the formats whose borders stand in the text itself.

Only borders are found here, so that one process can feed many workers; nothing is cleaned. Memory
is bounded: a document that never ends comes in pieces, and each cut is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

LONGEST_DOCUMENT = 1 << 22
"""Characters after which a document is cut: several novels, and small beside a worker's memory."""
CUT = "documents cut at 4,194,304 characters"

_BLANK_LINES = re.compile(r"\n\s*\n")


def documents_between_blank_lines(blocks: Iterable[str], skipped: Counter[str]) -> Iterator[str]:
    """The original's format: one sentence a line, blank lines between documents."""
    return _streamed(blocks, _BLANK_LINES.split, skipped)


def documents_in_doc_tags(blocks: Iterable[str], skipped: Counter[str]) -> Iterator[str]:
    """WikiExtractor's `<doc ...>` elements, each with its opening line, without `</doc>`."""
    return _streamed(blocks, lambda text: text.split("</doc>"), skipped)


def whole_file(blocks: Iterable[str], skipped: Counter[str]) -> Iterator[str]:
    """A file of prose is one document."""
    return _streamed(blocks, lambda text: [text], skipped)


def cut(document: str, skipped: Counter[str]) -> list[str]:
    """The document in pieces of at most `LONGEST_DOCUMENT` characters; counts the cuts."""
    pieces = []
    while len(document) > LONGEST_DOCUMENT:
        piece, document = _cut_off(document)
        pieces.append(piece)
    skipped.update({CUT: len(pieces)} if pieces else {})
    return [*pieces, document]


def _streamed(
    blocks: Iterable[str], split: Callable[[str], list[str]], skipped: Counter[str]
) -> Iterator[str]:
    """Yields what `split` finds; what has not ended yet is cut, so that it never fills memory."""
    rest = ""
    for block in blocks:
        *whole, rest = split(rest + block)
        *pieces, rest = cut(rest, skipped)
        yield from filter(_has_text, whole + pieces)
    if _has_text(rest):
        yield rest


def _cut_off(text: str) -> tuple[str, str]:
    """Cuts at the last paragraph border of the first `LONGEST_DOCUMENT` characters.

    Without one: at the last line end, the last blank, or (a text without blanks) at the limit.
    """
    for border in ("\n\n", "\n", " "):
        at = text.rfind(border, 1, LONGEST_DOCUMENT)
        if at > 0:
            return text[:at], text[at + len(border) :]
    return text[:LONGEST_DOCUMENT], text[LONGEST_DOCUMENT:]


def _has_text(piece: str) -> bool:
    return piece != "" and not piece.isspace()
