"""One `<doc>` of WikiExtractor output -> its text passages, one paragraph each.

The opening tag and the title line go, headings and fragments go, and what the extractor left behind
is cleaned: tags, templates, unresolved links, brackets emptied of a template. Formulas and code
appear as `formula_12` and `codice_3` there; the number means nothing and is dropped.
"""

from __future__ import annotations

from collections import Counter

from bertsmith.reading.markup import clean_leftovers, marks_in
from bertsmith.reading.passages import (
    FRAGMENTS,
    HEADINGS,
    SEPARATORS,
    has_letters,
    is_fragment,
    is_stopped_heading,
)

TABLES = "table and list rows"
TITLES = "title lines"

_ROW_MARKS = ("|", "!", "#", "*", ":", ";")


def passages(document: str, skipped: Counter[str]) -> list[str]:
    """The document's paragraphs in order, cleaned; counts every line it drops by reason."""
    kept = []
    marks = marks_in(document)
    for line in _body(document, skipped):
        if not line or line.isspace():
            continue
        line = clean_leftovers(line, marks).strip()
        reason = _reason_to_drop(line)
        if reason is None:
            kept.append(line)
        else:
            skipped[reason] += 1
    return kept


def _body(document: str, skipped: Counter[str]) -> list[str]:
    lines = document.strip().split("\n")
    if not lines[0].startswith("<doc "):
        return lines
    # The title is the line after the tag; both are absent in the second piece of a cut document.
    skipped[TITLES] += 1
    return lines[2:]


def _reason_to_drop(line: str) -> str | None:
    if line.startswith(_ROW_MARKS):
        return TABLES
    if len(line) > 90:
        return None
    if not has_letters(line):
        return SEPARATORS
    if is_stopped_heading(line):
        return HEADINGS
    return FRAGMENTS if is_fragment(line) else None
