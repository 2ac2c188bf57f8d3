"""A split depends on contents alone, and no content stands on both sides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.tasks.own.split import SplitConfig, content_of, held_out, num_shared, split

CONTENTS = [f"text {number % 700}" for number in range(1000)]


def test_the_split_is_the_same_in_any_order_and_keeps_contents_together() -> None:
    train, dev = split(range(1000), CONTENTS, SplitConfig())
    assert sorted(train + dev) == list(range(1000))
    assert len(dev) == 100
    assert not {CONTENTS[each] for each in train} & {CONTENTS[each] for each in dev}
    backwards = held_out(CONTENTS[::-1], SplitConfig())[::-1]
    assert np.flatnonzero(backwards).tolist() == dev
    assert split(range(1000), CONTENTS, SplitConfig(seed=1))[1] != dev


def test_the_split_of_a_version_is_that_of_every_other() -> None:
    contents = [f"text {number}" for number in range(20)]
    assert np.flatnonzero(held_out(contents, SplitConfig())).tolist() == [4, 17]


@pytest.mark.parametrize(
    ("contents", "share", "counts"),
    [
        (["a", "b"], 0.1, (1, 1)),
        (["a", "b"], 0.9, (1, 1)),
        (["a"] * 9 + ["b"] * 3 + ["c"] * 6, 0.1, (15, 3)),
        ([str(number) for number in range(50)], 0.3, (35, 15)),
    ],
)
def test_neither_side_is_empty(contents: list[str], share: float, counts: tuple[int, int]) -> None:
    train, dev = split(contents, contents, SplitConfig(share=share))
    assert (len(train), len(dev)) == counts


@given(
    st.lists(st.integers(0, 9), min_size=2).filter(lambda each: len(set(each)) > 1),
    st.floats(0.01, 0.99),
)
def test_any_contents_are_parted_without_overlap(numbers: list[int], share: float) -> None:
    contents = [str(number) for number in numbers]
    train, dev = split(contents, contents, SplitConfig(share=share))
    assert train
    assert dev
    assert not set(train) & set(dev)
    assert sorted(train + dev) == sorted(contents)


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(ValueError, match="3 examples cannot be split"):
        held_out(["a"] * 3, SplitConfig())
    for share in (0.0, 1.0):
        with pytest.raises(ValueError, match="must be between 0 and 1"):
            SplitConfig(share=share)


def test_contents_are_equal_whatever_the_capitals_and_blanks() -> None:
    assert content_of("A  cat", "b") == content_of(" a cat", "B\n") != content_of("a", "cat b")
    assert num_shared(["a", "b"], ["b", "b", "c"]) == 2


def test_a_document_is_shared_where_all_its_sentences_are() -> None:
    documents, sentences = ["a\nb", "a\nb", "c"], ["a", "b", "c"]
    assert num_shared(documents, sentences) == num_shared(sentences, documents) == 3
    assert num_shared(documents, ["b\na", "a\nx", "x"]) == 1


def test_a_label_is_never_held_out_whole_where_it_need_not_be() -> None:
    contents = [f"text {number}" for number in range(20)]
    usual = np.flatnonzero(held_out(contents, SplitConfig())).tolist()
    assert usual == [4, 17]
    labels = [("rare",) if number in usual else ("common",) for number in range(20)]
    found = np.flatnonzero(held_out(contents, SplitConfig(), labels)).tolist()
    assert len(found) == 2
    assert len({*found} & {*usual}) == 1
    for kept in ([("a",)] * 20, [("a",), ("b",)] * 10):  # nothing is lost: as without labels
        assert np.flatnonzero(held_out(contents, SplitConfig(), kept)).tolist() == usual


def test_contents_whose_labels_stand_elsewhere_are_held_out_before_smaller_ones() -> None:
    contents = ["a"] * 2 + ["b"] * 4 + ["c"] * 5
    labels = [("x", "rare")] * 2 + [("x",)] * 9
    assert np.flatnonzero(held_out(contents, SplitConfig(), labels)).tolist() == [2, 3, 4, 5]


def test_where_every_content_is_the_last_of_a_label_the_split_is_as_without_labels() -> None:
    contents = [f"text {number}" for number in range(20)]
    alone = [(content,) for content in contents]
    assert np.flatnonzero(held_out(contents, SplitConfig(), alone)).tolist() == [4, 17]
