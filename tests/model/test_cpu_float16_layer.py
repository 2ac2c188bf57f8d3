"""A layer in one call whose products are made of float16, beside the definition in float64."""

import copy

import pytest
import torch

from bertsmith.compiler import without_native
from bertsmith.model.cpu_layer import (
    FLOAT16_SOURCE,
    FLOAT32_SOURCE,
    SOURCE,
    can_lay_out,
    source_of,
)
from bertsmith.model.cpu_layers import suits
from bertsmith.model.layers import lay_out
from bertsmith.model.linear import linears
from bertsmith.native import multiplies_float16
from bertsmith.train.device import choose_float16
from tests.model.test_cpu_layer import (
    a_layer,
    a_stream,
    assert_alone_and_in_any_threads,
    assert_spoils_its_own_sequence_alone,
    error,
    states,
)

# Six products of numbers of eleven bits, one after the other, between weights so large that scores
# far apart decide; in bfloat16 it is 8e-3.
WITHIN = 4e-3

pytestmark = pytest.mark.skipif(not multiplies_float16(), reason="no products of float16 here")


def in_float16(layer):
    """A copy that is laid out for them."""
    ready = copy.deepcopy(layer)
    choose_float16(ready, True)
    lay_out(ready)
    assert ready.ready is not None
    assert ready.ready.source == FLOAT16_SOURCE
    return ready


@torch.no_grad()
@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right", "right_to_left"])
@pytest.mark.parametrize(
    "rows",
    [None, [0], [0, 5, 8, 8, 389, 100, 3], [389, *range(390)] * 3],
    ids=["all", "one", "some", "all four times"],
)
@pytest.mark.parametrize(("hidden", "heads", "inner"), [(64, 2, 100), (24, 2, 52), (312, 12, 1200)])
def test_hidden_states_are_near_those_of_the_definition(hidden, heads, inner, rows, direction):
    layer, stream = a_layer(hidden, heads, inner, direction=direction), a_stream()
    given, rows = states(stream, hidden), None if rows is None else torch.tensor(rows)
    exact = copy.deepcopy(layer).double()(given.double(), stream, rows)
    found = in_float16(layer)(given, stream, rows)
    assert found.dtype == torch.float32
    assert 1e-5 < error(found, exact) < WITHIN


@torch.no_grad()
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "silu", "tanh"])
def test_every_activation_is_the_definitions(activation):
    layer, stream = a_layer(64, 2, 64, hidden_act=activation), a_stream([64])
    layer.attention.norm.weight.fill_(0.0)
    layer.attention.norm.bias.copy_(torch.linspace(-12, 12, 64))
    layer.feed_forward.up.weight.copy_(torch.eye(64))
    layer.feed_forward.up.bias.fill_(0.0)
    exact = copy.deepcopy(layer).double()(states(stream).double(), stream)
    assert error(in_float16(layer)(states(stream), stream), exact) < WITHIN


@torch.no_grad()
def test_what_a_sequence_becomes_depends_on_no_other_and_on_no_threads():
    assert_alone_and_in_any_threads(in_float16(a_layer()))


@torch.no_grad()
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_row_that_is_no_number_spoils_its_own_sequence_alone(broken):
    assert_spoils_its_own_sequence_alone(in_float16(a_layer()), 3, broken)


@torch.no_grad()
def test_a_layer_as_it_learns_gives_nearly_the_same():
    """Maps by themselves, as in training: other sums of the same products."""
    layer, stream = a_layer(312, 12, 1200), a_stream()
    choose_float16(layer, True)
    given = states(stream, 312)
    assert error(in_float16(layer)(given, stream), layer(given, stream).double()) < WITHIN


@torch.no_grad()
def test_maps_that_were_not_all_told_go_another_way():
    layer, stream = in_float16(a_layer()), a_stream()
    given = states(stream)
    assert suits([layer.ready], given, stream, None)
    parts = linears(layer)
    assert source_of(parts) == FLOAT16_SOURCE
    parts[1].in_float16 = False
    assert source_of(parts) == FLOAT32_SOURCE
    assert not suits([layer.ready], given, stream, None)
    parts[1].in_float16 = True
    with without_native():
        assert not can_lay_out(parts, 2)
        assert not suits([layer.ready], given, stream, None)
    assert source_of(linears(layer.bfloat16())) == SOURCE
