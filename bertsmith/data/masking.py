"""A packed stream of tokens -> the same stream with masks, and what to predict under them.

Of each sequence exactly round(rate * n) positions are chosen (at least one, n counting `[CLS]` and
`[SEP]`, which are never chosen themselves); of these, each on its own, 80% become `[MASK]`, 10% a
token drawn from the whole vocabulary, 10% stay; all are predicted. It knows no corpus and no files.

The chosen positions are units in random order, taken while they fit the sequence's number: a unit
is one token, or with `whole_word` a whole word. Units of all sequences are taken side by side.

Source: google-research/bert create_pretraining_data.py, create_masked_lm_predictions; Devlin et al.
2018, sections 3.1 and C.2. Legend: N sequences, T tokens, U units, M chosen positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from bertsmith.batch import starts_of
from bertsmith.data.config import Masking
from bertsmith.data.inputs import Int32Array
from bertsmith.randomness import Int64Array, Stream, UInt64Array, hash64, integers, uniform

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class VocabularyFacts:
    """All that inputs and masks need to know of a vocabulary."""

    vocab_size: int
    cls_id: int
    sep_id: int
    mask_id: int
    is_continuation: BoolArray
    """(V,) True for the `##` pieces, which belong to the word before them."""


def mask(
    token_ids: Int32Array,
    lengths: Int32Array,
    example_keys: Int64Array,
    masking: Masking,
    vocabulary: VocabularyFacts,
    seed: int,
) -> tuple[Int32Array, Int64Array, Int32Array]:
    """Masks a stream: masked_ids (T,), target_rows (M,) ascending, target_ids (M,).

    Every draw is a function of (seed, `example_keys` (N,), position in the sequence), so an
    example's masks depend neither on its neighbours nor on its place in the batch.
    """
    sequences = np.repeat(np.arange(len(lengths)), lengths)  # (T,)
    positions = np.arange(len(token_ids)) - starts_of(lengths)[sequences]  # (T,)
    is_ordinary = (token_ids != vocabulary.cls_id) & (token_ids != vocabulary.sep_id)
    rows = np.flatnonzero(is_ordinary)
    begins_unit = np.ones(len(rows), dtype=bool)
    if masking.whole_word:
        begins_unit = _begins_word(token_ids[rows], sequences[rows], vocabulary)

    unit_rows = rows[begins_unit]  # (U,) first row of each unit
    unit_sizes = np.diff(np.flatnonzero(np.append(begins_unit, True)))  # (U,)
    unit_sequences = sequences[unit_rows]
    order_draws = hash64(
        seed, Stream.MASKS, _Purpose.ORDER, example_keys[unit_sequences], positions[unit_rows]
    )
    order = _by_sequence_and_draw(unit_sequences, order_draws, len(lengths))
    is_taken = _take_while_they_fit(
        order, unit_sizes, unit_sequences, _num_predictions(lengths, masking)
    )
    targets = rows[np.repeat(is_taken, unit_sizes)]  # (M,)

    masked_ids = token_ids.copy()
    draws = (example_keys[sequences[targets]], positions[targets])
    fate = uniform(seed, Stream.MASKS, _Purpose.FATE, *draws)
    anything = integers(vocabulary.vocab_size, seed, Stream.MASKS, _Purpose.RANDOM_TOKEN, *draws)
    becomes_mask = fate < masking.mask_share
    becomes_random = ~becomes_mask & (fate < masking.mask_share + masking.random_share)
    masked_ids[targets[becomes_mask]] = vocabulary.mask_id
    masked_ids[targets[becomes_random]] = anything[becomes_random]
    return masked_ids, targets.astype(np.int64), token_ids[targets]


class _Purpose(IntEnum):
    ORDER = 1
    FATE = 2
    RANDOM_TOKEN = 3


def _num_predictions(lengths: Int32Array, masking: Masking) -> Int64Array:
    """(N,) positions to predict: rounded half to even, as Python's round in the original."""
    numbers: Int64Array = np.maximum(np.rint(lengths * masking.rate).astype(np.int64), 1)
    if masking.max_predictions is not None:
        numbers = np.minimum(numbers, masking.max_predictions)
    return numbers


def _begins_word(
    token_ids: Int32Array, sequences: Int64Array, vocabulary: VocabularyFacts
) -> BoolArray:
    """True where a word begins among the ordinary tokens.

    As in the original, a `##` piece at the very front of A is a word of its own, and one at the
    front of a truncated B joins A's last word: candidates are a list without `[SEP]`.
    """
    begins = ~vocabulary.is_continuation[token_ids]
    begins[np.flatnonzero(np.diff(sequences, prepend=-1))] = True
    return begins


def _by_sequence_and_draw(
    sequences: Int64Array, draws: UInt64Array, num_sequences: int
) -> Int64Array:
    """(U,) the units sorted by sequence, and in each by its draw, the first of equal ones first.

    As `lexsort` does, in a third of the time: numbers of sequences are few, and sorted by digits.
    """
    by_draw = np.argsort(draws, kind="stable")
    numbers = sequences[by_draw].astype(np.min_scalar_type(num_sequences))
    order: Int64Array = by_draw[np.argsort(numbers, kind="stable")]
    return order


def _take_while_they_fit(
    order: Int64Array, sizes: Int64Array, sequences: Int64Array, numbers: Int64Array
) -> BoolArray:
    """(U,) the units taken: in `order`, each that fits what is left of its sequence's number.

    A word too long for the rest is passed over, as in the original. `order` sorts the units by
    sequence, and `sequences` rise; round r looks at the r-th unit of every sequence that still
    wants some. Units of one token all fit, until there are enough.
    """
    is_taken = np.zeros(len(sizes), dtype=bool)
    counts = np.bincount(sequences, minlength=len(numbers))
    firsts = starts_of(counts)
    if sizes.max(initial=0) <= 1:
        is_first = np.arange(len(order)) - firsts[sequences] < numbers[sequences]
        is_taken[order[is_first]] = True
        return is_taken
    remaining = numbers.copy()
    active = np.flatnonzero(counts)
    turn = 0
    while active.size:
        units = order[firsts[active] + turn]
        fits = sizes[units] <= remaining[active]
        is_taken[units[fits]] = True
        remaining[active] -= np.where(fits, sizes[units], 0)
        turn += 1
        active = active[(remaining[active] > 0) & (counts[active] > turn)]
    return is_taken
