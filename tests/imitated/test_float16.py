"""What stands in for products of float16 rounds once, and keeps what is no number."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import torch

from bertsmith.libraries import OPTIONS
from bertsmith.processors import _OPTIONS
from tests.imitated.processors import FLOAT16_OPTION, compiler_that_imitates

SOURCE = """
#include <immintrin.h>
extern "C" void add_products(const void* a, const void* b, const void* c, void* to) {
  const __m512h found = _mm512_fmadd_ph(_mm512_loadu_ph(a), _mm512_loadu_ph(b), _mm512_loadu_ph(c));
  _mm512_storeu_si512(to, (__m512i)found);
}
"""
WIDTH = 32


@pytest.fixture(scope="module")
def add_products(tmp_path_factory):
    if shutil.which("g++") is None or torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("no compiler, or no vectors of AVX512 here")
    place = tmp_path_factory.mktemp("imitated") / "products.so"
    source = place.with_suffix(".cpp")
    source.write_text(SOURCE)
    options = [*OPTIONS, *_OPTIONS, "-mavx512f", FLOAT16_OPTION]
    command = [*compiler_that_imitates("float16"), *options, "-o", place, source]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(place)).add_products


def found(function, *given):
    """Of (N, WIDTH) numbers."""
    to = np.empty_like(given[0])
    for rows in zip(*given, to, strict=True):
        function(*(ctypes.c_void_p(each.ctypes.data) for each in rows))
    return to


def test_a_product_and_its_sum_are_rounded_once(add_products):
    """Of such sizes that float64 has every sum whole."""
    draws = np.random.default_rng(0)
    given = [
        (draws.normal(size=(4_000, WIDTH)) * 2.0 ** draws.integers(-7, 7, (4_000, WIDTH))).astype(
            np.float16
        )
        for _ in range(3)
    ]
    ties = np.full((1, WIDTH), 1.0, dtype=np.float16)
    halves, ulps = ties * np.float16(2.0**-11), np.arange(WIDTH, dtype=np.float16) * 2.0**-10
    sums = (ties + ulps).astype(np.float16)
    cases = [given, [ties, halves, sums], [-ties, halves, sums]]
    for first, second, third in cases:
        wide = [each.astype(np.float64) for each in (first, second, third)]
        right = (wide[0] * wide[1] + wide[2]).astype(np.float16)
        assert np.array_equal(found(add_products, first, second, third), right)


def test_what_is_no_number_and_too_large_stays_so(add_products):
    rows = np.array(
        [[1.0, np.inf, -np.inf, np.nan, 65_504.0, -65_504.0, 0.0, -0.0] * 4], np.float16
    )
    twos, zeros = np.full_like(rows, 2.0), np.zeros_like(rows)
    expected = [2.0, np.inf, -np.inf, np.nan, np.inf, -np.inf, 0.0, 0.0]
    assert np.array_equal(
        found(add_products, rows, twos, zeros), np.array([expected * 4], np.float16), equal_nan=True
    )
