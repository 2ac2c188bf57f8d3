r"""Free prose, wrapped by hand or not -> paragraphs, without headings and Gutenberg's frame.

It does not know files: one document's text comes in, and where it was cut off a longer file does
not matter. Line ends are `\n` already.
"""

from __future__ import annotations

import re
from collections import Counter

from bertsmith.data.passages import (
    HEADINGS,
    SEPARATORS,
    ends_like_a_sentence,
    has_letters,
)

GUTENBERG = "characters of Project Gutenberg header and licence"
ILLUSTRATIONS = "captions of illustrations"

WIDEST_WRAP = 100
"""Columns; nobody wraps by hand wider than this."""

_LONGEST_HEADER = 40_000
_HEADER_END = re.compile(
    r"^.*\*\*\*[ ]*START OF (?:THE|THIS) PROJECT GUTENBERG[^*]*?(?:\*\*\*.*|\n\s*\n)|"
    r"^.*\*END[* ]*THE SMALL PRINT!.*$",
    re.MULTILINE | re.IGNORECASE,
)
_FOOTER = re.compile(
    r"^[ ]*(?:\*\*\*[ ]*)?END OF (?:THE |THIS )?PROJECT GUTENBERG|^[ ]*\*\*\*[ ]*START: FULL LICENSE"
    r"|^[ ]*\*\*\*START\*\*THE SMALL PRINT",
    re.MULTILINE | re.IGNORECASE,
)
_CREDIT = re.compile(
    r"\s*(?:(?:this )?e-?(?:text|book) )?(?:was )?(?:produced|prepared|transcribed|scanned)\b.*"
    r"\bby\b"
    r"|.*proofread|.*\[?transcriber.s note",
    re.IGNORECASE,
)
_ITALICS = re.compile(r"_([^_]+)_")
_JOINED_AFTER_DASH = re.compile(r"(?<=[\w,.;:!?'’-]-)\n\s*(?=[\w\"“'‘])")
_PARAGRAPH_BORDER = re.compile(r"\n\s*\n")
_BLANKS = re.compile(r"\s+")
_ILLUSTRATION = re.compile(r"\[(?:illustration|frontispiece|picture)\b[^\]]*\]", re.IGNORECASE)
GOES_ON = (",", ";", ":", "-", "—", "–")
"""After one of these at a line's end its sentence goes on."""


def passages(text: str, skipped: Counter[str]) -> list[str]:
    """The paragraphs in order, each one line; counts what it drops by reason."""
    text, is_gutenberg = _without_frame(text, skipped)
    if is_gutenberg:
        text = _ITALICS.sub(r"\1", text)
    width = wrap_width(text.split("\n", 2000)[:2000])
    paragraphs = _PARAGRAPH_BORDER.split(text.strip()) if width else text.split("\n")
    if is_gutenberg:
        paragraphs = _without_credits(paragraphs, skipped)
    return _without_headings(paragraphs, skipped)


def is_gutenberg(text: str) -> bool:
    """Whether the beginning of a text carries Project Gutenberg's header."""
    return _HEADER_END.search(text, 0, _LONGEST_HEADER) is not None


def wrap_width(lines: list[str]) -> int:
    """The column at which these lines were wrapped by hand; 0 if they were not.

    The width is the 98th percentile of the lines' lengths. At most `WIDEST_WRAP` of it means that a
    paragraph's lines belong together (verse too); wider lines are paragraphs of their own.
    """
    lengths = sorted(len(line) for line in lines if line.strip())
    width = lengths[len(lengths) * 98 // 100] if lengths else 0
    return width if len(lengths) > 1 and width <= WIDEST_WRAP else 0


def _without_frame(text: str, skipped: Counter[str]) -> tuple[str, bool]:
    """Cuts Project Gutenberg's header and licence, in the wordings of three decades."""
    start, end = 0, len(text)
    for match in _HEADER_END.finditer(text, 0, _LONGEST_HEADER):
        start = match.end()
    if footer := _FOOTER.search(text, start):
        end = footer.start()
    dropped = start + len(text) - end
    if dropped:
        skipped[GUTENBERG] += dropped
    return text[start:end], dropped > 0


def _without_credits(paragraphs: list[str], skipped: Counter[str]) -> list[str]:
    """Drops the "Produced by ..." paragraph that follows the header."""
    for number, paragraph in enumerate(paragraphs[:8]):
        if paragraph.strip() and _CREDIT.match(paragraph):
            skipped[GUTENBERG] += len(paragraph)
            return paragraphs[:number] + paragraphs[number + 1 :]
    return paragraphs


def _without_headings(paragraphs: list[str], skipped: Counter[str]) -> list[str]:
    """Drops headings, unless the document hardly has a stop and so nothing tells them apart."""
    counts: Counter[str] = Counter()
    joined = [(paragraph, _one_line(paragraph)) for paragraph in paragraphs]
    kept = []
    for paragraph, line in joined:
        reason = _reason_to_drop(paragraph, line) if line else None
        if reason is not None:
            counts[reason] += 1
        elif line:
            kept.append(line)
    total = sum(len(line) for _, line in joined)
    if 2 * sum(map(len, kept)) < total:
        return [line for _, line in joined if line]
    skipped.update(counts)
    return kept


def _one_line(paragraph: str) -> str:
    if "\n" in paragraph:
        paragraph = _JOINED_AFTER_DASH.sub("", paragraph)
    return _BLANKS.sub(" ", paragraph).strip()


def _reason_to_drop(paragraph: str, line: str) -> str | None:
    if not has_letters(line):
        return SEPARATORS
    if line[0] == "[" and _ILLUSTRATION.fullmatch(line):
        return ILLUSTRATIONS
    return HEADINGS if _is_heading(paragraph.strip(), line) else None


def _is_heading(paragraph: str, line: str) -> bool:
    """Capitals only, in ten words at most; or short lines, the last without a stop or a comma.

    Title pages, contents and signatures are such; a paragraph with a full line never is.
    """
    if line.isupper() and line.count(" ") < 10 and line[0] not in "\"'“‘" and line[-1] not in "!?":
        return True
    if ends_like_a_sentence(line) or line.endswith(GOES_ON) or len(line) > 600:
        return False
    return max(map(len, paragraph.split("\n"))) <= 50
