"""Comparisons of numbers and of counts: what passes and what fails."""

from __future__ import annotations

import numpy as np
import pytest

from bertsmith.certificate.comparisons import alike, compared


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
