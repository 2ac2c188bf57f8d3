"""Words with counts -> chains of symbols in which a pair can be joined wherever it stands.

All words lie in one flat array of symbols, linked to their neighbours; a join touches only the
places where the pair stands, all at once. It does not know which pair to join, nor vocabularies.

Source: our own; the chains play the part of the word list in Sennrich et al. 2016, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Shapes: W words, P positions (all symbols of all words), M places of one pair.
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

CONTINUATION = "##"
BYTES_PER_SYMBOL = 64
"""Peak memory of a chain, measured while it is laid out."""

_NOWHERE = -1
_RIGHT_BITS = 32
_RIGHT_MASK = (1 << _RIGHT_BITS) - 1


@dataclass(frozen=True, kw_only=True)
class Join:
    """What one join did."""

    number: int
    """The joined symbol."""
    times: int
    """How often the pair stood in the text."""
    keys: Int64Array
    """The pairs whose count changed, each once."""
    changes: Int64Array
    """By how much."""


class SymbolChains:
    """Every word as a chain of symbols; a symbol's number is its place in `texts`.

    At the start a symbol is one character: plain where it begins a word, `##` elsewhere.
    """

    def __init__(self, words: Sequence[str], counts: Int64Array, alphabet: Sequence[str]) -> None:
        """Lays the words out; `alphabet` is ascending and holds every character of every word."""
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        ends = np.cumsum(lengths)
        starts = ends - lengths
        self.texts = [*alphabet, *(CONTINUATION + character for character in alphabet)]
        self._numbers = {text: number for number, text in enumerate(self.texts)}
        self._symbols = _character_numbers(words, alphabet)  # (P,)
        goes_on = np.ones(len(self._symbols), dtype=bool)
        goes_on[starts] = False
        self._symbols[goes_on] += len(alphabet)
        self._next = np.arange(1, len(self._symbols) + 1, dtype=np.int32)  # (P,)
        self._next[ends - 1] = _NOWHERE
        self._previous = np.arange(-1, len(self._symbols) - 1, dtype=np.int32)  # (P,)
        self._previous[starts] = _NOWHERE
        self._word = np.repeat(np.arange(len(words), dtype=np.int32), lengths)  # (P,)
        self._counts = counts  # (W,)
        self._places = _places_by_symbol(self._symbols, len(self.texts))

    def pair_counts(self) -> tuple[Int64Array, Int64Array]:
        """The keys of all adjacent pairs, ascending, and how often each occurs."""
        left = np.flatnonzero(self._next != _NOWHERE)
        keys = _pair_keys(self._symbols[left], self._symbols[self._next[left]])
        return _sum_by_key(keys, self._counts[self._word[left]])

    def symbol_counts(self) -> Int64Array:
        """How often each symbol occurs, (len(texts),)."""
        totals = np.zeros(len(self.texts), dtype=np.int64)
        for number in range(len(self.texts)):
            totals[number] = self._counts[self._word[self._living_places(number)]].sum()
        return totals

    def pair_texts(self, key: int) -> tuple[str, str]:
        """A pair's two texts."""
        left, right = pair_numbers(key)
        return self.texts[left], self.texts[right]

    def join(self, key: int) -> Join:
        """Joins a pair wherever it stands, from left to right."""
        left, right = pair_numbers(key)
        number = self._number_of(self.texts[left] + self.texts[right][len(CONTINUATION) :])
        heads = self._heads(left, right)  # (M,)
        tails = self._next[heads]  # (M,)
        weights = self._counts[self._word[heads]]  # (M,)
        times = int(weights.sum())
        # Where two joins touch, the pair between them is counted once: as the first one's right.
        self._symbols[tails] = _NOWHERE
        old_left, has_left = self._symbols_at(self._previous[heads])
        old_right, has_right = self._symbols_at(self._next[tails])
        right_places = self._next[tails]
        self._symbols[heads] = number
        self._next[heads] = right_places
        self._previous[right_places[has_right]] = heads[has_right]
        new_left, has_new_left = self._symbols_at(self._previous[heads])
        new_right, has_new_right = self._symbols_at(right_places)
        has_new_right &= new_right == old_right
        self._places[number].append(heads)
        keys = [
            np.array([key]),
            _pair_keys(old_left[has_left], left),
            _pair_keys(right, old_right[has_right]),
            _pair_keys(new_left[has_new_left], number),
            _pair_keys(number, new_right[has_new_right]),
        ]
        changes = [
            np.array([-times]),
            -weights[has_left],
            -weights[has_right],
            weights[has_new_left],
            weights[has_new_right],
        ]
        changed, change = _sum_by_key(np.concatenate(keys), np.concatenate(changes))
        return Join(number=number, times=times, keys=changed, changes=change)

    def _symbols_at(self, places: Int32Array) -> tuple[Int32Array, BoolArray]:
        """The symbols there, and whether there is one: no word border, no swallowed tail."""
        symbols = self._symbols[places]
        return symbols, (places != _NOWHERE) & (symbols != _NOWHERE)

    def _number_of(self, text: str) -> int:
        """Two different pairs may join to one text ("a" "##bc" and "ab" "##c"): one symbol."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
            self._places.append([])
        return self._numbers[text]

    def _heads(self, left: int, right: int) -> Int32Array:
        """Where the pair begins, each once: found from its rarer side."""
        if _num_places(self._places[left]) <= _num_places(self._places[right]):
            heads = self._living_places(left)
            heads = heads[self._next[heads] != _NOWHERE]
            heads = heads[self._symbols[self._next[heads]] == right]
        else:
            heads = self._previous[self._living_places(right)]
            heads = heads[heads != _NOWHERE]
            heads = heads[self._symbols[heads] == left]
        return heads if left != right else self._without_overlaps(np.sort(heads))

    def _without_overlaps(self, heads: Int32Array) -> Int32Array:
        """Every second place of a run: in "aaa" the pair "aa" begins twice and is joined once."""
        if not len(heads):
            return heads
        begins_run = np.ones(len(heads), dtype=bool)
        begins_run[1:] = self._next[heads[:-1]] != heads[1:]
        order = np.arange(len(heads))
        run_start = np.maximum.accumulate(np.where(begins_run, order, 0))
        is_kept: BoolArray = (order - run_start) % 2 == 0
        return heads[is_kept]

    def _living_places(self, number: int) -> Int32Array:
        """The places that still hold the symbol; stale ones are forgotten."""
        parts = self._places[number]
        places = np.concatenate(parts) if len(parts) > 1 else parts[0]
        is_living: BoolArray = self._symbols[places] == number
        places = places[is_living]
        self._places[number] = [places]
        return places


def pair_numbers(key: int) -> tuple[int, int]:
    """The two symbols of a pair's key."""
    return key >> _RIGHT_BITS, key & _RIGHT_MASK


