"""Layers that learn and are asked for a pooler's rows, beside torch's operators in float64."""

import copy

import pytest
import torch

from bertsmith.model import cpu_training_layer, cpu_training_layers
from bertsmith.model.layers import in_turn
from tests.builds import NEEDS_COMPILER, learning_in
from tests.model.test_cpu_training_layer import (
    LENGTHS,
    TYPES,
    WAYS,
    a_layer,
    a_stream,
    assert_near,
    drawn,
    learned,
)

# Heads of one panel or two, an odd number of them, and more than are compared at a time.
ODD = (192, 3, 320)
SHAPES = [(64, 1, 128), ODD, (256, 2, 128), (2112, 33, 64)]

pytestmark = NEEDS_COMPILER


anywhere = learning_in(cpu_training_layer)


def of_pooler(layer, stream, rows=None):
    """Output and gradients, by name, where rows are asked for: by default the first ones."""
    return learned(layer, stream, (stream.first_rows if rows is None else rows).tolist())


def of_keys_bias(found):
    """What the keys' bias has for a gradient: zero to the bit where no key is made."""
    return found["attention.qkv.bias"].chunk(3)[1]


@pytest.mark.parametrize(("dtype", "way"), WAYS)
@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right", "right_to_left"])
@pytest.mark.parametrize("which", ["first", "last", "shuffled"])
@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_values_and_gradients_are_those_of_the_definition(shape, which, direction, dtype, way):
    layer, stream = a_layer(*shape, dtype=dtype, direction=direction), a_stream()
    rows = {
        "first": stream.first_rows,
        "last": stream.last_rows,
        "shuffled": stream.first_rows[torch.tensor([3, 6, 0, 2, 5, 1, 4])],
    }[which]
    exact = of_pooler(copy.deepcopy(layer).double(), stream, rows)
    with way():
        found = of_pooler(layer, stream, rows)
    assert_near(found, exact)
    assert not of_keys_bias(found).any()


@pytest.mark.parametrize("dtype", TYPES)
def test_more_heads_than_are_compared_at_a_time(dtype):
    layer, stream = a_layer(*SHAPES[3], dtype), a_stream()
    with torch.no_grad():
        for each in layer.parameters():
            each.mul_(0.2)  # scores as large as a narrower layer's
    found = of_pooler(layer, stream)
    assert_near(found, of_pooler(copy.deepcopy(layer).double(), stream))
    assert not of_keys_bias(found).any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("hidden_rate", [0.0, 0.5])
@pytest.mark.parametrize("attention_rate", [0.0, 0.5])
def test_dropout_is_that_of_the_definition(hidden_rate, attention_rate, dtype):
    rates = {
        "hidden_dropout_prob": hidden_rate,
        "attention_probs_dropout_prob": attention_rate,
    }
    layer, stream = a_layer(*ODD, dtype, **rates), a_stream()
    found = of_pooler(layer, stream)
    assert_near(found, of_pooler(copy.deepcopy(layer).double(), stream))
    without = of_pooler(layer, a_stream(dropout=None))
    is_dropped = hidden_rate > 0.0 or attention_rate > 0.0
    assert torch.equal(without["output"], found["output"]) is not is_dropped


@pytest.mark.parametrize("dtype", TYPES)
def test_biases_of_values_count_as_much_as_is_left_of_the_weights(dtype):
    # Contexts are the bias alone, times what dropout leaves of each head's weights.
    layer, stream = (
        a_layer(*ODD, dtype, attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0),
        a_stream(),
    )
    with torch.no_grad():
        layer.attention.qkv.weight[2 * 192 :] = 0
        layer.attention.qkv.bias[2 * 192 :] = 8
    found = of_pooler(layer, stream)
    assert_near(found, of_pooler(copy.deepcopy(layer).double(), stream))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_the_number_of_threads_changes_no_bit(shape, dtype):
    layer, stream = a_layer(*shape, dtype), a_stream(LENGTHS * 4)
    together = of_pooler(layer, stream)
    threads = torch.get_num_threads()
    try:
        for count in (1, 3, 7):
            torch.set_num_threads(count)
            found = of_pooler(layer, stream)
            assert all(torch.equal(each, together[name]) for name, each in found.items())
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_sequence_depends_on_no_other(dtype):
    layer, stream = a_layer(*ODD, dtype), a_stream(dropout=None)
    together = of_pooler(layer, stream)
    hidden = drawn(sum(LENGTHS), 192, 1).to(dtype)
    gradient = drawn(len(LENGTHS), 192, 2).to(dtype)
    for number, length in enumerate(LENGTHS):
        own = slice(int(stream.first_rows[number]), int(stream.last_rows[number]) + 1)
        alone = hidden[own].requires_grad_()
        output = layer(alone, a_stream([length], dropout=None), torch.tensor([0]))
        assert torch.equal(output[0], together["output"][number])
        output.backward(gradient[number : number + 1])
        assert torch.equal(alone.grad, together["input"][own])


