"""Several layers in one call, beside the same one after the other."""

import copy

import pytest
import torch

from bertsmith.model import cpu_layer, cpu_layers
from bertsmith.model.bert import Bert
from bertsmith.model.config import BertConfig
from bertsmith.model.cpu_layers import suits
from bertsmith.model.layer import Layer
from bertsmith.model.layers import forget, in_turn, lay_out
from tests.builds import NEEDS_COMPILER, fastest_in
from tests.model.test_cpu_layer import WITHIN, a_layer, a_stream, as_answering, states

pytestmark = NEEDS_COMPILER

ROWS = [None, [0], [389, 0, 5, 8, 8]]


anywhere = fastest_in(cpu_layer, lambda _, weight, **asked: weight.dtype in WITHIN)


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
    assert torch.equal(in_turn(layers, given, stream, rows), expected)
    assert calls[count:] == [count]


@torch.no_grad()
def test_a_layer_that_changed_or_is_hooked_into_is_not_passed_over(calls):
    layers, stream = some_layers(3), a_stream()
    given = states(stream)
    seen = []
    hook = layers[1].register_forward_hook(lambda *_: seen.append(1))
    hooked = in_turn(layers, given, stream)
    assert (calls, seen) == ([1, 1, 1], [1])
    hook.remove()
    assert torch.equal(in_turn(layers, given, stream), hooked)
    assert calls[3:] == [3]
    with torch.nn.modules.module.register_module_forward_hook(lambda *_: None):
        in_turn(layers, given, stream)
    assert calls[4:] == [1, 1, 1]
    layers[1].forward = lambda *given: seen.append(2) or type(layers[1]).forward(layers[1], *given)
    in_turn(layers, given, stream)
    assert (calls[7:], seen[1:]) == ([1, 1, 1], [2])
    del layers[1].forward, calls[4:]
    forget(layers[1])
    torch.testing.assert_close(in_turn(layers, given, stream), hooked, atol=1e-4, rtol=1e-4)
    assert calls[4:] == [1, 1]
    lay_out(layers[1])
    layers[1].attention.qkv.weight.mul_(0.0)
    assert not suits([layer.ready for layer in layers], given, stream, None)
    assert not torch.allclose(in_turn(layers, given, stream), hooked)
    assert calls[6:] == [1, 1]


class Silent(Layer):
    """A layer of one's own."""

    def forward(self, *given):
        return 0.0 * super().forward(*given)


@torch.no_grad()
def test_a_layer_of_ones_own_does_what_it_does(calls):
    layers, stream = some_layers(2), a_stream()
    layers[1].__class__ = Silent
    assert not in_turn(layers, states(stream), stream).any()
    assert calls == [1, 1]


@torch.no_grad()
def test_spare_rows_no_rows_and_weights_that_others_make_are_left_to_the_definition(calls):
    layers, stream = some_layers(2), a_stream()
    plain = [copy.deepcopy(layer) for layer in layers]
    spare = a_stream([5, 27, 143], is_rounded=True)
    nothing = torch.zeros(0, dtype=torch.int64)
    for rows, of in ((None, spare), (nothing, stream)):
        found = in_turn(layers, states(of), of, rows)
        torch.testing.assert_close(found, in_turn(plain, states(of), of, rows))
    assert calls == [1]  # the first layer, of whose rows all are asked for
    for layer in layers:
        torch.nn.utils.parametrize.register_parametrization(
            layer.attention.qkv, "weight", torch.nn.Identity()
        )
        lay_out(layer)
    before = in_turn(layers, states(stream), stream)
    layers[0].attention.qkv.parametrizations.weight.original.mul_(2.0)
    assert not torch.allclose(in_turn(layers, states(stream), stream), before)


@torch.no_grad()
@pytest.mark.parametrize("width", [96, 32])
def test_states_of_another_width_are_refused_by_the_definition(width, calls):
    (layer,), stream = some_layers(1), a_stream()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        layer(states(stream, width), stream)
    assert calls == []
    layers = [layer, as_answering(a_layer(width))]
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        in_turn(layers, states(stream), stream)
    assert calls == [1]  # the first one's


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
    for numbers in ((5,), (-1, 2), (2, 7)):
        with pytest.raises(ValueError, match="states are numbered 0 to 4"):
            bert.chosen_states(stream, numbers)
