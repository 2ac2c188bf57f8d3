from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertsmith.text.encoding import Tokens, between_special_tokens, encodings, with_entries

CLS, SEP = 101, 102


def of(*texts: Sequence[tuple[int, tuple[int, int], int]]) -> Tokens:
    """Texts of (id, span, word)."""
    flat = [token for text in texts for token in text]
    return Tokens(
        np.array([id for id, _, _ in flat], np.int32),
        np.array([span for _, span, _ in flat], np.int32).reshape(-1, 2),
        np.array([word for _, _, word in flat], np.int32),
        np.array([len(text) for text in texts], np.int64),
    )


def listed(tokens: Tokens) -> list[list[int]]:
    return [array.tolist() for array in tokens]


ONE = [(7, (0, 2), 0), (8, (2, 3), 0), (9, (4, 6), 1)]


def test_a_text_stands_between_cls_and_sep_and_a_second_one_before_another_sep() -> None:
    framed = between_special_tokens(of(ONE, [], [], ONE), [True, False, True, True], CLS, SEP)
    assert framed.ids.tolist() == [CLS, 7, 8, 9, SEP, SEP, CLS, SEP, CLS, 7, 8, 9, SEP]
    assert framed.words.tolist() == [-1, 0, 0, 1, -1, -1, -1, -1, -1, 0, 0, 1, -1]
    assert framed.spans[[0, 1, 3, 4, 5, 10]].tolist() == [
        [0, 0], [0, 2], [4, 6], [0, 0], [0, 0], [2, 3],
    ]  # fmt: skip
    assert framed.counts.tolist() == [5, 1, 2, 5]


def test_a_pair_is_one_encoding_of_two_segments() -> None:
    both, empty, alone = encodings(of(ONE, ONE[:1], [], ONE[1:]), [True, False, True, True])
    assert both.ids.tolist() == [7, 8, 9, 7]
    assert both.segments.tolist() == [0, 0, 0, 1]
    assert both.words.tolist() == [0, 0, 1, 0]
    assert empty.ids.size == empty.spans.size == empty.segments.size == 0
    assert alone.spans.tolist() == [[2, 3], [4, 6]]
    assert encodings(of(), []) == []


def test_tokens_around_entries_keep_their_places_and_words() -> None:
    between = of(ONE, [], [(6, (1, 2), 0)], [], ONE)
    pieces = [["two aa", "<e>", "", "<f>", " x"], [""], ["two aa"]]
    assert listed(with_entries(between, pieces, [50, 60])) == [
        [7, 8, 9, 50, 60, 6, 7, 8, 9],
        [[0, 2], [2, 3], [4, 6], [6, 9], [9, 12], [13, 14], [0, 2], [2, 3], [4, 6]],
        [0, 0, 1, 2, 3, 4, 0, 0, 1],
        [6, 0, 3],
    ]


def test_no_texts_are_no_tokens() -> None:
    nothing = between_special_tokens(of(), [], CLS, SEP)
    assert listed(nothing) == [[], [], [], []]
    assert listed(with_entries(of(), [], [])) == [[], [], [], []]
