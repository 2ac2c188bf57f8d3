"""A text is parted into words as labelled sets have them, and no character is lost."""

from __future__ import annotations

import pytest

from bertsmith.tasks.words_of_text import word_spans


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("He met Kim, (of London).", ["He", "met", "Kim", ",", "(", "of", "London", ")", "."]),
        ("The U.S. didn't pay $3,000.", ["The", "U.S", ".", "didn't", "pay", "$", "3,000", "."]),
        ("Kim,Lee;“Park”", ["Kim", ",", "Lee", ";", "“", "Park", "”"]),
        ("이순신은 서울(수도)에서", ["이순신은", "서울", "(", "수도", ")", "에서"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("我在北京工作", list("我在北京工作")),
        (" \t\n", []),
        ("...", [".", ".", "."]),
    ],
)
def test_marks_stand_alone_and_words_stay_whole(text: str, words: list[str]) -> None:
    spans = word_spans(text)
    assert [text[start:end] for start, end in spans] == words
    assert "".join(words) == "".join(text.split())
    assert spans == sorted(spans)


def test_by_character_blanks_are_words_too() -> None:
    assert word_spans("가 나", by_character=True) == [(0, 1), (1, 2), (2, 3)]
