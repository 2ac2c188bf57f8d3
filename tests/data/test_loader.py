"""Batches drawn ahead: the same bits from thread or processes, errors raised, nothing left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import pytest

from bertsmith.batch import PretrainBatch
from bertsmith.cli import PERSON_MISTAKES
from bertsmith.data.loader import batches
from bertsmith.data.plan import Plan
from tests.data.test_plan import RULES, same, small_corpus
from tests.processes import is_running, wait_until


class FailingPlan(Plan):
    """Fails at step 5."""

    def step(self, number: int) -> PretrainBatch:
        if number == 5:
            raise ValueError("step 5 cannot be drawn")
        return super().step(number)


def loader_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("loader")]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_any_number_of_workers_gives_the_steps_in_order_to_the_bit(workers: int) -> None:
    plan = Plan(small_corpus(), RULES)
    drawn = list(batches(plan, 3, 90, workers))
    assert len(drawn) == 87
    for number, batch in enumerate(drawn, start=3):
        assert same(batch, plan.step(number))
    assert not loader_threads()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_is_raised_at_its_step_and_ends_the_workers(workers: int) -> None:
    drawn = []
    with pytest.raises(ValueError, match="step 5 cannot be drawn"):
        drawn.extend(batches(FailingPlan(small_corpus(), RULES), 2, 20, workers))
    stream = batches(FailingPlan(small_corpus(), RULES), 2, 20, workers)
    for _ in range(3):
        next(stream)
    with pytest.raises(ValueError, match="step 5"):
        next(stream)
    assert not loader_threads()
    assert not multiprocessing.active_children()


def test_closing_early_ends_the_workers() -> None:
    for workers in (0, 2):
        stream = batches(Plan(small_corpus(), RULES), 0, 10_000, workers)
        next(stream)
        stream.close()
        assert not loader_threads()
        assert not multiprocessing.active_children()


def test_a_worker_that_dies_is_reported_not_waited_for() -> None:
    stream = batches(Plan(small_corpus(), RULES), 0, 10_000, 2)
    next(stream)
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    with pytest.raises(ChildProcessError, match="a worker process ended") as raised:
        list(stream)
    assert isinstance(raised.value, PERSON_MISTAKES)  # told in one line, without a traceback


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_workers_do_not_outlive_a_killed_parent() -> None:
    program = (
        "import multiprocessing, os, signal\n"
        "from bertsmith.data.loader import batches\n"
        "from bertsmith.data.plan import Plan\n"
        "from tests.data.test_plan import RULES, small_corpus\n"
        "stream = batches(Plan(small_corpus(), RULES), 0, 10**9, 2)\n"
        "next(stream)\n"
        "print(multiprocessing.active_children()[0].pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert parent.wait(timeout=60) == -signal.SIGKILL
    wait_until(lambda: not is_running(worker))


def test_an_empty_range_yields_nothing_and_negative_numbers_are_refused() -> None:
    plan = Plan(small_corpus(), RULES)
    assert list(batches(plan, 4, 4)) == []
    with pytest.raises(ValueError, match="must not be negative"):
        next(batches(plan, 0, 4, workers=-1))
