"""The door between data and model: one packed stream of tokens, as numpy arrays.

A batch is one stream of real tokens with the lengths of its sequences. There is no padding and no
attention mask: positions and sequence starts follow from the lengths, and attention is
block-diagonal by construction. This file knows neither text nor torch; `model.stream` turns the
arrays into tensors.

Legend: T tokens, N sequences, M target rows, R scored rows, S the longest sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.integer]


@dataclass(frozen=True, kw_only=True)
class PackedBatch:
    """N sequences laid end to end, T tokens in all."""

    token_ids: IntArray
    """(T,) int32."""
    segment_ids: IntArray
    """(T,) int32: 0 for `[CLS] A [SEP]`, 1 for `B [SEP]`."""
    lengths: IntArray
    """(N,) int32, each at least 1, summing to T."""
    keys: IntArray
    """(N,) int64: each sequence's number in its step; dropout is keyed by it, not by its place."""

    def __post_init__(self) -> None:
        """Checks once, here, what every later stage relies on."""
        tokens, sequences = self.token_ids.shape, self.lengths.shape
        if len(tokens) != 1 or self.segment_ids.shape != tokens:
            raise ValueError(
                f"token_ids and segment_ids must be one stream of equal length, found shapes "
                f"{tokens} and {self.segment_ids.shape}"
            )
        if len(sequences) != 1 or self.keys.shape != sequences:
            raise ValueError(
                f"lengths and keys must name the same sequences, found shapes {sequences} and "
                f"{self.keys.shape}"
            )
        lengths = self.lengths.tolist()  # of few sequences faster to add up than an array
        total, least = sum(lengths), min(lengths, default=1)
        if total != tokens[0] or least < 1:
            raise ValueError(
                f"lengths must be positive and sum to the {tokens[0]} tokens of the stream, found "
                f"sum {total} and minimum {least}"
            )

    @property
    def num_tokens(self) -> int:
        """T."""
        return int(self.token_ids.shape[0])

    @property
    def num_sequences(self) -> int:
        """N."""
        return int(self.lengths.shape[0])

    @cached_property
    def starts(self) -> IntArray:
        """(N,) int64: the stream row of each sequence's first token.

        Kept, and shared with tensors on a CPU: not to be written to.
        """
        return starts_of(self.lengths)

    @property
    def positions(self) -> IntArray:
        """(T,) int64: each token's position in its own sequence, counted from 0."""
        rows = np.arange(self.num_tokens)
        if self.num_sequences == 1:  # what one text alone would wait for
            return rows
        return rows - np.repeat(self.starts, self.lengths)

    @staticmethod
    def from_padded(
        input_ids: npt.ArrayLike,
        attention_mask: npt.ArrayLike | None = None,
        token_type_ids: npt.ArrayLike | None = None,
    ) -> PackedBatch:
        """Drops the padding of (N, S) arrays as tokenizers of the Hugging Face ecosystem give them.

        Every row must have at least one real token, its real tokens first (padding on the right).
        """
        ids = np.asarray(input_ids)
        if ids.ndim != 2:
            raise ValueError(
                f"input_ids must be (N, S), a row a sequence, found shape {ids.shape}; put a "
                f"single sequence into a list"
            )
        mask = np.ones_like(ids) if attention_mask is None else np.asarray(attention_mask)
        types = np.zeros_like(ids) if token_type_ids is None else np.asarray(token_type_ids)
        for name, array in (("attention_mask", mask), ("token_type_ids", types)):
            if array.shape != ids.shape:
                raise ValueError(
                    f"{name} has shape {array.shape}, expected input_ids' shape {ids.shape}"
                )
        real = mask.astype(bool)
        lengths = real.sum(axis=1)
        if not np.array_equal(real, np.arange(real.shape[1]) < lengths[:, None]):
            raise ValueError("attention_mask must be ones followed by zeros (padding on the right)")
        return PackedBatch(
            token_ids=ids[real].astype(np.int32),
            segment_ids=types[real].astype(np.int32),
            lengths=lengths.astype(np.int32),
            keys=np.arange(len(lengths)),
        )

    def to_padded(self, pad_token_id: int = 0) -> tuple[IntArray, IntArray, IntArray]:
        """The same sequences as (N, S) `input_ids, attention_mask, token_type_ids`, int64."""
        mask = np.arange(int(self.lengths.max())) < self.lengths[:, None]  # (N, S)
        input_ids = np.full(mask.shape, pad_token_id, dtype=np.int64)
        token_type_ids = np.zeros(mask.shape, dtype=np.int64)
        input_ids[mask] = self.token_ids
        token_type_ids[mask] = self.segment_ids
        return input_ids, mask.astype(np.int64), token_type_ids


