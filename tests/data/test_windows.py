"""Windows equal the original's, and so does the choice of the window with most context."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.data.windows import kept_rows, windows_of


def ranges_of_the_original(num_tokens, capacity, step):
    """run_squad.py, convert_examples_to_features, doc_spans."""
    ranges, start = [], 0
    while start < num_tokens:
        length = min(num_tokens - start, capacity)
        ranges.append((start, start + length))
        if start + length == num_tokens:
            break
        start += min(length, step)
    return ranges


def best_window_of_the_original(ranges, token):
    """run_squad.py, _check_is_max_context."""
    best_score = best = None
    for number, (start, end) in enumerate(ranges):
        if not start <= token < end:
            continue
        score = min(token - start, end - 1 - token) + 0.01 * (end - start)
        if best_score is None or score > best_score:
            best_score, best = score, number
    return best


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 40))
def test_every_token_is_kept_once_from_the_window_with_most_context(num_tokens, capacity, step):
    step = min(step, capacity)
    windows = windows_of(num_tokens, capacity, step)
    ranges = ranges_of_the_original(num_tokens, capacity, step)
    assert [(window.start, window.end) for window in windows] == ranges
    expected = [best_window_of_the_original(ranges, token) for token in range(num_tokens)]
    found = [
        number
        for number, window in enumerate(windows)
        for _ in range(window.kept_start, window.kept_end)
    ]
    assert found == expected
    assert [window.kept_start for window in windows[1:]] == [w.kept_end for w in windows[:-1]]
    assert all(window.kept_start < window.kept_end for window in windows)


@given(st.integers(0, 60), st.integers(1, 20), st.one_of(st.none(), st.integers(1, 20)))
def test_kept_rows_end_to_end_are_cls_every_token_once_and_sep(num_tokens, capacity, step):
    step = None if step is None else min(step, capacity)
    ids = np.arange(100, 100 + num_tokens, dtype=np.int32)
    windows = windows_of(num_tokens, capacity, step)
    items = [window.item(ids, 1, 2) for window in windows]
    assert all(len(item.token_ids) <= capacity + 2 for item in items)
    assert all(item.token_ids[0] == 1 and item.token_ids[-1] == 2 for item in items)
    assert all(item.num_unread == 0 for item in items)
    lengths = np.array([len(item.token_ids) for item in items])
    stream = np.concatenate([item.token_ids for item in items])
    kept = stream[kept_rows(windows, np.cumsum(lengths) - lengths)]
    read = ids if step is not None else ids[:capacity]
    assert kept.tolist() == [1, *read.tolist(), 2]


def test_windows_of_the_original_example():
    # run_squad.py's comment: "the man went to the store and bought a gallon of milk".
    windows = windows_of(12, 5, 3)
    assert [(window.start, window.end) for window in windows] == [(0, 5), (3, 8), (6, 11), (9, 12)]
    bought = [w for w in windows if w.kept_start <= 7 < w.kept_end]
    assert [(window.start, window.end) for window in bought] == [(6, 11)]


@pytest.mark.parametrize("num_tokens", [0, 1, 10])
def test_a_text_that_fits_is_one_window(num_tokens):
    assert len(windows_of(num_tokens, 10, 3)) == 1
    assert windows_of(num_tokens, 10, 3) == windows_of(num_tokens, 10, None)


def test_truncation_reads_the_beginning():
    (window,) = windows_of(100, 10, None)
    assert (window.start, window.end, window.is_first, window.is_last) == (0, 10, True, True)
