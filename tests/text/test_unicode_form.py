from __future__ import annotations

import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.text.unicode_form import in_form
from tests.text.texts import NASTY_TEXTS

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")


@given(NASTY_TEXTS, st.sampled_from(FORMS))
def test_brought_into_form_as_a_whole(text: str, form: Form) -> None:
    assert in_form(text, form)[0] == unicodedata.normalize(form, text)


@given(NASTY_TEXTS, st.sampled_from(FORMS))
def test_origins_cover_the_text_in_order(text: str, form: Form) -> None:
    new, origin = in_form(text, form)
    if origin is None:
        assert new == text
        return
    assert len(origin.starts) == len(origin.ends) == len(new)
    ranges = list(dict.fromkeys(zip(origin.starts.tolist(), origin.ends.tolist(), strict=True)))
    assert "".join(text[start:end] for start, end in ranges) == text


@pytest.mark.parametrize("form", FORMS)
def test_text_in_its_form_needs_no_origin(form: Form) -> None:
    assert in_form("plain", form) == ("plain", None)


def test_a_composed_syllable_stands_for_its_jamo() -> None:
    text, origin = in_form("x\u1112\u1161\u11aby", "NFC")
    assert text == "x한y"
    assert origin is not None
    assert (origin.starts.tolist(), origin.ends.tolist()) == ([0, 1, 4], [1, 4, 5])
