"""What stands in for a matrix unit multiplies as the manual says, and ends what would fault."""

import ctypes
import subprocess
import sys

import numpy as np
import pytest
import torch

from bertsmith import compiler, processors
from bertsmith.libraries import OPTIONS
from tests.builds import NEEDS_COMPILER
from tests.imitated.processors import compiler_that_imitates

pytestmark = NEEDS_COMPILER

UNIT = ("-mamx-tile", "-mamx-bf16", "-mamx-int8")
SOURCE = """
#include <immintrin.h>
struct Shapes { uint8_t palette, reserved[15]; uint16_t bytes[16]; uint8_t rows[16]; };
static_assert(sizeof(Shapes) == 64);
extern "C" void configure(int rows, int columns, int depth) {
  Shapes shapes{1, {}, {uint16_t(4 * columns), uint16_t(4 * depth), uint16_t(4 * columns)},
                {uint8_t(rows), uint8_t(rows), uint8_t(depth)}};
  _tile_loadconfig(&shapes);
}
extern "C" void multiply(const void* left, const void* right, void* sums, bool is_of_bytes) {
  _tile_loadd(0, sums, 64);
  _tile_loadd(1, left, 64);
  _tile_loadd(2, right, 64);
  if (is_of_bytes) _tile_dpbusd(0, 1, 2); else _tile_dpbf16ps(0, 1, 2);
  _tile_stored(0, sums, 64);
  _tile_release();
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Where it lies. No instruction of the unit is in it, so every x86-64 runs it."""
    if not all(compiler.builds("", option) for option in UNIT):
        pytest.skip("no compiler that knows a matrix unit")
    place = tmp_path_factory.mktemp("imitated") / "products.so"
    source = place.with_suffix(".cpp")
    source.write_text(SOURCE)
    options = [*OPTIONS, *processors._OPTIONS, *UNIT]
    subprocess.run([*compiler_that_imitates("tiles"), *options, "-o", place, source], check=True)
    return place


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(16, 16, 16), (1, 16, 16), (5, 3, 7)])
def test_products_are_those_of_the_definition_and_only_a_tiles_own_sums_change(
    rows, columns, depth, library
):
    functions, draws = ctypes.CDLL(str(library)), np.random.default_rng(0)
    for is_of_bytes in (False, True):
        sums = draws.integers(-100, 100, (16, 16)).astype(np.int32 if is_of_bytes else np.float32)
        before = sums.copy()
        if is_of_bytes:
            left = draws.integers(0, 256, (16, 64)).astype(np.uint8)
            right = draws.integers(-128, 128, (16, 64)).astype(np.int8)
            wide, pairs, given = (left.astype(float), right.astype(float)), 4, (left, right)
        else:
            drawn = [torch.from_numpy(draws.normal(size=(16, 32))).bfloat16() for _ in range(2)]
            wide, pairs = tuple(each.double().numpy() for each in drawn), 2
            given = tuple(each.view(torch.int16).numpy() for each in drawn)
        functions.configure(rows, columns, depth)
        functions.multiply(*map(pointer, given), pointer(sums), ctypes.c_bool(is_of_bytes))
        of_rows = wide[0][:rows, : pairs * depth]
        of_columns = wide[1][:depth].reshape(depth, 16, pairs)[:, :columns]  # (D, C, pairs)
        right = of_columns.transpose(0, 2, 1).reshape(pairs * depth, columns)
        expected = before.astype(float)
        expected[:rows, :columns] += of_rows @ right
        np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=1e-4)
        assert (sums[rows:] == before[rows:]).all()
        assert (sums[:, columns:] == before[:, columns:]).all()


def test_subnormal_numbers_are_zero(library):
    functions = ctypes.CDLL(str(library))
    left = np.full((16, 32), 0x0040, dtype=np.uint16)  # 2^-127
    right = np.full((16, 32), 0x7E80, dtype=np.uint16)  # 2^126
    sums = np.full((16, 16), 1e-40, dtype=np.float32)
    functions.configure(16, 16, 16)
    functions.multiply(pointer(left), pointer(right), pointer(sums), ctypes.c_bool(False))
    assert (sums == 0.0).all()


@pytest.mark.parametrize(
    ("calls", "fault"),
    [
        ("f.multiply(a, a, a, False)", "a tile that was not configured"),
        ("f.configure(17, 16, 16)", "a tile that is too large"),
        ("f.configure(0, 16, 16)", "a tile of rows without columns"),
    ],
)
def test_what_would_fault_ends_the_process(calls, fault, library):
    program = (
        f"import ctypes; f = ctypes.CDLL({str(library)!r}); a = ctypes.create_string_buffer(1024)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", f"{program}; {calls}"], check=False, capture_output=True, text=True
    )
    assert ran.returncode < 0
    assert fault in ran.stderr
