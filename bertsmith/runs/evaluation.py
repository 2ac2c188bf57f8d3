"""Held-out documents and a model -> loss, perplexity and accuracies.

The examples are drawn with a fixed key, so two evaluations at one sequence length differ by the
weights alone; a phase of another length has examples of its own. Sequences of one next-sentence
label are evaluated together: the sums of a batch then belong to one class, which is all that
balanced accuracy needs. It does not know when it is called.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from bertsmith.batch import IntArray, PackedBatch, PretrainBatch
from bertsmith.data.plan import Plan
from bertsmith.model.objectives import PretrainModel

EVALUATION_SEED = 20_181_011
_SEQUENCES_A_BATCH = 32


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Means over the held-out examples; the last four are None without next-sentence pairs."""

    loss: float
    """Language-model cross entropy, nats a predicted token."""
    accuracy: float
    """Share of predicted tokens that are right."""
    targets: int
    """Predicted tokens."""
    sequences: int
    """Sequences."""
    next_accuracy: float | None = None
    """Share of pairs judged rightly."""
    next_balanced_accuracy: float | None = None
    """Mean of the accuracies on following and on random pairs: 0.5 for a constant answer."""
    next_majority: float | None = None
    """Share of the more frequent label: what a constant answer reaches."""
    next_loss: float | None = None
    """Next-sentence cross entropy, nats a pair."""

    @property
    def perplexity(self) -> float:
        """exp(loss)."""
        return math.exp(min(self.loss, 700.0))

    def row(self) -> dict[str, float]:
        """The evaluation as numbers for metrics.jsonl."""
        named = {
            "evaluation_loss": self.loss,
            "evaluation_perplexity": self.perplexity,
            "evaluation_accuracy": self.accuracy,
            "evaluation_next_accuracy": self.next_accuracy,
            "evaluation_next_balanced_accuracy": self.next_balanced_accuracy,
            "evaluation_next_majority": self.next_majority,
            "evaluation_next_loss": self.next_loss,
        }
        return {name: value for name, value in named.items() if value is not None}

    def sentence(self) -> str:
        """The evaluation in one line."""
        return f"held out: {told(self.row())}"


def beside_unigram(loss: float, line: float) -> str:
    """`0.500 under the unigram line at 6.500`, or above it."""
    side = "under" if loss < line else "above"
    return f"{abs(line - loss):.3f} {side} the unigram line at {line:.3f}"


def unigram_warning(loss: float, line: float) -> str | None:
    """A sentence where a finished model knows no more than how frequent tokens are."""
    if loss < line:
        return None
    return (
        f"the held-out loss ({loss:.3f}) is not under the unigram line ({line:.3f}): the model has "
        f"learned no more than how frequent tokens are, and its answers mean nothing. Train for "
        f"longer (--minutes or --steps), or on more text"
    )


def told(row: Mapping[str, float]) -> str:
    """A row of an evaluation in one line."""
    text = (
        f"loss {row['evaluation_loss']:.3f}, perplexity {row['evaluation_perplexity']:.1f}, "
        f"accuracy {row['evaluation_accuracy']:.1%}"
    )
    if "evaluation_next_majority" not in row:
        return text
    return (
        f"{text}; next sentence {row['evaluation_next_accuracy']:.1%} (balanced "
        f"{row['evaluation_next_balanced_accuracy']:.1%}, majority "
        f"{row['evaluation_next_majority']:.1%})"
    )


def held_out_batches(plan: Plan, num_sequences: int) -> list[PretrainBatch]:
    """The first `num_sequences` sequences of the plan, each batch of one next-sentence label.

    Takes fewer when an epoch over the held-out documents has fewer.
    """
    batches: list[PretrainBatch] = []
    wanted = min(num_sequences, plan.rows_per_epoch)
    step = 0
    while wanted > 0:
        batch = plan.step(step)
        order = np.arange(min(wanted, batch.packed.num_sequences))
        wanted -= len(order)
        step += 1
        batches += [
            selected(batch, part)
            for label in np.unique(_labels(batch)[order])
            for part in _cut(order[_labels(batch)[order] == label])
        ]
    return batches


def selected(batch: PretrainBatch, sequences: IntArray) -> PretrainBatch:
    """The batch of these sequences alone, in this order; divisors unchanged."""
    parts = batch.split(batch.packed.num_sequences)
    chosen = [parts[number] for number in sequences]
    packed = [part.packed for part in chosen]
    lengths = np.concatenate([part.lengths for part in packed])
    starts = np.cumsum(lengths) - lengths
    return replace(
        batch,
        packed=PackedBatch(
            token_ids=np.concatenate([part.token_ids for part in packed]),
            segment_ids=np.concatenate([part.segment_ids for part in packed]),
            lengths=lengths,
            keys=np.concatenate([part.keys for part in packed]),
        ),
        target_rows=np.concatenate(
            [part.target_rows + start for part, start in zip(chosen, starts, strict=True)]
        ),
        target_ids=np.concatenate([part.target_ids for part in chosen]),
        next_labels=None if batch.next_labels is None else batch.next_labels[sequences],
    )


@torch.no_grad()
def evaluate(model: PretrainModel, batches: Sequence[PretrainBatch]) -> Evaluation:
    """Evaluates without dropout; the model's mode and random state stay untouched.

    Of batches without labels next_sentence is not evaluated.
    """
    total: Counter[str] = Counter()
    by_label: dict[int, Counter[str]] = {}
    for batch in batches:
        # The model judges every pair; what it says without a label is not looked at.
        labelled = replace(batch, next_labels=_labels(batch))
        sums = {name: value.item() for name, value in model(labelled).sums.items()}
        total.update(sums)
        if batch.next_labels is not None:
            by_label.setdefault(int(batch.next_labels[0]), Counter()).update(sums)
    name = model.language_model
    evaluation = Evaluation(
        loss=total[f"{name}_loss_sum"] / max(1, total[f"{name}_count"]),
        accuracy=total[f"{name}_correct"] / max(1, total[f"{name}_count"]),
        targets=int(total[f"{name}_count"]),
        sequences=sum(batch.packed.num_sequences for batch in batches),
    )
    if not by_label or "next_sentence" not in model.objectives:
        return evaluation
    counts = [sums["next_sentence_count"] for sums in by_label.values()]
    return replace(
        evaluation,
        next_accuracy=total["next_sentence_correct"] / sum(counts),
        next_balanced_accuracy=_mean(
            sums["next_sentence_correct"] / sums["next_sentence_count"]
            for sums in by_label.values()
        ),
        next_majority=max(counts) / sum(counts),
        next_loss=total["next_sentence_loss_sum"] / sum(counts),
    )


def _labels(batch: PretrainBatch) -> IntArray:
    if batch.next_labels is None:
        return np.zeros(batch.packed.num_sequences, dtype=np.int8)
    return batch.next_labels


def _cut(sequences: IntArray) -> list[IntArray]:
    edges = range(0, len(sequences), _SEQUENCES_A_BATCH)
    return [sequences[start : start + _SEQUENCES_A_BATCH] for start in edges]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
