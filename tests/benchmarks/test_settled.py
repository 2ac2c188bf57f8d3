import mmap

import pytest

from benchmarks import settled
from benchmarks.settled import FEW_FAULTS, MOST_STEPS, page_faults, settled_seconds


def meets_pages(count):
    """Writes to so many pages that nobody met before."""
    with mmap.mmap(-1, count * mmap.PAGESIZE) as memory:
        for page in range(count):
            memory[page * mmap.PAGESIZE] = 1


def test_pages_that_are_met_anew_are_counted():
    before = page_faults()
    meets_pages(1000)
    assert 1000 <= page_faults() - before < 1500


@pytest.mark.parametrize("num_unsettled", [0, 3, MOST_STEPS + 5])
def test_steps_are_taken_up_to_the_first_that_meets_few_pages(num_unsettled, monkeypatch):
    taken, now = [], [0.0]
    monkeypatch.setattr(settled.time, "perf_counter", lambda: now[0])

    def step(number):
        taken.append(number)
        now[0] += 1.0 + number
        if number < num_unsettled:
            meets_pages(2 * FEW_FAULTS)

    steps = (lambda number=number: step(number) for number in range(100))
    seconds = settled_seconds(steps)
    assert taken == list(range(min(num_unsettled + 1, MOST_STEPS)))
    assert seconds == pytest.approx(1.0 + taken[-1])
