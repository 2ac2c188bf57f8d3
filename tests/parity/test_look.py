"""What `look` shows is what `transformers` calls attentions and hidden_states."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bertsmith.batch import PackedBatch
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.tasks.look import answer, encode
from tests.checkpoints.tiny import CONFIG, tiny_tokenizer
from tests.parity.peer import peer_of

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity


@pytest.mark.parametrize(
    ("direction", "objectives"),
    [("bidirectional", ("masked_lm", "next_sentence")), ("left_to_right", ("left_to_right_lm",))],
)
def test_attention_and_hidden_states_equal_transformers(direction, objectives):
    model = PretrainModel(replace(CONFIG, direction=direction), objectives)
    initialise(model, std=0.3, seed=3)
    question = encode(["the dog likes my cat .", "he likes playing"], tiny_tokenizer(), 24)
    inputs = question.item.token_ids[None], None, question.item.segment_ids[None]
    with torch.inference_mode():
        seen = answer(question, model.bert, Stream.of(PackedBatch.from_padded(*inputs)))
        found = peer_of(model)(
            input_ids=torch.from_numpy(inputs[0]).long(),
            token_type_ids=torch.from_numpy(inputs[2]).long(),
            output_attentions=True,
            output_hidden_states=True,
        )
    assert len(found.attentions) == len(seen.attention) == CONFIG.num_hidden_layers
    assert len(found.hidden_states) == len(seen.hidden)
    for ours, theirs in zip(seen.attention, found.attentions, strict=True):
        np.testing.assert_allclose(ours, theirs[0].numpy(), atol=1e-5)
    for ours, theirs in zip(seen.hidden, found.hidden_states, strict=True):
        np.testing.assert_allclose(ours, theirs[0].numpy(), atol=1e-5)
