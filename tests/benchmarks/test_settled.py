import mmap
from types import SimpleNamespace

import pytest

from benchmarks import settled as settled_file
from benchmarks.settled import FEW_FAULTS, MOST_STEPS, page_faults, settled


def meets_pages(count):
    """Writes to so many pages that nobody met before."""
    with mmap.mmap(-1, count * mmap.PAGESIZE) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):  # else a large page may be one for many
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(count):
            memory[page * mmap.PAGESIZE] = 1


def test_pages_that_are_met_anew_are_counted():
    before = page_faults()
    meets_pages(1000)
    assert page_faults() - before >= 1000


@pytest.mark.parametrize("num_unsettled", [0, 3, MOST_STEPS + 5])
def test_steps_are_taken_up_to_the_first_that_meets_few_pages(num_unsettled, monkeypatch):
    taken, now = [], [0.0]
    monkeypatch.setattr(settled_file, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def step(number):
        taken.append(number)
        now[0] += 1.0 + number
        if number < num_unsettled:
            meets_pages(4 * FEW_FAULTS)
        return 100 + number

    found = settled(lambda number=number: step(number) for number in range(100))
    assert taken == list(range(min(num_unsettled + 1, MOST_STEPS)))
    assert found[:2] == (100 + taken[-1], pytest.approx(1.0 + taken[-1]))
    assert (found.faults > FEW_FAULTS) is (num_unsettled > MOST_STEPS)
