import ctypes

import pytest
import torch

from bertsmith.native import library
from tests.builds import NEEDS_COMPILER, in_a_cache_of_its_own

COUNTING = """
#include <model/cpu_shares.h>
extern "C" void count_units(int64_t count, int num_threads, int32_t* made) {
#pragma omp parallel num_threads(num_threads)
  share_out(count, [=](int64_t unit) {
#pragma omp atomic
    made[unit]++;
  });
}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    yield from in_a_cache_of_its_own(tmp_path, monkeypatch)


@NEEDS_COMPILER
@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_every_unit_is_made_once(num_threads, tmp_path):
    source = tmp_path / "counting.cpp"
    source.write_text(COUNTING)
    for count in (*range(10), 1001):
        made = torch.zeros(count + 1, dtype=torch.int32)  # the last is none of them
        place = ctypes.c_void_p(made.data_ptr())
        library(source).count_units(ctypes.c_int64(count), num_threads, place)
        assert made.tolist() == [1] * count + [0]
