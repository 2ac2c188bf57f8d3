"""Segments and special tokens on a packed stream, and what one-directional models predict."""

from __future__ import annotations

import numpy as np
import pytest

from bertsmith.data.inputs import assemble, neighbour_targets

CLS, SEP = 101, 102


def packed(pairs: list[tuple[list[int], list[int]]]):
    content = [token for a, b in pairs for token in (*a, *b)]
    lengths = np.array([[len(a), len(b)] for a, b in pairs], dtype=np.int64)
    return assemble(np.array(content, dtype=np.int32), lengths, CLS, SEP)


def test_figure_2_has_its_token_and_segment_rows() -> None:
    words = ["[CLS]", "my", "dog", "is", "cute", "[SEP]", "he", "likes", "play", "##ing", "[SEP]"]
    ids = {"[CLS]": CLS, "[SEP]": SEP} | {w: n for n, w in enumerate(words) if w[0] != "["}
    a = [ids[word] for word in ["my", "dog", "is", "cute"]]
    b = [ids[word] for word in ["he", "likes", "play", "##ing"]]
    token_ids, segment_ids, lengths = packed([(a, b)])
    assert token_ids.tolist() == [ids[word] for word in words]
    assert segment_ids.tolist() == [0] * 6 + [1] * 5
    assert lengths.tolist() == [11]


def test_sequences_stand_end_to_end_without_padding() -> None:
    token_ids, segment_ids, lengths = packed([([1, 2], [3]), ([4], [5, 6]), ([7], [8])])
    assert token_ids.tolist() == [
        *(CLS, 1, 2, SEP, 3, SEP),
        *(CLS, 4, SEP, 5, 6, SEP),
        *(CLS, 7, SEP, 8, SEP),
    ]
    assert segment_ids.tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1]
    assert lengths.tolist() == [6, 6, 5]
    assert token_ids.dtype == segment_ids.dtype == lengths.dtype == np.int32


def test_an_empty_b_has_no_separator_of_its_own() -> None:
    token_ids, segment_ids, lengths = packed([([1, 2], []), ([3], [4])])
    assert token_ids.tolist() == [CLS, 1, 2, SEP, CLS, 3, SEP, 4, SEP]
    assert segment_ids.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert lengths.tolist() == [4, 5]


def test_content_that_equals_a_special_id_stays_where_it_is() -> None:
    token_ids, _, _ = packed([([SEP, 1], [CLS])])
    assert token_ids.tolist() == [CLS, SEP, 1, SEP, CLS, SEP]


@pytest.mark.parametrize(
    ("step", "rows", "targets"),
    [(1, [0, 1, 3, 4, 5], [11, 12, 14, 15, 16]), (-1, [1, 2, 4, 5, 6], [10, 11, 13, 14, 15])],
)
def test_every_row_predicts_its_neighbour_inside_its_own_sequence(step, rows, targets) -> None:
    token_ids = np.arange(10, 17, dtype=np.int32)
    found_rows, found_ids = neighbour_targets(token_ids, np.array([3, 4], dtype=np.int32), step)
    assert found_rows.tolist() == rows
    assert found_ids.tolist() == targets