@pytest.mark.parametrize("dtype", TYPES)
def test_spare_rows_are_never_read_and_have_no_gradient(dtype):
    layer, stream = a_layer(*ODD, dtype), a_stream(is_rounded=True)
    tokens = sum(LENGTHS)
    assert len(stream.token_ids) > tokens
    hidden = torch.cat([drawn(tokens, 192, 1), drawn(len(stream.token_ids) - tokens, 192, 2)])
    hidden = hidden.to(dtype)
    hidden[tokens:] = float("nan")
    hidden.requires_grad_()
    layer(hidden, stream, stream.first_rows).sum().backward()
    assert hidden.grad[:tokens].isfinite().all()
    assert not hidden.grad[tokens:].any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "rows",
    [
        [0, 5, 9, 48, 49, 126, 326],  # the third sequence is asked for its second row
        [0, 5, 8, 48, 49, 126],  # the last sequence is not asked
        [0, 1, 8, 48, 49, 126, 326],  # the second one is not
        [0, 5, 8, 48, 49, 126, 326, 327],  # the last one is twice
    ],
)
def test_other_queries_have_keys_and_values(rows, dtype):
    layer, stream, rows = a_layer(*ODD, dtype), a_stream(), torch.tensor(rows)
    found = of_pooler(layer, stream, rows)
    assert_near(found, of_pooler(copy.deepcopy(layer).double(), stream, rows))
    assert of_keys_bias(found).any()


def test_narrow_heads_have_keys_and_values():
    layer, stream = a_layer(192, 6, 320), a_stream()
    found = of_pooler(layer, stream)
    assert_near(found, of_pooler(copy.deepcopy(layer).double(), stream))
    assert of_keys_bias(found).any()


@pytest.mark.parametrize("dtype", TYPES)
def test_a_number_that_is_none_spoils_its_own_sequence_alone(dtype):
    layer, stream = a_layer(*ODD, dtype), a_stream()
    rows, given = stream.first_rows, drawn(sum(LENGTHS), 192, 1).to(dtype)
    together = layer(given, stream, rows)
    given[LENGTHS[0] - 1, 3] = float("nan")
    given.requires_grad_()
    spoilt = layer(given, stream, rows)
    assert spoilt[0].isnan().all()
    assert torch.equal(spoilt[1:], together[1:])
    spoilt.sum().backward()
    assert given.grad[: LENGTHS[0]].isnan().all()
    assert given.grad[LENGTHS[0] :].isfinite().all()


@pytest.mark.parametrize("dtype", TYPES)
def test_the_last_of_several_layers_in_one_function_is_as_by_itself(dtype, monkeypatch):
    layers, stream = [a_layer(*ODD, dtype) for _ in range(3)], a_stream()
    given = drawn(sum(LENGTHS), 192, 1).to(dtype)
    gradient = drawn(len(LENGTHS), 192, 2).to(dtype)
    found = []
    for most in (cpu_training_layers.MOST_STATES, 0):
        monkeypatch.setattr(cpu_training_layers, "MOST_STATES", most)
        hidden = given.clone().requires_grad_()
        output = in_turn(layers, hidden, stream, stream.first_rows)
        output.backward(gradient)
        weights = [each for layer in layers for each in layer.parameters()]
        found.append([output, hidden.grad, *(each.grad for each in weights)])
        for each in weights:
            each.grad = None
    assert all(map(torch.equal, *found))
