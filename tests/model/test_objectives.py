from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from bertsmith.model import objectives as objectives_file
from bertsmith.model.config import sized
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream, rounded
from tests.model.plain import random_pretrain_batch

CONFIG = replace(sized(2, 32, 4), vocab_size=60, max_position_embeddings=64)
BATCH = random_pretrain_batch([5, 30, 17, 17, 40], 60)
LARGE_BATCH = random_pretrain_batch([63, 64, 50, 46, 4], 60)


def model_of(objectives=("masked_lm", "next_sentence"), direction="bidirectional"):
    model = PretrainModel(replace(CONFIG, direction=direction), objectives)
    initialise(model, std=0.2, seed=3)
    return model.double()


def test_loss_is_mean_masked_lm_plus_mean_next_sentence():
    model = model_of()
    losses = model(BATCH)
    stream = Stream.of(BATCH.packed)
    hidden = model.bert(stream)
    every_row = model.masked_lm(hidden, model.bert.embeddings.token.weight)
    masked_lm = functional.cross_entropy(
        every_row[BATCH.target_rows], torch.from_numpy(BATCH.target_ids).long()
    )
    pooled = torch.tanh(model.bert.pooler(hidden[BATCH.packed.starts]))
    next_sentence = functional.cross_entropy(
        model.next_sentence(pooled), torch.from_numpy(BATCH.next_labels).long()
    )
    torch.testing.assert_close(losses.loss, masked_lm + next_sentence)
    count = len(BATCH.target_rows)
    assert losses.sums["masked_lm_count"].item() == count
    assert losses.sums["masked_lm_loss_sum"].item() == pytest.approx(masked_lm.item() * count)
    right = (every_row[BATCH.target_rows].argmax(1).numpy() == BATCH.target_ids).sum()
    assert losses.sums["masked_lm_correct"].item() == right


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_micro_batches_add_up_to_the_step_in_loss_and_gradient_with_dropout(parts):
    model = model_of()
    model(BATCH, (1, 7)).loss.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    losses = [model(part, (1, 7)) for part in BATCH.split(parts)]
    sum(part.loss for part in losses).backward()
    assert sum(part.sums["masked_lm_count"].item() for part in losses) == BATCH.step_targets
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_step_without_targets_learns_next_sentences_alone(dtype):
    model = model_of().to(dtype)
    none = np.zeros(0, np.int64)
    batch = replace(BATCH, target_rows=none, target_ids=none.astype(np.int32), step_targets=0)
    losses = model(batch, (1, 7))
    losses.loss.backward()
    assert losses.sums["masked_lm_count"].item() == 0
    count = BATCH.packed.num_sequences
    mean = losses.sums["next_sentence_loss_sum"].item() / count
    assert losses.loss.item() == pytest.approx(mean, rel=1e-5)
    assert not model.masked_lm.bias.grad.any()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_spare_rows_change_neither_loss_nor_gradient(monkeypatch):
    tokens, rows = LARGE_BATCH.packed.num_tokens, len(LARGE_BATCH.target_rows) + 5
    assert rounded(tokens) > tokens
    assert rounded(rows) > rows
    model, found = model_of(), []
    for is_rounded in (False, True):
        monkeypatch.setattr(objectives_file, "builds_kernels_by_size", lambda _, it=is_rounded: it)
        model.zero_grad()
        losses = model(LARGE_BATCH, (1, 7))
        losses.loss.backward()
        found.append((losses, {name: p.grad.clone() for name, p in model.named_parameters()}))
    (plain, expected), (losses, gradients) = found
    torch.testing.assert_close(losses.loss, plain.loss, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(losses.sums, plain.sums, rtol=1e-12, atol=1e-12)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-10, atol=1e-12, msg=name)


def test_without_next_sentence_there_is_no_pooler_and_no_head():
    model = model_of(("masked_lm",))
    assert model.bert.pooler is None
    assert model.next_sentence is None
    assert set(model(BATCH).sums) == {"masked_lm_loss_sum", "masked_lm_correct", "masked_lm_count"}


def test_left_to_right_model_reads_the_last_token_when_it_pools():
    model = model_of(("left_to_right_lm", "next_sentence"), "left_to_right")
    stream = Stream.of(BATCH.packed)
    hidden = model.bert(stream)
    ends = BATCH.packed.starts + BATCH.packed.lengths - 1
    expected = torch.tanh(model.bert.pooler(hidden[ends]))
    torch.testing.assert_close(model.bert.pool(hidden, stream), expected)


@pytest.mark.parametrize(
    ("objectives", "direction", "message"),
    [
        (("masked_lm", "left_to_right_lm"), "bidirectional", "must hold one of"),
        (("left_to_right_lm",), "bidirectional", "needs direction 'left_to_right'"),
        (("masked_lm",), "left_to_right", "needs direction 'bidirectional'"),
    ],
)
def test_contradictory_objectives_are_refused(objectives, direction, message):
    with pytest.raises(ValueError, match=message):
        model_of(objectives, direction)


def test_a_model_without_a_language_model_answers_and_cannot_be_trained():
    model = PretrainModel(CONFIG, ("next_sentence",))
    assert model.masked_lm is None
    with pytest.raises(AssertionError):
        model(BATCH)


def test_a_pooler_may_stand_without_a_head_that_reads_it():
    model = PretrainModel(CONFIG, ("masked_lm",), with_pooler=True)
    assert model.bert.pooler is not None
    assert model.next_sentence is None


def test_a_decoder_of_its_own_gives_the_logits_and_takes_the_gradient():
    model = PretrainModel(replace(CONFIG, tie_word_embeddings=False), ("masked_lm",))
    initialise(model, std=0.3, seed=2)
    head, embedding = model.masked_lm, model.bert.embeddings.token.weight
    rows = torch.randn(3, CONFIG.hidden_size)
    expected = head.transform(rows) @ head.decoder.weight.T + head.bias
    torch.testing.assert_close(head(rows, embedding), expected)
    tied = PretrainModel(CONFIG, ("masked_lm",))
    names = {name: each.shape for name, each in model.state_dict().items()}
    assert names.keys() - tied.state_dict().keys() == {"masked_lm.decoder.weight"}
    model(BATCH).loss.backward()
    assert head.decoder.weight.grad.abs().sum() > 0
    untouched = torch.ones(CONFIG.vocab_size, dtype=torch.bool)
    untouched[BATCH.packed.token_ids] = False
    assert not embedding.grad[untouched].any()
