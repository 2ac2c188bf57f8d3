import numpy as np
import pytest
import torch

from bertsmith.checkpoints import store
from bertsmith.data.items import Item
from bertsmith.inference import Predictor
from bertsmith.model import cpu_layer
from bertsmith.model.linear import can_lay_out
from bertsmith.train import device
from tests.checkpoints.tiny import CONFIG, VOCABULARY, tiny_model, tiny_tokenizer
from tests.tasks.predictors import SENTENCES, predictor_of

PAIR = ("my dog", "he likes playing .")


def test_the_weights_of_all_layers_are_laid_out():
    rows = torch.zeros(1, CONFIG.hidden_size)
    with torch.inference_mode():
        for layer in predictor_of().model.bert.layers:
            sub_layers = (layer.attention, layer.feed_forward)
            linears = (
                sub_layers[0].qkv,
                sub_layers[0].output,
                sub_layers[1].up,
                sub_layers[1].down,
            )
            one_call = cpu_layer.can_lay_out(linears, CONFIG.num_attention_heads)
            assert (layer.ready is not None) is one_call
            expected = can_lay_out(linears[0].weight) and not one_call
            assert [each.ready_for(rows) is not None for each in linears[:3]] == [expected] * 3


def test_answers_come_in_the_order_of_the_items_whatever_their_lengths():
    predictor = predictor_of(tokens_per_batch=8)
    ids = tiny_tokenizer().encode("the dog likes my cat").ids
    items = [
        Item(token_ids=ids[:length], segment_ids=0 * ids[:length], num_unread=0)
        for length in (2, 7, 1, 5, 5, 3)
    ]
    answers = predictor.in_order(items, lambda numbers, packed: packed.lengths.tolist())
    assert answers == [2, 7, 1, 5, 5, 3]


@pytest.fixture
def saved(tmp_path):
    directory = tmp_path / "tiny"
    store.save(directory, tiny_model(), CONFIG, tiny_tokenizer())
    return directory


@pytest.mark.parametrize(("can", "expected"), [(True, torch.bfloat16), (False, torch.float32)])
def test_a_model_is_loaded_in_what_the_hardware_multiplies(saved, monkeypatch, can, expected):
    monkeypatch.setattr(device, "cpu_multiplies_bf16", lambda: can)
    model = Predictor.load(saved).model
    assert model.bert.layers[0].attention.qkv.weight.dtype == expected
    assert model.bert.layers[0].attention.norm.weight.dtype == torch.float32
    assert Predictor.load(saved, precision="fp32").model.masked_lm.bias.dtype == torch.float32


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"precision": "int4"}, "there is no precision 'int4': expected one of auto, bf16"),
        ({"precision": None}, "there is no precision None"),
        ({"device": "gpu"}, "unknown device 'gpu': expected auto, cpu, cuda or mps"),
    ],
)
def test_a_precision_or_device_that_is_none_is_told_before_the_model_is_looked_for(choice, told):
    with pytest.raises(ValueError, match=told):
        Predictor.load("no/such/model", **choice)


def test_bf16_answers_are_those_of_float32_within_its_rounding(saved):
    wide, narrow = (Predictor.load(saved, precision=each) for each in ("fp32", "bf16"))
    # bf16 has 8 bits: some 2^-8 of the largest value, a few times over in two layers.
    vectors = [each.embed(SENTENCES) for each in (wide, narrow)]
    assert np.abs(vectors[0] - vectors[1]).max() < 8 / 256 * np.abs(vectors[0]).max()
    assert not np.array_equal(*vectors)
    looks = [each.look(*PAIR) for each in (wide, narrow)]
    assert np.abs(looks[0].attention - looks[1].attention).max() < 8 / 256
    follows = [each.next_sentence([PAIR])[0].probability for each in (wide, narrow)]
    assert follows[0] == pytest.approx(follows[1], abs=8 / 256)
    filled = [
        each.fill_mask(["paris is the [MASK] of france ."], top_k=len(VOCABULARY))[0].masks[0]
        for each in (wide, narrow)
    ]
    found = [{c.token: c.probability for c in each} for each in filled]
    assert found[0] == pytest.approx(found[1], abs=8 / 256)
