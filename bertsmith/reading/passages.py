"""Paragraphs -> passages: what is a sentence-bearing paragraph, and what is a heading or fragment.

The paper keeps text passages only. The rules here are heuristics shared by the formats; each
reports what it turned down, so that a report can say what was dropped and why.

Source: Devlin et al. 2018, section 3.1, on Wikipedia: no lists, tables or headers.
"""

from __future__ import annotations

import re

HEADINGS = "headings"
FRAGMENTS = "short lines without a sentence's end (headings, list items, captions)"
SEPARATORS = "lines without letters"

LONGEST_HEADING_WORDS = 8
LONGEST_FRAGMENT = 80

_STOPS = ".!?…。！？"
_CLOSERS = "\"'”’»)]}」』》〉）】*_"
_LETTER = re.compile(r"[^\W\d_]")
_HANGUL = re.compile("[가-힣]")
# Words that only a clause has. With one of them a short line is a sentence, not a heading.
_CLAUSE_WORD = re.compile(
    r"""\b(?:is|are|was|were|be|been|am|has|have|had|does|do|did|can|could|will|would|shall|should
    |may|might|must|became|become|becomes|began|went|came|come|comes|goes|go|made|makes|took|takes
    |said|says|got|gets|found|lost|won|died|lives|lived|born|called|named|used|includes|included
    |contains|consists|remains|remained|won't|can't|don't|doesn't|didn't|isn't|wasn't|it's|there's
    |he|she|they|we|you|it|see)\b""",
    re.VERBOSE | re.IGNORECASE,
)


def ends_like_a_sentence(text: str) -> bool:
    """Whether the last character, closing quotes and brackets aside, is a sentence's stop."""
    if text[-1:] in _STOPS:
        return text != ""
    return text.rstrip(_CLOSERS)[-1:] in tuple(_STOPS)


def is_stopped_heading(line: str) -> bool:
    """WikiExtractor's section headings: "Early life and education.": a full stop, but no sentence.

    At most eight words, a single period at the end, and in lines of four words or more no clause
    word such as "is", "had" or "they". Lines with Hangul are never taken for one: Korean extracts
    carry no such headings, but many short sentences.
    """
    if len(line) > 90 or not line.endswith(".") or line.endswith(".."):
        return False
    words = line.count(" ") + 1
    if words > LONGEST_HEADING_WORDS or _HANGUL.search(line):
        return False
    return words < 4 or _CLAUSE_WORD.search(line) is None


def is_fragment(line: str) -> bool:
    """A short line that does not end like a sentence."""
    return len(line) <= LONGEST_FRAGMENT and not ends_like_a_sentence(line)


def has_letters(text: str) -> bool:
    """False for rows of asterisks, rules and bare numbers."""
    return _LETTER.search(text) is not None
