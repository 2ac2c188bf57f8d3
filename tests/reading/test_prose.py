"""Prose: un-wrapping, headings, and Project Gutenberg's frame."""

from collections import Counter

import pytest

from bertsmith.reading import passages as rules
from bertsmith.reading import prose

BOOK = """\
The Project Gutenberg EBook of A Garland, by L. M. Alcott

This eBook is for the use of anyone anywhere at no cost and with
almost no restrictions whatsoever.

{start}

Produced by Charles Aldarondo

A GARLAND FOR GIRLS

By Louisa May Alcott

CHAPTER I.

Being Boston girls, of _course_ they got up a club for mental
improvement, and called it the well-
known Mayflower Club--
a pretty name.

[Illustration: The club]

    *    *    *

"What shall we read?"

{end}

Creating the works from public domain print editions means that no
one owns a United States copyright in these works.
"""
FRAMES = [
    (
        "*** START OF THIS PROJECT GUTENBERG EBOOK A ***",
        "*** END OF THIS PROJECT GUTENBERG EBOOK A",
    ),
    ("***START OF THE PROJECT GUTENBERG EBOOK A***", "***END OF THE PROJECT GUTENBERG EBOOK A***"),
    ("*** START OF THE PROJECT GUTENBERG EBOOK, A\nAND B ***", "*** END OF THE PROJECT GUTENBERG"),
    ("*END*THE SMALL PRINT! FOR PUBLIC DOMAIN*Ver.04.29.93*END*", "End of The Project Gutenberg"),
    (
        "***START**THE SMALL PRINT!**\nLegal words.\n*END THE SMALL PRINT! FOR ALL*Ver.04.01*END*",
        "End of Project Gutenberg's A Garland, by L. M. Alcott",
    ),
]
GARLAND = [
    "Being Boston girls, of course they got up a club for mental improvement, and called it the "
    "well-known Mayflower Club--a pretty name.",
    '"What shall we read?"',
]


@pytest.mark.parametrize(("start", "end"), FRAMES)
def test_a_book_keeps_its_text_and_loses_its_frame(start, end):
    skipped = Counter()
    assert prose.passages(BOOK.format(start=start, end=end), skipped) == GARLAND
    assert skipped[prose.GUTENBERG] > 250
    assert skipped[rules.HEADINGS] == 3
    assert skipped[rules.SEPARATORS] == 1
    assert skipped[prose.ILLUSTRATIONS] == 1


def test_every_line_of_long_lines_is_a_paragraph():
    long = "A sentence much longer than any line that was ever wrapped by hand, is it not?"
    text = f"{long} {long}\nAnd a short one.\n"
    assert prose.passages(text, Counter()) == [f"{long} {long}", "And a short one."]


def test_wrapped_lines_are_one_paragraph_without_any_header():
    wrapped = (
        "The first sentence of a letter goes\non in the next line. And so\ndoes the second one."
    )
    assert prose.passages(f"{wrapped}\n\n{wrapped}", Counter()) == [" ".join(wrapped.split())] * 2


def test_verse_is_joined_into_its_stanzas():
    stanza = "Shall I compare thee to a summer's day?\nThou art more lovely\nand more temperate."
    assert prose.passages(f"{stanza}\n\n{stanza}", Counter()) == [stanza.replace("\n", " ")] * 2


def test_text_without_stops_loses_nothing():
    lines = ["hello there", "how are you", "fine and you"]
    skipped = Counter()
    assert prose.passages("\n".join(lines), skipped) == lines
    assert not skipped


def test_korean_prose_keeps_its_paragraphs_and_drops_its_heading():
    text = "봄날\n\n어제 늦게 잤어? 어쩐지 피곤해 보이더라.\n\n그는 웃었다."
    skipped = Counter()
    kept = ["어제 늦게 잤어? 어쩐지 피곤해 보이더라.", "그는 웃었다."]
    assert prose.passages(text, skipped) == kept
    assert skipped == {rules.HEADINGS: 1}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Early life and education.", True),
        ("History.", True),
        ("1993-2009: The Scheringa years.", True),
        ("He died in 1990.", False),
        ("All alkanes are colourless and odourless.", False),
        ("A line of more than eight words never is a heading.", False),
        ("Why virtual circuits?", False),
        ("And so on...", False),
        ("인구는 5만 명이다.", False),
    ],
)
def test_stopped_headings_are_told_from_short_sentences(line, expected):
    assert rules.is_stopped_heading(line) is expected


@pytest.mark.parametrize("ending", [".", '."', "!)", "?”", "。", "…", ".']"])
def test_a_stop_may_stand_before_closing_marks(ending):
    assert rules.ends_like_a_sentence(f"It ends{ending}")


@pytest.mark.parametrize("text", ["", "It goes on,", "(an aside)", "Title", '"quoted"'])
def test_closing_marks_alone_end_no_sentence(text):
    assert not rules.ends_like_a_sentence(text)
