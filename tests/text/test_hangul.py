from __future__ import annotations

import subprocess
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.text.hangul import (
    HOW_TO_COMPOSE,
    has_decomposed_hangul,
    has_hangul,
    has_whole_hangul,
    keeping_whole,
    warn_about_hangul,
)
from bertsmith.text.rules import TokenizerConfig, UnicodeForm

KOREAN = "피곤해 보이네. 어제 늦게 잤니?"
DECOMPOSED = unicodedata.normalize("NFD", KOREAN)
UNCASED = TokenizerConfig()
KEEPING = TokenizerConfig(strip_accents=False)


@pytest.mark.parametrize(
    ("text", "is_hangul", "is_whole", "is_decomposed"),
    [
        (KOREAN, True, True, False),
        (DECOMPOSED, True, False, True),
        (unicodedata.normalize("NFKD", "the 한"), True, False, True),
        ("\u1112\u119e\u11ab", True, False, False),  # of old letters no syllable can be made
        ("\ua960", True, False, False),
        ("\ud7b0", True, False, False),
        (unicodedata.normalize("NFD", "café ガ"), False, False, False),
        ("the dog", False, False, False),
    ],
)
def test_hangul_is_known_composed_and_decomposed(
    text: str, is_hangul: bool, is_whole: bool, is_decomposed: bool
) -> None:
    assert has_hangul(text) is is_hangul
    assert has_whole_hangul(text) is is_whole
    assert has_decomposed_hangul(text) is is_decomposed
    assert has_whole_hangul(unicodedata.normalize("NFC", text)) is (is_whole or is_decomposed)


def test_hangul_under_accent_stripping_is_warned_of() -> None:
    warning = warn_about_hangul(UNCASED, ["plain", KOREAN])
    assert warning is not None
    assert warning.endswith("learned with --strip-accents False keeps them whole")
    assert warn_about_hangul(UNCASED, ["plain"]) is None
    assert warn_about_hangul(KEEPING, [KOREAN]) is None


@pytest.mark.parametrize(
    ("form", "strips", "why", "options"),
    [
        ("none", False, None, "--unicode-form NFC"),
        ("none", True, "is decomposed, as macOS", "--unicode-form NFC --strip-accents False"),
        ("NFC", True, "strip_accents is on", "--strip-accents False"),
        ("NFKC", False, None, ""),
        ("NFKD", True, "strip_accents is on", "--unicode-form NFC --strip-accents False"),
        # Who takes a vocabulary of jamo that is there has nothing to choose.
        ("NFKD", False, None, "--unicode-form NFC"),
    ],
)
def test_decomposed_hangul_is_warned_of_where_no_form_composes_it(
    form: UnicodeForm, strips: bool, why: str | None, options: str
) -> None:
    rules = TokenizerConfig(unicode_form=form, strip_accents=strips)
    warning = warn_about_hangul(rules, ["plain", DECOMPOSED])
    assert (warning is None) is (why is None)
    if warning is not None and why is not None:
        assert why in warning
        assert "(피 becomes ᄑ ᅵ)" in warning
        assert warning.endswith(f"jamo (피 becomes ᄑ ᅵ); a vocabulary learned with {options} keeps "
                                f"them whole")  # fmt: skip
    assert keeping_whole(rules) == options


@pytest.mark.parametrize("form", ["NFD", "NFKD"])
@pytest.mark.parametrize("text", [KOREAN, DECOMPOSED])
def test_a_form_that_takes_hangul_apart_is_warned_of_before_a_vocabulary_is_learned(
    form: UnicodeForm, text: str
) -> None:
    rules = replace(KEEPING, unicode_form=form)
    warning = warn_about_hangul(rules, [text], is_learning=True)
    assert warning is not None
    assert warning.startswith(f"unicode_form is {form} and the text holds Hangul: every syllable")
    assert "learned with --unicode-form NFC keeps" in warning
    assert warn_about_hangul(rules, ["plain"], is_learning=True) is None


def test_a_stray_decomposed_sentence_is_not_warned_of() -> None:
    few, more = ([KOREAN] * (100 - count) + [DECOMPOSED] * count for count in (2, 3))
    assert warn_about_hangul(KEEPING, few, is_learning=True) is None
    warning = warn_about_hangul(KEEPING, more, is_learning=True)
    assert warning is not None
    assert "is decomposed, as macOS writes it, and unicode_form is none" in warning
    assert "learned with --unicode-form NFC keeps" in warning


@pytest.mark.skipif(sys.platform == "win32", reason="quoted as a POSIX shell reads it")
def test_the_command_that_is_named_composes_a_text(tmp_path: Path) -> None:
    (tmp_path / "TEXT").write_text(f"{DECOMPOSED}\n\nthe dog\n" * 3, encoding="utf-8")
    command = HOW_TO_COMPOSE.replace("python", sys.executable, 1)
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    composed = (tmp_path / "COMPOSED").read_text(encoding="utf-8")
    assert composed == f"{KOREAN}\n\nthe dog\n" * 3
