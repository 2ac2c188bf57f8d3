r"""Blocks of text -> whole documents, for the formats whose borders stand in the text itself.

Only borders are found here, so that one process can feed many workers; nothing is cleaned. Memory
is bounded: a document that never ends is cut, and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

LONGEST_DOCUMENT = 1 << 22
"""Characters after which a document is cut: several novels, and small beside a worker's memory."""
CUT = "documents cut at 4,194,304 characters"

_BLANK_LINES = re.compile(r"\n\s*\n")


def documents_between_blank_lines(blocks: Iterable[str], skipped: Counter[str]) -> Iterator[str]:
    """The original's format: one sentence a line, blank lines between documents."""
    rest = ""
    for block in blocks:
        *whole, rest = _BLANK_LINES.split(rest + block)
        yield from filter(_has_text, whole)
        while len(rest) > LONGEST_DOCUMENT:
            piece, rest = cut_off(rest)
            skipped[CUT] += 1
            yield piece
    if _has_text(rest):
        yield rest


def documents_in_doc_tags(blocks: Iterable[str], skipped: Counter[str]) -> Iterator[str]:
    """WikiExtractor's `<doc ...>` elements, each with its opening line, without `</doc>`."""
    rest = ""
    for block in blocks:
        *whole, rest = (rest + block).split("</doc>")
        yield from whole
        while len(rest) > LONGEST_DOCUMENT:
            piece, rest = cut_off(rest)
            skipped[CUT] += 1
            yield piece
    if _has_text(rest):
        yield rest


def whole_file(blocks: Iterable[str], skipped: Counter[str]) -> Iterator[str]:
    """A file of prose is one document; a longer one is cut at paragraph borders."""
    rest = ""
    for block in blocks:
        rest += block
        while len(rest) > LONGEST_DOCUMENT:
            piece, rest = cut_off(rest)
            skipped[CUT] += 1
            yield piece
    if _has_text(rest):
        yield rest


def cut_off(text: str) -> tuple[str, str]:
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
