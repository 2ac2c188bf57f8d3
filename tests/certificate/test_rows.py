"""Rows: what passes, what fails, and for whom a failure is a known difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bertsmith.certificate.rows import (
    KNOWN,
    PROFILES,
    Row,
    agreeing,
    profiles_without_failure,
    skipped,
    under,
)

FAILED = Row(name="a", status="failed", found="x", expected="y", reference="-")


def test_cases_must_all_be_equal_and_the_first_that_is_not_is_shown() -> None:
    expected = {"one": ["a", "b"], "two": ["c"]}
    assert agreeing("a", expected, expected, reference="-").status == "passed"
    row = agreeing("a", {"one": ["a", "b"], "two": ["x", "\0"]}, expected, reference="-")
    assert row.status == "failed"
    assert row.found == "1 of 2 equal; two: x <0> instead of c"
    assert agreeing("a", {"one": ["a", "b"]}, expected, reference="-").status == "failed"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_failure_is_a_known_difference_where_the_profile_knows_it(profile: str) -> None:
    for name, known in KNOWN.items():
        row = under(replace(FAILED, difference=name), profile)
        assert row.status == ("known difference" if profile in known.profiles else "failed")
        assert (known.meaning in row.found) == (profile in known.profiles)
    assert under(FAILED, profile) == FAILED
    passed = replace(FAILED, status="passed", difference="pad_row")
    assert under(passed, profile) == passed
    assert under(skipped("a", "b", "c"), profile).status == "skipped"


def test_the_profiles_that_would_not_fail_are_found() -> None:
    tanh, pad = (replace(FAILED, difference=name) for name in ("gelu_tanh", "pad_row"))
    assert profiles_without_failure([tanh]) == ["google"]
    assert profiles_without_failure([pad]) == ["huggingface"]
    assert profiles_without_failure([tanh, pad]) == []
    assert profiles_without_failure([FAILED]) == []
