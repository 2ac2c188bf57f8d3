import pytest

from benchmarks.timed import Stage, build_timed, since, stages_of
from bertsmith.compiler import without_native
from bertsmith.native import library

MARKS = """
#include <unistd.h>
#include <omp.h>
#include "native.h"
extern "C" void work() {
  STAGE("waits", 30);
  usleep(20000);
  STAGE("ends");
  STAGE(nullptr);
  usleep(20000);
}
extern "C" void work_in_threads() {
#pragma omp parallel num_threads(2)
  {
    STAGE("together", 100);
    usleep(20000);
    STAGE(nullptr);
  }
}
"""


@pytest.fixture
def source(tmp_path):
    place = tmp_path / "marks.cpp"
    place.write_text(MARKS, encoding="utf-8")
    if library(place) is None:
        pytest.skip("no compiler here")
    timed = tmp_path / "timed_marks.cpp"
    timed.write_text(MARKS, encoding="utf-8")
    return place, timed


def test_stages_are_timed_and_their_products_counted_once_for_a_team(source):
    _, timed = source
    assert build_timed(timed)
    assert stages_of(timed) == {}
    library(timed).work()
    found = stages_of(timed)
    assert list(found) == ["waits", "ends"]
    assert found["waits"].flops == 60
    assert found["waits"].seconds >= 0.02  # tests have one thread
    assert found["ends"].seconds < 0.01
    library(timed).work_in_threads()
    library(timed).work()
    added = since(found, stages_of(timed))
    assert list(added) == ["waits", "ends", "together"]
    assert (added["waits"].flops, added["together"].flops) == (60, 200)
    assert added["together"].seconds >= 0.04  # of both threads, by those that there are


def test_without_a_clock_nothing_is_told(source):
    plain, _ = source
    library(plain).work()
    assert stages_of(plain) == {}
    assert not build_timed(plain)  # it was loaded before
    with without_native():
        assert not build_timed(plain)
        assert stages_of(plain) == {}
    assert since({}, {"new": Stage(1.0, 2.0)}) == {"new": Stage(1.0, 2.0)}
