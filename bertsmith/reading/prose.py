r"""Free prose, wrapped by hand or not -> paragraphs, without headings and Gutenberg's frame.

It does not know files: one document's text comes in, or a piece of one, and whether the document is
a book of Project Gutenberg where the piece cannot tell. Line ends are `\n` already.

Source: our own rules, tried on 478 books of Project Gutenberg.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from bertsmith.reading.passages import HEADINGS, SEPARATORS, ends_like_a_sentence, has_letters

GUTENBERG = "characters of Project Gutenberg's header, licence and notes"
ILLUSTRATIONS = "captions of illustrations"

WIDEST_WRAP = 100
"""Columns; nobody wraps by hand wider than this."""
BROKEN_SHARE = 0.2
"""Above this share of broken lines a text was wrapped by hand, or is verse."""

_NARROWEST_WRAP = 40
_LONGEST_HEADER = 40_000
_SAMPLED_LINES = 1000
_SENTENCE_GOES_ON = (",", ";", ":", "-", "—", "–")
_HEADER_END = re.compile(
    r"^.*\*\*\*[ ]*START OF (?:THE|THIS) PROJECT GUTENBERG[^*]*?(?:\*\*\*.*|\n\s*\n)"
    r"|^.*\*END[* ]*THE SMALL PRINT!.*$",
    re.MULTILINE | re.IGNORECASE,
)
_FOOTER = re.compile(
    r"^[ ]*(?:\*\*\*[ ]*)?END OF (?:THE |THIS )?PROJECT GUTENBERG"
    r"|^[ ]*\*\*\*[ ]*START: FULL LICENSE|^[ ]*\*\*\*START\*\*THE SMALL PRINT",
    re.MULTILINE | re.IGNORECASE,
)
_NOTE = re.compile(
    r"project gutenberg|\be-?texts?\b|\btranscriber['’]?s['’]? notes?\b|\bproofread(?:ing|ers)\b"
    r"|^\W*(?:produced|prepared|transcribed|scanned) (?:from [^.]* )?by\b"
)
# One of these is in every match of `_NOTE`; finding them costs a tenth of the expression.
_NOTE_MARKS = ("gutenberg", "text", "transcribe", "proofread", "produced", "prepared", "scanned")
_ITALICS = re.compile(r"_([^_]+)_")
_AFTER_DASH = re.compile(r"(?<=[\w,.;:!?'’-]-)\n\s*(?=[\w\"“'‘])")
_PARAGRAPH_BORDER = re.compile(r"\n\s*\n")
_ILLUSTRATION = re.compile(r"\[(?:illustration|frontispiece|picture)\b[^\]]*\]", re.IGNORECASE)


def passages(text: str, skipped: Counter[str], *, is_book: bool = False) -> list[str]:
    """The paragraphs in order, each one line; counts what it drops by reason.

    In text wrapped by hand, and in verse, blank lines part paragraphs; else every line is one.
    `is_book` is True for a later piece of a Project Gutenberg book; a first piece says so itself.
    Only where a cut falls inside the licence is the rest of it kept, but for the paragraphs that
    name Project Gutenberg.
    """
    is_book = is_book or is_gutenberg(text)
    if is_book:
        text = _ITALICS.sub(r"\1", _without_frame(text, skipped))
    lines = text.split("\n")
    middle = lines[len(lines) // 4 :][:_SAMPLED_LINES]
    pieces = _PARAGRAPH_BORDER.split(text.strip()) if is_book or is_wrapped(middle) else lines
    paragraphs = [(piece, line) for piece in pieces if (line := _one_line(piece))]
    if is_book:
        paragraphs = _without_notes(paragraphs, skipped)
    return _without_headings(paragraphs, skipped)


def is_gutenberg(text: str) -> bool:
    """Whether the beginning of a text names Project Gutenberg."""
    return "Project Gutenberg" in text[:5000] or "PROJECT GUTENBERG" in text[:5000]


def is_wrapped(lines: list[str]) -> bool:
    """Whether over one in five of the lines that have a next line break a sentence at their end."""
    followed = sum(bool(line and after) for line, after in pairwise(map(str.strip, lines)))
    return num_broken(lines) > BROKEN_SHARE * followed


def num_broken(lines: list[str]) -> int:
    """Counts the lines at whose end a sentence is broken.

    The next line follows without a blank line, no stop stands at the end, and either a comma or
    dash does, or the next line begins in lower case (in a text that has capitals), or the next
    line's first word would not have fitted into the text's width: the 98th percentile of the lines'
    lengths, if that is at least 40 columns. Over `WIDEST_WRAP` columns nothing is broken.
    """
    lines = [line.strip() for line in lines]
    lengths = sorted(map(len, filter(None, lines)))
    width = lengths[len(lengths) * 98 // 100] if lengths else 0
    if width > WIDEST_WRAP:
        return 0
    has_capitals = any(line != line.lower() for line in lines)
    broken = 0
    for line, after in pairwise(lines):
        if line and after and not ends_like_a_sentence(line):
            goes_on = line.endswith(_SENTENCE_GOES_ON) or (has_capitals and after[0].islower())
            is_full = (
                width >= _NARROWEST_WRAP and len(f"{line} {after.split(maxsplit=1)[0]}") > width
            )
            broken += goes_on or is_full
    return broken


def _without_frame(text: str, skipped: Counter[str]) -> str:
    """Cuts Project Gutenberg's header and licence, in the wordings of three decades."""
    start, end = 0, len(text)
    for match in _HEADER_END.finditer(text, 0, _LONGEST_HEADER):
        start = match.end()
    if footer := _FOOTER.search(text, start):
        end = footer.start()
    skipped[GUTENBERG] += start + len(text) - end
    return text[start:end]