@dataclass(frozen=True, kw_only=True)
class PretrainBatch:
    """A packed batch and what to predict on it: one step, or one micro-batch of a step."""

    packed: PackedBatch
    target_rows: IntArray
    """(M,) int64: rows of the stream whose final hidden state predicts a token, ascending."""
    target_ids: IntArray
    """(M,) int32: the token each of those rows must predict."""
    next_labels: IntArray | None
    """(N,) int8: 0 = B follows A, 1 = B is random (google-research/bert); None without NSP."""
    step_targets: int
    """Target rows of the whole step, over all micro-batches and processes: the loss's divisor."""
    step_sequences: int
    """Sequences of the whole step, over all micro-batches and processes."""

    @property
    def num_tokens(self) -> int:
        """T."""
        return self.packed.num_tokens

    def split(self, parts: int) -> list[PretrainBatch]:
        """Cuts the step into `parts` micro-batches of consecutive sequences, divisors unchanged.

        Sequence i goes to part floor(i * parts / N), so parts differ by one sequence at most.
        Raises ValueError when there are fewer sequences than parts.
        """
        edges = _edges(self.packed.num_sequences, parts)
        return [self._slice(start, end) for start, end in pairwise(edges)]

    def _slice(self, start: int, end: int) -> PretrainBatch:
        packed = self.packed
        rows = np.concatenate([packed.starts, [packed.num_tokens]])
        row_start, row_end = int(rows[start]), int(rows[end])
        inside = slice(*np.searchsorted(self.target_rows, (row_start, row_end)))
        return PretrainBatch(
            packed=_sequences(packed, start, end),
            target_rows=self.target_rows[inside] - row_start,
            target_ids=self.target_ids[inside],
            next_labels=None if self.next_labels is None else self.next_labels[start:end],
            step_targets=self.step_targets,
            step_sequences=self.step_sequences,
        )


@dataclass(frozen=True, kw_only=True)
class TaskBatch:
    """A packed batch, what a task's head scores on it, and what the scores should be.

    A group is what is answered as a whole: the sequences of one multiple-choice question; of any
    other task, one sequence.
    """

    packed: PackedBatch
    groups: IntArray
    """(N,) int64: each sequence's group, ascending from 0 without a gap."""
    rows: IntArray | None
    """(R,) int64, ascending: rows of the stream that are scored; None where the task scores all
    rows, or the vector of each sequence."""
    targets: npt.NDArray[np.number]
    """What is right, in the order of the sequences, or of `rows`; its form is the loss's."""
    targets_per_sequence: IntArray
    """(N,) int64: how many of `targets` are of each sequence."""
    items: IntArray
    """(N,) int64: each sequence's number among all that are learned."""
    step_targets: int
    """The loss's divisor: answers of the whole step, over all micro-batches and processes."""

    @property
    def num_tokens(self) -> int:
        """T."""
        return self.packed.num_tokens

    @property
    def num_groups(self) -> int:
        """How many answers there are."""
        return int(self.groups[-1]) + 1

    def split(self, parts: int) -> list[TaskBatch]:
        """Cuts the step into `parts` micro-batches of consecutive groups, the divisor unchanged.

        Raises ValueError when there are fewer groups than parts.
        """
        edges = np.searchsorted(self.groups, _edges(self.num_groups, parts))
        return [self._slice(int(start), int(end)) for start, end in pairwise(edges)]

    def _slice(self, start: int, end: int) -> TaskBatch:
        row_edges = np.append(self.packed.starts, self.packed.num_tokens)[[start, end]]
        first, last = np.append(0, np.cumsum(self.targets_per_sequence))[[start, end]]
        rows = None
        if self.rows is not None:
            rows = self.rows[slice(*np.searchsorted(self.rows, row_edges))] - row_edges[0]
        return TaskBatch(
            packed=_sequences(self.packed, start, end),
            groups=self.groups[start:end] - self.groups[start],
            rows=rows,
            targets=self.targets[first:last],
            targets_per_sequence=self.targets_per_sequence[start:end],
            items=self.items[start:end],
            step_targets=self.step_targets,
        )


def starts_of(lengths: IntArray) -> IntArray:
    """(N,) int64: where each of N consecutive runs of these lengths begins."""
    if len(lengths) == 1:  # what one text alone would wait for
        return np.zeros(1, np.int64)
    return np.cumsum(lengths, dtype=np.int64) - lengths


def _edges(count: int, parts: int) -> list[int]:
    """Where each of `parts` nearly equal runs of `count` things begins, and where the last ends."""
    if not 1 <= parts <= count:
        raise ValueError(f"cannot cut {count} sequences into {parts} micro-batches")
    return [-(-part * count // parts) for part in range(parts + 1)]


def _sequences(packed: PackedBatch, start: int, end: int) -> PackedBatch:
    """The sequences from `start` to before `end`."""
    row_start, row_end = np.append(packed.starts, packed.num_tokens)[[start, end]]
    return PackedBatch(
        token_ids=packed.token_ids[row_start:row_end],
        segment_ids=packed.segment_ids[row_start:row_end],
        lengths=packed.lengths[start:end],
        keys=packed.keys[start:end],
    )
