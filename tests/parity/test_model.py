"""Equal to `transformers`' BertForPreTraining on random tiny weights, values and gradients."""

from dataclasses import replace

import pytest
import torch

from bertsmith.checkpoints.names import to_hugging_face
from bertsmith.model.config import sized
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from tests.model.plain import random_pretrain_batch
from tests.parity.peer import peer_of

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

CONFIG = replace(sized(3, 48, 4), vocab_size=90, max_position_embeddings=64)
BATCH = random_pretrain_batch([5, 30, 17, 17, 40], 90)
WORDS = "bert.embeddings.word_embeddings.weight"


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_logits_loss_and_gradients_equal_transformers(activation):
    config = replace(CONFIG, hidden_act=activation)
    model = PretrainModel(config, ("masked_lm", "next_sentence")).double()
    initialise(model, std=0.2, seed=3)
    peer = peer_of(model)
    input_ids, mask, types = (torch.from_numpy(a) for a in BATCH.packed.to_padded())
    labels = torch.full_like(input_ids, -100)
    rows = torch.zeros(BATCH.packed.num_tokens, dtype=torch.long) - 100
    rows[BATCH.target_rows] = torch.from_numpy(BATCH.target_ids).long()
    labels[mask.bool()] = rows

    output = peer(
        input_ids=input_ids,
        attention_mask=mask,
        token_type_ids=types,
        labels=labels,
        next_sentence_label=torch.from_numpy(BATCH.next_labels).long(),
    )
    losses = model(BATCH)
    hidden = model.bert(Stream.of(BATCH.packed))
    logits = model.masked_lm(hidden, model.bert.embeddings.token.weight)
    torch.testing.assert_close(logits, output.prediction_logits[mask.bool()], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(losses.loss, output.loss, rtol=1e-10, atol=1e-10)

    losses.loss.backward()
    output.loss.backward()
    ours = to_hugging_face({name: each.grad for name, each in model.named_parameters()})
    theirs = {name: each.grad for name, each in peer.named_parameters()}
    assert set(ours) == set(theirs)
    # transformers drops the gradient of the [PAD] row; ours is an ordinary row.
    for gradients in (ours, theirs):
        gradients[WORDS] = gradients[WORDS][1:]
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-8, atol=1e-10, msg=name)


def test_left_to_right_logits_equal_transformers_decoder():
    config = replace(CONFIG, direction="left_to_right")
    model = PretrainModel(config, ("left_to_right_lm",)).double()
    initialise(model, std=0.2, seed=3)
    peer = peer_of(model)
    input_ids, mask, types = (torch.from_numpy(a) for a in BATCH.packed.to_padded())
    expected = peer(input_ids=input_ids, attention_mask=mask, token_type_ids=types).logits
    hidden = model.bert(Stream.of(BATCH.packed))
    logits = model.masked_lm(hidden, model.bert.embeddings.token.weight)
    torch.testing.assert_close(logits, expected[mask.bool()], rtol=1e-9, atol=1e-9)
