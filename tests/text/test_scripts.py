from __future__ import annotations

import pytest

from bertsmith.text.scripts import main_script, script_of, share_in_script


@pytest.mark.parametrize(
    ("character", "script"),
    [("a", "Latin"), ("é", "Latin"), ("한", "Hangul"), ("ㅠ", "Hangul"), ("ᄒ", "Hangul"),
     ("д", "Cyrillic"), ("天", "Chinese or Japanese"), ("の", "Chinese or Japanese"),
     ("カ", "Chinese or Japanese"), ("1", None), ("#", None), ("\ue000", None)],
)  # fmt: skip
def test_a_letter_has_a_script_and_other_characters_have_none(
    character: str, script: str | None
) -> None:
    assert script_of(character) == script


def test_the_main_script_is_that_of_most_letters() -> None:
    assert main_script(["서울은", "BERT", "2018", "대한민국의"]) == "Hangul"
    assert main_script(["2018", "..."]) is None
    assert main_script([]) is None


def test_rows_without_letters_do_not_count_for_a_script() -> None:
    assert share_in_script(["the", "##의", "##s", "1988", "."], "Latin") == pytest.approx(2 / 3)
    assert share_in_script(["1988"], "Latin") == 0.0
