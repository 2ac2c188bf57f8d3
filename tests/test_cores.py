import os
import sys
from collections.abc import Mapping
from contextlib import suppress

import pytest
import torch

from bertsmith import cores
from bertsmith.cores import SOURCE, keep_apart
from bertsmith.model.bert import Bert
from bertsmith.model.config import sized
from bertsmith.model.stream import Stream
from bertsmith.native import library
from tests.builds import NEEDS_COMPILER
from tests.model.plain import random_packed

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="threads are moved on Linux alone")
ALL_ON_CORE = """
#include <sched.h>
namespace {{ int on_that_core() {{ return {core}; }} }}
#define sched_getcpu on_that_core
#include "cores.cpp"
"""


def masks():
    """The cores that each thread of this process may run on; others than torch's come and go."""
    found = {}
    for number in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):
            found[number] = os.sched_getaffinity(int(number))
    return found


def bind(masks: Mapping[str, set[int]]):
    """Each thread that is still there to its cores."""
    for number, mask in masks.items():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(number), mask)


@NEEDS_COMPILER
@ON_LINUX
def test_whoever_shares_a_core_leaves_it_and_may_come_back(tmp_path):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core")
    core = min(os.sched_getaffinity(0))
    source = tmp_path / "all_on_a_core.cpp"
    source.write_text(ALL_ON_CORE.format(core=core))
    leave = library(source)["to_cores_of_their_own"]
    leave(2)  # which begins the threads
    before = masks()
    assert [leave(1), leave(2)] == [0, 1]
    after = masks()
    assert len(before.keys() & after.keys()) >= 2
    assert all(after.get(number, mask) == mask for number, mask in before.items())
    bind({number: {core} for number in after})  # bound there they stay
    try:
        assert leave(2) == 0
        left = masks()
        assert all(left.get(number, {core}) == {core} for number in after)
    finally:
        bind(before)


@NEEDS_COMPILER
@ON_LINUX
def test_whom_the_system_refuses_another_core_stays(tmp_path):
    source = tmp_path / "refused.cpp"
    refused = "namespace { int refused(...) { return -1; } }\n#define sched_setaffinity refused\n"
    own = ALL_ON_CORE.format(core=min(os.sched_getaffinity(0)))
    source.write_text(own.replace('#include "cores.cpp"', f'{refused}#include "cores.cpp"'))
    leave = library(source)["to_cores_of_their_own"]
    assert [leave(2) for _ in range(3)] == [0, 0, 0]


@NEEDS_COMPILER
@ON_LINUX
def test_more_threads_than_cores_come_together_too():
    leave = library(SOURCE)["to_cores_of_their_own"]
    count = 2 * len(os.sched_getaffinity(0)) + 1
    before = masks()
    assert all(0 <= leave(count) < count for _ in range(20))
    assert all(masks().get(number, mask) == mask for number, mask in before.items())


@NEEDS_COMPILER
@ON_LINUX
@pytest.mark.usefixtures("two_threads")
def test_threads_come_together_again_and_again():
    assert library(SOURCE) is not None
    assert all(keep_apart() in (0, 1) for _ in range(1000))


@pytest.mark.usefixtures("two_threads")
def test_a_lone_thread_and_a_machine_without_the_library_do_nothing(monkeypatch):
    monkeypatch.setattr(cores, "library", lambda source: None)
    assert keep_apart() == 0
    monkeypatch.setattr(cores, "library", None)
    torch.set_num_threads(1)
    assert keep_apart() == 0


@pytest.mark.usefixtures("two_threads")
def test_what_asks_is_still_compiled_whole():
    whole = torch.compile(lambda ones: ones + keep_apart(), backend="eager", fullgraph=True)
    assert torch.equal(whole(torch.ones(3)), torch.ones(3))


def test_it_is_asked_before_a_model_reads(monkeypatch):
    asked = []
    monkeypatch.setattr("bertsmith.model.bert.keep_apart", lambda: asked.append(1))
    bert = Bert(sized(1, 32, 2))
    with torch.no_grad():
        bert(Stream.of(random_packed([3], 60)))
    assert asked == [1]
