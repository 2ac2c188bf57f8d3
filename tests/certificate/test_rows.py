"""Rows: what passes, what fails, and for whom a failure is a known difference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bertsmith.certificate.comparisons import alike, compared
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


def status(found: object, expected: object, tolerance: float = 1e-3) -> str:
    return compared("a", found, expected, tolerance=tolerance, reference="-").status


def test_numbers_within_the_tolerance_pass() -> None:
    assert status([1.0, 2e-4], [1.0, 0.0]) == "passed"
    assert status([1.0, 2e-3], [1.0, 0.0]) == "failed"


def test_the_tolerance_grows_with_numbers_above_one_only() -> None:
    assert status([100.0, 0.05], [100.0, 0.0]) == "passed"
    assert status([1e-6, 2e-3], [1e-6, 0.0]) == "failed"


@pytest.mark.parametrize("found", [[np.nan, 0.0], [np.inf, 0.0], [1.0], [[1.0, 0.0]]])
def test_what_is_no_number_or_of_another_shape_fails(found: list[float]) -> None:
    assert status(found, [1.0, 0.0], tolerance=1e9) == "failed"


def test_cases_must_all_be_equal_and_the_first_that_is_not_is_shown() -> None:
    expected = {"one": ["a", "b"], "two": ["c"]}
    assert agreeing("a", expected, expected, reference="-").status == "passed"
    row = agreeing("a", {"one": ["a", "b"], "two": ["x", "\0"]}, expected, reference="-")
    assert row.status == "failed"
    assert row.found == "1 of 2 equal; two: x <0> instead of c"
    assert agreeing("a", {"one": ["a", "b"]}, expected, reference="-").status == "failed"


def test_counts_of_one_distribution_pass_and_of_another_fail() -> None:
    random = np.random.default_rng(0)
    first, second = (random.multinomial(20_000, [0.8, 0.1, 0.1]) for _ in range(2))
    assert alike("a", first, second, reference="-").status == "passed"
    other = random.multinomial(20_000, [0.77, 0.115, 0.115])
    assert alike("a", other, second, reference="-").status == "failed"
    assert alike("a", [100, 0, 0], [80, 10, 10], reference="-").status == "failed"


def test_counts_of_samples_of_other_sizes_compare() -> None:
    random = np.random.default_rng(1)
    small, large = (random.multinomial(n, [0.5, 0.3, 0.2]) for n in (2_000, 50_000))
    assert alike("a", small, large, reference="-").status == "passed"


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
