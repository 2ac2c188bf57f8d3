"""Our model or the peer's, with equal weights and batches -> its loss at every step of training.

Optimizer, schedule and loop are ours for both, and dropout is off: what differs between two curves
is the model and its gradients alone. One difference of the peer is taken out, and named where it
is. It does not know how curves are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import nn

from benchmarks.systems import padded, peer
from bertsmith.batch import PackedBatch, PretrainBatch
from bertsmith.corpus.store import Corpus
from bertsmith.data.config import Masking
from bertsmith.data.pairs import PairRules
from bertsmith.data.plan import Plan, StepRules
from bertsmith.model.config import BertConfig, Objective
from bertsmith.model.init import initialise
from bertsmith.model.objectives import Losses, PretrainModel
from bertsmith.randomness import integers, permutation
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.loop import train
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.schedule import ScheduleConfig

System = Literal["bertsmith", "transformers"]
OBJECTIVES: tuple[Objective, ...] = ("masked_lm", "next_sentence")
WARMUP_SHARE = 0.1
SHORTEST = 8
PREDICTED_SHARE = 0.15


@dataclass(frozen=True, kw_only=True)
class Trial:
    """All that two systems share."""

    model: BertConfig
    """Its dropout is ignored; with a corpus, its vocabulary's size too."""
    dtype: Literal["float64", "float32"]
    """Of weights, activations and moments."""
    steps: int
    batch_size: int
    learning_rate: float
    """The schedule's peak."""
    sequence_length: int = 128
    corpus: Path | None = None
    """Where batches come from; None: drawn tokens in sequences of mixed lengths."""


def losses(system: System, trial: Trial) -> list[float]:
    """Trains from the first weights on; the loss before each update, masked LM + next sentence."""
    config = without_dropout(trial)
    first = PretrainModel(config, OBJECTIVES)
    initialise(first, std=config.initializer_range, seed=0)
    learner = LEARNERS[system](config, first).to(getattr(torch, trial.dtype))
    optimizer = Optimizer(
        learner.named_parameters(), OptimizerConfig(learning_rate=trial.learning_rate)
    )
    schedule = ScheduleConfig(total_steps=trial.steps, warmup_share=WARMUP_SHARE)
    return [step.loss for step in train(learner, optimizer, schedule, batches_of(trial))]


def without_dropout(trial: Trial) -> BertConfig:
    """The trial's architecture over its corpus's vocabulary, no dropout."""
    vocab_size = trial.model.vocab_size
    if trial.corpus is not None:
        vocab_size = Corpus.open(trial.corpus).manifest.vocab_size
    return replace(
        trial.model,
        vocab_size=vocab_size,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


class OurLearner(nn.Module):
    """Our model as the training loop calls it, dropout off."""

    def __init__(self, config: BertConfig, first: PretrainModel) -> None:
        super().__init__()
        self.model = first

    def forward(self, batch: PretrainBatch, step: int) -> Losses:
        """The losses of a step; its number would only key dropout."""
        result: Losses = self.model(batch)
        return result


class PeerLearner(nn.Module):
    """`transformers`' BertForPreTraining with the same weights, its default attention."""

    def __init__(self, config: BertConfig, first: PretrainModel) -> None:
        super().__init__()
        self.model = peer(config, first.state_dict())
        # The peer gives the [PAD] row no gradient from its lookup. The original does, and masking
        # may draw [PAD] as a random token: without this the two would differ where it was drawn.
        self.model.get_submodule("bert.embeddings.word_embeddings").padding_idx = None

    def forward(self, batch: PretrainBatch, step: int) -> Losses:
        """The loss of a whole step, as the peer computes it: masked LM + next sentence."""
        output = self.model(**padded(batch))
        return Losses(loss=output.loss, sums={})


LEARNERS: dict[System, Callable[[BertConfig, PretrainModel], nn.Module]] = {
    "bertsmith": OurLearner,
    "transformers": PeerLearner,
}


def batches_of(trial: Trial) -> Iterator[PretrainBatch]:
    """The trial's batches, the same at every call."""
    if trial.corpus is None:
        return (mixed(trial, number) for number in range(trial.steps))
    rules = StepRules(
        batch_size=trial.batch_size,
        pairs=PairRules(sequence_length=trial.sequence_length),
        masking=Masking(),
        objectives=OBJECTIVES,
    )
    return map(Plan(Corpus.open(trial.corpus), rules).step, range(trial.steps))


def mixed(trial: Trial, number: int) -> PretrainBatch:
    """Sequences of all lengths from 8 up, tokens with the skew of text, `[PAD]`'s id among them."""
    size, vocabulary = trial.batch_size, trial.model.vocab_size
    sequences = np.arange(size)
    lengths = SHORTEST + integers(trial.sequence_length - SHORTEST + 1, 1, number, sequences)
    places = np.arange(lengths.sum())
    skewed = integers(vocabulary, 2, number, places) * integers(vocabulary, 3, number, places)
    token_ids = (skewed // vocabulary).astype(np.int32)
    num_targets = round(PREDICTED_SHARE * len(places))
    target_rows = np.sort(permutation(len(places), 4, number)[:num_targets])
    masked = token_ids.copy()
    masked[target_rows] = vocabulary - 1
    ends = np.repeat(np.cumsum(lengths), lengths)
    return PretrainBatch(
        packed=PackedBatch(
            token_ids=masked,
            segment_ids=(ends - places <= np.repeat(lengths // 2, lengths)).astype(np.int32),
            lengths=lengths.astype(np.int32),
            keys=sequences,
        ),
        target_rows=target_rows,
        target_ids=token_ids[target_rows],
        next_labels=integers(2, 5, number, sequences).astype(np.int8),
        step_targets=num_targets,
        step_sequences=size,
    )
