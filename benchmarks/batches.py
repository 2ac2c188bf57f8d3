"""A step's number -> its batch: full sequences of drawn tokens, or a corpus's own sequences.

Drawn ones are a function of the number alone, so that every system takes the same. A corpus's come
from bertsmith's own plan, with the lengths that documents have. It does not know who takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bertsmith.batch import PackedBatch, PretrainBatch
from bertsmith.model.config import BertConfig
from bertsmith.randomness import integers, permutation

PREDICTED_SHARE = 0.15


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Of the batch of every step."""

    num_sequences: int
    length: int
    """Tokens of every sequence; with a corpus, of the longest that may be."""
    corpus: Path | None = None
    """Where the sequences come from; None: their tokens are drawn, and all are full."""


def batches_of(config: BertConfig, shape: Shape) -> Callable[[int], PretrainBatch]:
    """What gives the batch of a step."""
    if shape.corpus is None:
        return lambda number: synthetic(config, shape.length, shape.num_sequences, number)
    # Here, for full sequences need no tokenizer.
    from bertsmith.corpus.store import Corpus
    from bertsmith.data.config import Masking
    from bertsmith.data.pairs import PairRules
    from bertsmith.data.plan import Plan, StepRules

    rules = StepRules(
        batch_size=shape.num_sequences,
        pairs=PairRules(sequence_length=shape.length),
        masking=Masking(),
    )
    return Plan(Corpus.open(shape.corpus), rules).step


def over_vocabulary(config: BertConfig, corpus: Path | None) -> BertConfig:
    """The config with the vocabulary of the corpus, if there is one."""
    if corpus is None:
        return config
    from bertsmith.corpus.manifest import Manifest

    return replace(config, vocab_size=Manifest.read(corpus).vocab_size)


def training_flops(config: BertConfig, lengths: Sequence[int]) -> float:
    """Operations of a step on such sequences: three times the forward multiplications."""
    hidden, inner = config.hidden_size, config.intermediate_size
    tokens, squares = sum(lengths), sum(length**2 for length in lengths)
    layer = tokens * (8 * hidden**2 + 4 * hidden * inner) + 4 * hidden * squares
    predicted = PREDICTED_SHARE * tokens
    head = predicted * (2 * hidden**2 + 2 * hidden * config.vocab_size)
    # Rows that no head reads leave the last layer after its attention.
    unread = (tokens - predicted - len(lengths)) * (2 * hidden**2 + 4 * hidden * inner)
    return 3 * (config.num_hidden_layers * layer - unread + head)


def synthetic(config: BertConfig, length: int, num_sequences: int, number: int) -> PretrainBatch:
    """Full sequences of tokens drawn with the squares' skew of text: speed needs no meaning."""
    total = length * num_sequences
    places = np.arange(total)
    vocabulary = config.vocab_size - 1000
    skewed = integers(vocabulary, 1, number, places) * integers(vocabulary, 2, number, places)
    num_targets = num_sequences * round(PREDICTED_SHARE * length)
    token_ids = (1000 + skewed // vocabulary).astype(np.int32)
    target_rows = np.sort(permutation(total, 3, number)[:num_targets])
    packed = PackedBatch(
        token_ids=token_ids,
        segment_ids=(places % length >= length // 2).astype(np.int32),
        lengths=np.full(num_sequences, length, dtype=np.int32),
        keys=np.arange(num_sequences),
    )
    masked = token_ids.copy()
    masked[target_rows] = 103
    return PretrainBatch(
        packed=replace(packed, token_ids=masked),
        target_rows=target_rows,
        target_ids=token_ids[target_rows],
        next_labels=integers(2, 4, number, np.arange(num_sequences)).astype(np.int8),
        step_targets=num_targets,
        step_sequences=num_sequences,
    )
