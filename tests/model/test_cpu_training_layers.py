"""Several layers that learn in one function, beside the same one at a time."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bertsmith.model import cpu_training_layer, cpu_training_layers
from bertsmith.model.config import BertConfig
from bertsmith.model.layer import Layer
from bertsmith.model.layers import in_turn
from bertsmith.model.stream import Stream
from tests.builds import NEEDS_COMPILER, learning_in
from tests.model.plain import random_packed

LENGTHS = [5, 3, 40, 1, 77, 20]
TOKENS, WIDTH = sum(LENGTHS), 64
ROWS = [0, 5, 8, 8, 99, 3]
# bfloat16 has 8 bits, float32 24; each of three layers rounds seven times on the way there, and as
# often back.
WITHIN = {torch.bfloat16: 3e-2, torch.float32: 8e-6}

pytestmark = NEEDS_COMPILER


anywhere = learning_in(cpu_training_layer)


@pytest.fixture
def together(monkeypatch):
    """Of how many layers each function is."""
    numbers, through = [], cpu_training_layers.through
    monkeypatch.setattr(
        cpu_training_layers,
        "through",
        lambda layers, *rest: [numbers.append(len(layers)), through(layers, *rest)][1],
    )
    return numbers


def some_layers(count=3, dtype=torch.bfloat16):
    torch.manual_seed(count)
    config = BertConfig(
        vocab_size=60, hidden_size=WIDTH, num_attention_heads=2, intermediate_size=128,
        num_hidden_layers=count,
    )  # fmt: skip
    layers = [Layer(config, number).to(dtype) for number in range(count)]
    for each in layers:
        for parameter in each.parameters():
            nn.init.normal_(parameter, std=0.1)
        for norm in (each.attention.norm, each.feed_forward.norm):
            norm.float()
    return layers


def a_stream(dropout=(3, 4), **given):
    return Stream.of(random_packed(LENGTHS, 60), dropout=dropout, **given)


def drawn(count, seed=1):
    torch.manual_seed(seed)
    return torch.randn(count, WIDTH).bfloat16()


def one_at_a_time(layers, hidden, stream, rows=None):
    *others, last = layers
    for each in others:
        hidden = each(hidden, stream)
    return last(hidden, stream, rows)


def learned(make, layers, stream, rows=None):
    """Output, gradient of the input, and of every weight of every layer."""
    weights = [each for layer in layers for each in layer.parameters()]
    hidden = drawn(len(stream.token_ids)).to(weights[0].dtype).requires_grad_()
    output = make(layers, hidden, stream, None if rows is None else torch.tensor(rows))
    given = drawn(len(output), seed=2).to(output.dtype)
    gradients = torch.autograd.grad(output, [hidden, *weights], given)
    return [output.detach(), *gradients]


def assert_equal(found, others):
    assert len(found) == len(others)
    assert all(map(torch.equal, found, others))


@pytest.mark.parametrize("rows", [None, ROWS, [0], sorted(ROWS)])
@pytest.mark.parametrize("is_rounded", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_they_give_what_they_give_one_at_a_time_to_the_bit(
    count, is_rounded, rows, dtype, together
):
    layers, stream = some_layers(count, dtype), a_stream(is_rounded=is_rounded)
    expected = learned(one_at_a_time, layers, stream, rows)
    assert together == [1] * count
    found = learned(in_turn, layers, stream, rows)
    assert together == [1] * count + [count]
    assert_equal(found, expected)


@pytest.mark.parametrize("dropout", [None, (3, 4)])
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_values_and_gradients_are_those_of_the_definition(dtype, dropout, together):
    layers, stream = some_layers(dtype=dtype), a_stream(dropout=dropout)
    exact = learned(in_turn, [copy.deepcopy(each).double() for each in layers], stream)
    assert not together
    found = learned(in_turn, layers, stream)
    assert together == [3]
    for ours, theirs in zip(found, exact, strict=True):
        assert (ours.double() - theirs).norm() <= WITHIN[dtype] * theirs.norm()


def test_spare_rows_are_never_read_and_have_no_gradient(together):
    layers, stream = some_layers(), a_stream(is_rounded=True)
    expected = learned(in_turn, layers, a_stream())
    hidden = drawn(len(stream.token_ids))
    assert len(hidden) > TOKENS
    hidden[:TOKENS], hidden[TOKENS:] = drawn(TOKENS), float("nan")
    hidden.requires_grad_()
    output = in_turn(layers, hidden, stream)
    given = torch.full_like(output, float("nan"))
    given[:TOKENS] = drawn(TOKENS, seed=2)
    output.backward(given)
    assert together == [3, 3]
    assert not output[TOKENS:].any()
    assert not hidden.grad[TOKENS:].any()
    weights = [each.grad for layer in layers for each in layer.parameters()]
    assert_equal([output[:TOKENS], hidden.grad[:TOKENS], *weights], expected)


def test_gradients_of_two_parts_of_a_batch_add_up(together):
    layers, stream = some_layers(), a_stream()
    _, _, *once = learned(in_turn, layers, stream)
    for _ in range(2):
        in_turn(layers, drawn(TOKENS), stream).backward(drawn(TOKENS, seed=2))
    assert together == [3, 3, 3]
    weights = [each.grad for layer in layers for each in layer.parameters()]
    assert_equal(weights, [2 * each for each in once])


@pytest.mark.parametrize("row", [-1, TOKENS])
def test_a_row_of_no_sequence_cannot_be_asked_for(row):
    layers, stream = some_layers(), a_stream(is_rounded=True)
    with pytest.raises(IndexError, match=f"rows must be 0 to {TOKENS - 1}: {min(row, 0)} to"):
        in_turn(layers, drawn(len(stream.token_ids)), stream, torch.tensor([row, 0]))


def test_one_way_there_is_gone_back_twice_and_not_differentiated_again(together):
    layers, stream = some_layers(), a_stream()
    weights = [each for layer in layers for each in layer.parameters()]
    output = in_turn(layers, drawn(TOKENS), stream)
    given = torch.ones_like(output)
    once, again = (torch.autograd.grad(output, weights, given, retain_graph=True) for _ in range(2))
    assert_equal(once, again)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        torch.autograd.grad(output, weights, given, create_graph=True)
    assert together == [3]


def test_what_is_computed_anew_for_the_way_back_is_the_same(together):
    layers, stream = some_layers(), a_stream()

    def anew(*given):
        return checkpoint(in_turn, *given, use_reentrant=False)

    assert_equal(learned(anew, layers, stream), learned(in_turn, layers, stream))
    assert together == [3, 3, 3]


def test_weights_that_changed_are_not_gone_back_through(together):
    layers, stream = some_layers(), a_stream()
    output = in_turn(layers, drawn(TOKENS), stream)
    assert together == [3]
    with torch.no_grad():
        layers[1].feed_forward.up.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def hooked(layer):
    layer.register_forward_hook(lambda *_: None)


def hooked_on_the_way_back(layer):
    layer.register_full_backward_hook(lambda *_: None)


@pytest.mark.parametrize("change", [hooked, hooked_on_the_way_back])
def test_layers_of_which_one_is_watched_go_one_at_a_time(change, together):
    layers, stream = some_layers(), a_stream()
    change(layers[1])
    learned(in_turn, layers, stream)
    assert together == [1, 1, 1]


def test_layers_of_which_one_is_frozen_go_one_at_a_time(together):
    layers, stream = some_layers(), a_stream()
    layers[0].requires_grad_(False)
    in_turn(layers, drawn(TOKENS), stream).sum().backward()
    assert together == [1, 1]
    assert layers[0].feed_forward.up.weight.grad is None


@pytest.mark.parametrize("limit", ["MOST_STATES", "MOST_WEIGHTS"])
def test_layers_of_many_states_or_weights_go_one_at_a_time(limit, together, monkeypatch):
    layers, stream = some_layers(), a_stream()
    expected = learned(in_turn, layers, stream)
    assert together == [3]
    num_weights = sum(each.numel() for layer in layers for each in layer.parameters())
    most = {"MOST_STATES": 3 * TOKENS * WIDTH, "MOST_WEIGHTS": num_weights}[limit]
    monkeypatch.setattr(cpu_training_layers, limit, most)
    assert_equal(learned(in_turn, layers, stream), expected)
    assert together == [3, 3]
    monkeypatch.setattr(cpu_training_layers, limit, most - 1)
    assert_equal(learned(in_turn, layers, stream), expected)
    assert together == [3, 3, 1, 1, 1]