def _without_notes(
    paragraphs: list[tuple[str, str]], skipped: Counter[str]
) -> list[tuple[str, str]]:
    """Drops the credits and notes that transcribers left inside the frame."""
    kept = []
    for piece, line in paragraphs:
        lowered = line.lower()
        if any(mark in lowered for mark in _NOTE_MARKS) and _NOTE.search(lowered):
            skipped[GUTENBERG] += len(line)
        else:
            kept.append((piece, line))
    return kept


def _without_headings(paragraphs: list[tuple[str, str]], skipped: Counter[str]) -> list[str]:
    """Drops headings, unless most of the text would go: then it has no stops to tell them by."""
    counts: Counter[str] = Counter()
    kept = []
    for piece, line in paragraphs:
        reason = _reason_to_drop(piece, line)
        if reason is None:
            kept.append(line)
        else:
            counts[reason] += 1
    if 2 * sum(map(len, kept)) < sum(len(line) for _, line in paragraphs):
        return [line for _, line in paragraphs]
    skipped.update(counts)
    return kept


def _one_line(piece: str) -> str:
    if "-\n" in piece:
        piece = _AFTER_DASH.sub("", piece)
    return " ".join(piece.split())


def _reason_to_drop(piece: str, line: str) -> str | None:
    if not has_letters(line):
        return SEPARATORS
    if line[0] == "[" and _ILLUSTRATION.fullmatch(line):
        return ILLUSTRATIONS
    return HEADINGS if _is_heading(piece.strip(), line) else None


def _is_heading(piece: str, line: str) -> bool:
    """Capitals only, in ten words at most; or short lines, the last without a stop or a comma.

    Title pages, contents and signatures are such; a paragraph with a full line never is.
    """
    if line.isupper() and line.count(" ") < 10 and line[0] not in "\"'“‘" and line[-1] not in "!?":
        return True
    if ends_like_a_sentence(line) or line.endswith(_SENTENCE_GOES_ON) or len(line) > 600:
        return False
    return max(map(len, piece.split("\n"))) <= 50
