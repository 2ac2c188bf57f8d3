from __future__ import annotations

import os
import signal
import time

import pytest

from bertsmith.workers import choose_workers, in_order, num_cores


def square(number: int) -> int:
    time.sleep(0.02 if number % 5 == 0 else 0.0)
    return number * number


def fails_at_seven(number: int) -> int:
    if number == 7:
        raise ValueError("seven is not for me")
    return number


def dies_at_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def large(number: int) -> bytes:
    return bytes(3_000_000)


def process_of(number: int) -> int:
    return os.getpid()


@pytest.mark.parametrize("num_workers", [1, 3])
def test_results_come_in_the_order_of_the_items(num_workers: int) -> None:
    assert list(in_order(square, range(40), num_workers)) == [n * n for n in range(40)]


def test_no_items_give_no_results() -> None:
    assert list(in_order(square, [], 2)) == []


def test_an_error_is_raised_at_its_turn_with_the_workers_traceback() -> None:
    results = in_order(fails_at_seven, range(20), 2)
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(ValueError, match="seven is not for me") as raised:
        next(results)
    assert "fails_at_seven" in raised.value.__notes__[0]


def test_a_killed_worker_is_named_as_such() -> None:
    with pytest.raises(ChildProcessError, match=r"exit code -9.*use fewer workers"):
        list(in_order(dies_at_three, range(9), 2))


def test_items_and_results_larger_than_a_pipe_do_not_lock() -> None:
    items = (bytes(3_000_000) for _ in range(10))
    assert sum(map(len, in_order(large, items, 2))) == 30_000_000


def test_items_are_asked_for_only_a_few_ahead() -> None:
    items = iter(range(100))
    results = in_order(square, items, 2)
    next(results)
    assert next(items) <= 9
    results.close()


def test_closing_the_results_ends_the_workers() -> None:
    results = in_order(process_of, range(100), 2)
    workers = {next(results) for _ in range(10)}
    assert os.getpid() not in workers
    results.close()
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not say")
def test_cores_are_those_this_process_may_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {2, 3, 5})
    assert num_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert num_cores() == 64
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert num_cores() == 1


def test_no_worker_has_less_than_a_megabyte_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bertsmith.workers.num_cores", lambda: 8)
    assert [choose_workers(0, size << 20) for size in (0, 1, 3, 50)] == [1, 1, 3, 8]
    assert choose_workers(20, 0) == 20
