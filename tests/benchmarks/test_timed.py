import time

import pytest
import torch

from benchmarks.parts import Part
from benchmarks.timed import Stage, opened, since, stages_of, timed
from bertsmith.compiler import without_native
from bertsmith.native import library

SOURCE = """
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
extern "C" int work_in_threads() {
  int num_threads = 1;
#pragma omp parallel num_threads(3)
  {
    STAGE("together", 100);
    usleep(20000);
#pragma omp single
    num_threads = omp_get_num_threads();
    STAGE(nullptr);
  }
  return num_threads;
}
"""


@pytest.fixture
def source(tmp_path):
    place = tmp_path / "stages.cpp"
    # What is loaded from one place is one library, and what is built of one text lies in one.
    place.write_text(f"{SOURCE}// {tmp_path}\n", encoding="utf-8")
    return place


@pytest.fixture
def clock(source):
    found = timed(source)
    if found is None:
        pytest.skip("no compiler here")
    return found


def test_stages_are_timed_from_one_to_the_next(clock):
    assert stages_of(clock) == {}
    began = time.perf_counter()
    clock.work()
    took = time.perf_counter() - began
    found = stages_of(clock)
    assert list(found) == ["waits", "ends"]
    assert found["waits"].flops == 60
    assert torch.get_num_threads() == 1  # a thread's time is the mean over so many
    assert found["waits"].seconds >= 0.02
    assert found["waits"].seconds + found["ends"].seconds <= took - 0.02  # none after the last


def test_a_team_tells_its_products_once_and_its_time_thread_by_thread(clock):
    clock.work()
    before = stages_of(clock)
    num_threads = clock.work_in_threads()
    clock.work()
    added = since(before, stages_of(clock))
    assert list(added) == ["waits", "ends", "together"]
    assert (added["waits"].flops, added["together"].flops) == (60, 200)
    assert added["together"].seconds >= 0.02 * num_threads
    assert since({}, {"new": Stage(1.0, 2.0)}) == {"new": Stage(1.0, 2.0)}


def test_where_functions_are_there_without_a_clock_it_is_an_error(source):
    found = library(source)
    if found is None:
        pytest.skip("no compiler here")
    found.work()  # stages cost nothing and tell nothing
    with without_native():
        assert timed(source) is None
    with pytest.raises(RuntimeError, match=r"stages\.cpp is not built with a clock"):
        timed(source)


@pytest.mark.parametrize("compiler", ["", " ", "g++ -DHARMLESS"])
def test_it_is_built_with_the_compiler_that_is_named(source, monkeypatch, compiler):
    monkeypatch.setenv("CXX", compiler)
    found = timed(source)
    if found is None:
        pytest.skip("no compiler here")
    found.work()
    assert list(stages_of(found)) == ["waits", "ends"]


def test_without_functions_nothing_is_told():
    assert stages_of(None) == {}


def test_stages_are_taken_from_the_part_that_they_are_of():
    spent = {"layers, forward": Part(seconds=5.0), "layers, backward": Part(seconds=7.0)}
    spent |= {"loss, forward": Part(seconds=2.0, flops=1.0), "other": Part(seconds=1.0)}
    of_layers = {"down, forward": Stage(4.0, 30.0), "gradients, backward": Stage(6.0, 60.0)}
    found = opened(opened(spent, "layers", of_layers), "loss", {"scores": Stage(1.5, 9.0)})
    assert [(name, part.seconds, part.flops) for name, part in found.items()] == [
        ("layers, forward", 1.0, 0.0),
        ("layers: down, forward", 4.0, 30.0),
        ("layers, backward", 1.0, 0.0),
        ("layers: gradients, backward", 6.0, 60.0),
        ("loss, forward", 0.5, 1.0),
        ("loss: scores, forward", 1.5, 9.0),
        ("other", 1.0, 0.0),
    ]
    assert opened(spent, "layers", {}) == spent