def _pair_keys(left: Int32Array | int, right: Int32Array | int) -> Int64Array:
    return np.bitwise_or(np.left_shift(np.asarray(left, dtype=np.int64), _RIGHT_BITS), right)


def _sum_by_key(keys: Int64Array, weights: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Distinct keys, ascending, and the sum of each one's weights."""
    if not len(keys):
        return keys, weights
    order = np.argsort(keys)
    keys = keys[order]
    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[begins], np.add.reduceat(weights[order], begins)


def _character_numbers(words: Sequence[str], alphabet: Sequence[str]) -> Int32Array:
    """Each character's place in the ascending alphabet, all words one after the other, (P,)."""
    encoded = "".join(words).encode("utf-32-le", "surrogatepass")
    known = np.fromiter(map(ord, alphabet), dtype=np.uint32, count=len(alphabet))
    return np.searchsorted(known, np.frombuffer(encoded, dtype="<u4")).astype(np.int32)


def _places_by_symbol(symbols: Int32Array, num_symbols: int) -> list[list[Int32Array]]:
    order = np.argsort(symbols, kind="stable").astype(np.int32)
    bounds = np.cumsum(np.bincount(symbols, minlength=num_symbols))
    return [[part] for part in np.split(order, bounds[:-1])]


def _num_places(parts: list[Int32Array]) -> int:
    return sum(map(len, parts))
