"""Several layers in one call, beside the same one after the other."""

import shutil

import pytest
import torch

from bertsmith.model import cpu_layer, cpu_layers
from bertsmith.model.bert import Bert
from bertsmith.model.config import BertConfig
from bertsmith.model.cpu_layers import suits
from bertsmith.model.layer import forget, lay_out, through
from tests.model.test_cpu_layer import WITHIN, a_layer, a_stream, as_answering, states

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler here")

ROWS = [None, [0], [389, 0, 5, 8, 8]]


@pytest.fixture(autouse=True)
def anywhere(monkeypatch):
    """As on a processor where these functions are the fastest for both types."""
    monkeypatch.setattr(
        cpu_layer, "has_fast_products", lambda _, weight, of_bytes: weight.dtype in WITHIN
    )


@pytest.fixture
def calls(monkeypatch):
    """The numbers of layers of the calls made."""
    made, call = [], cpu_layers.call

    def counted(source, name, hidden, described, num_layers, *rest):
        made.append(num_layers.value)
        return call(source, name, hidden, described, num_layers, *rest)

    monkeypatch.setattr(cpu_layers, "call", counted)
    return made


def some_layers(count, dtype=torch.float32):
    """Different ones."""
    layers = []
    for number in range(count):
        layer = a_layer()
        with torch.no_grad():
            layer.attention.qkv.weight.mul_(1.0 + number)
        layers.append(as_answering(layer, dtype))
    return layers


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("rows", ROWS, ids=["all", "one", "some"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_one_call_equals_layer_after_layer_to_the_bit(count, rows, dtype, calls):
    layers, stream = some_layers(count, dtype), a_stream()
    rows = None if rows is None else torch.tensor(rows)
    hidden = given = states(stream, dtype=dtype)
    for layer in layers[:-1]:
        hidden = layer(hidden, stream)
    expected = layers[-1](hidden, stream, rows)
    assert calls == [1] * count
    assert torch.equal(through(layers, given, stream, rows), expected)
    assert calls[count:] == [count]


@torch.no_grad()
def test_a_layer_that_changed_or_is_hooked_into_is_not_passed_over(calls):
    layers, stream = some_layers(3), a_stream()
    given = states(stream)
    seen = []
    hook = layers[1].register_forward_hook(lambda *_: seen.append(1))
    hooked = through(layers, given, stream)
    assert (calls, seen) == ([1, 1, 1], [1])
    hook.remove()
    assert torch.equal(through(layers, given, stream), hooked)
    assert calls[3:] == [3]
    forget(layers[1])
    torch.testing.assert_close(through(layers, given, stream), hooked, atol=1e-4, rtol=1e-4)
    assert calls[4:] == [1, 1]
    lay_out(layers[1])
    layers[1].attention.qkv.weight.mul_(0.0)
    assert not suits([layer._ready for layer in layers], given, stream, None)
    assert not torch.allclose(through(layers, given, stream), hooked)
    assert calls[6:] == [1, 1]


@torch.no_grad()
def test_states_asked_for_in_between_part_the_call(calls):
    config = BertConfig(
        vocab_size=60,
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=100,
        max_position_embeddings=512,
    )
    torch.manual_seed(0)
    bert, stream = Bert(config).eval(), a_stream()
    for parameter in bert.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    rows = torch.tensor([3, 1, 200])
    plain = bert.chosen_states(stream, (3, 0, 1), rows)
    every = bert.hidden_states(stream)
    lay_out(bert)
    for found, expected in zip(bert.chosen_states(stream, (3, 0, 1), rows), plain, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert calls == [1, 2]
    for found, expected in zip(bert.hidden_states(stream), every, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert calls[2:] == [1] * 4
    bert(stream)
    assert calls[6:] == [4]
