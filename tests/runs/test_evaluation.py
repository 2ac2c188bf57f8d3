"""Evaluation: the same examples each time, and means that equal the plain ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bertsmith.batch import PackedBatch, PretrainBatch
from bertsmith.fusion import unfused
from bertsmith.model.config import BertConfig
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.randomness import integers
from bertsmith.runs.evaluation import Evaluation, evaluate, held_out_batches, selected

CONFIG = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
)


def batch_of(step: int, sequences: int = 12) -> PretrainBatch:
    """A made-up step: lengths 6 to 11, two targets a sequence, labels by turns of chance."""
    lengths = 6 + integers(6, 1, step, np.arange(sequences))
    starts = np.cumsum(lengths) - lengths
    total = int(lengths.sum())
    return PretrainBatch(
        packed=PackedBatch(
            token_ids=integers(50, 2, step, np.arange(total)).astype(np.int32),
            segment_ids=np.zeros(total, dtype=np.int32),
            lengths=lengths.astype(np.int32),
            keys=np.arange(sequences),
        ),
        target_rows=np.sort(np.concatenate([starts + 1, starts + 4])),
        target_ids=integers(50, 3, step, np.arange(2 * sequences)).astype(np.int32),
        next_labels=integers(2, 4, step, np.arange(sequences)).astype(np.int8),
        step_targets=2 * sequences,
        step_sequences=sequences,
    )


class MadeUpPlan:
    """Stands for a plan of 30 rows an epoch."""

    rows_per_epoch = 30

    def step(self, number: int) -> PretrainBatch:
        return batch_of(number)


def model() -> PretrainModel:
    made = PretrainModel(CONFIG, ("masked_lm", "next_sentence"))
    initialise(made, std=0.5, seed=3)
    return made


@pytest.mark.parametrize(("wanted", "expected"), [(5, 5), (20, 20), (1_000, 30)])
def test_as_many_sequences_as_asked_for_but_one_epoch_at_most(wanted: int, expected: int) -> None:
    batches = held_out_batches(MadeUpPlan(), wanted)  # type: ignore[arg-type]
    assert sum(batch.packed.num_sequences for batch in batches) == expected


def test_every_batch_has_one_label() -> None:
    for batch in held_out_batches(MadeUpPlan(), 30):  # type: ignore[arg-type]
        assert batch.next_labels is not None
        assert len(set(batch.next_labels.tolist())) == 1


def test_selected_sequences_keep_their_tokens_targets_and_labels() -> None:
    batch, order = batch_of(0), np.array([7, 2, 9])
    chosen = selected(batch, order)
    singles = batch.split(12)
    for place, (number, part) in enumerate(zip(order, chosen.split(3), strict=True)):
        assert np.array_equal(part.packed.token_ids, singles[number].packed.token_ids)
        assert np.array_equal(part.target_rows, singles[number].target_rows)
        assert np.array_equal(part.target_ids, singles[number].target_ids)
        assert batch.next_labels is not None
        assert chosen.next_labels is not None
        assert chosen.next_labels[place] == batch.next_labels[number]


def test_means_equal_those_of_sequences_taken_one_by_one() -> None:
    made = model()
    with unfused():
        found = evaluate(made, held_out_batches(MadeUpPlan(), 12))  # type: ignore[arg-type]
        with torch.no_grad():
            singles = [
                (made(part).sums, int(part.next_labels[0])) for part in batch_of(0).split(12)
            ]
    loss = sum(float(sums["masked_lm_loss_sum"]) for sums, _ in singles) / 24
    assert found.loss == pytest.approx(loss, rel=1e-5)
    rights = {0: [], 1: []}
    for sums, label in singles:
        rights[label].append(float(sums["next_sentence_correct"]))
    every = rights[0] + rights[1]
    assert found.next_accuracy == pytest.approx(sum(every) / 12)
    balanced = (np.mean(rights[0]) + np.mean(rights[1])) / 2
    assert found.next_balanced_accuracy == pytest.approx(float(balanced))
    assert found.next_majority == pytest.approx(max(map(len, rights.values())) / 12)
    assert (found.targets, found.sequences) == (24, 12)


def test_evaluating_twice_gives_the_same_numbers() -> None:
    made = model()
    batches = held_out_batches(MadeUpPlan(), 12)  # type: ignore[arg-type]
    with unfused():
        assert evaluate(made, batches) == evaluate(made, batches)


def test_without_labels_the_language_model_alone_is_evaluated() -> None:
    made, batches = model(), held_out_batches(MadeUpPlan(), 12)  # type: ignore[arg-type]
    with unfused():
        whole = evaluate(made, batches)
        found = evaluate(made, [replace(batch, next_labels=None) for batch in batches])
    assert (found.loss, found.targets) == (whole.loss, whole.targets)
    assert found.next_accuracy is None
    assert found.next_loss is None


def test_without_pairs_there_is_no_next_sentence_figure() -> None:
    made = PretrainModel(CONFIG, ("masked_lm",))
    initialise(made, std=0.02, seed=3)
    with unfused():
        found = evaluate(made, [batch_of(0)])
    assert found.next_accuracy is None
    assert "evaluation_next_accuracy" not in found.row()
    assert "next sentence" not in found.sentence()


def test_perplexity_is_the_exponential_of_the_loss() -> None:
    assert Evaluation(loss=2.0, accuracy=0.5, targets=1, sequences=1).perplexity == pytest.approx(
        np.exp(2.0)
    )
