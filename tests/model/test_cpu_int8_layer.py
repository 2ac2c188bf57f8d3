"""A layer in one call with weights in eight bits, beside the same of torch's operators."""

import copy

import pytest
import torch

from bertsmith.model import cpu_layer
from bertsmith.model.cpu_layer import INT8_SOURCE, can_lay_out
from bertsmith.model.cpu_layers import suits
from bertsmith.model.int8_weights import LEVELS, Int8Weights, multiplies_int8, step_sizes
from bertsmith.model.layers import forget, lay_out
from bertsmith.model.linear import linears
from bertsmith.native import library
from tests.builds import NEEDS_COMPILER, fastest_in, forget_builds
from tests.model.test_cpu_layer import (
    a_layer,
    a_stream,
    assert_alone_and_in_any_threads,
    assert_few_rows_are_as_among_many,
    assert_spoils_its_own_sequence_alone,
    error,
    states,
)

# A level more or less where the last bit of a sum before it decides: of 127, in few of the numbers.
WITHIN = 2e-3
TYPES = (torch.float32, torch.bfloat16)

pytestmark = [
    NEEDS_COMPILER,
    pytest.mark.skipif(not multiplies_int8(), reason="this CPU does not multiply int8"),
]


anywhere = fastest_in(cpu_layer, lambda _, weight, of_bytes, **asked: of_bytes)


def in_eight_bits(layer, dtype=torch.float32, *, one_call=True):
    """A copy whose weights are rounded as they are, the rest in that precision."""
    ready = copy.deepcopy(layer)
    rounded = [(each, Int8Weights(each.weight)) for each in linears(ready)]
    ready.to(dtype)
    for norm in (ready.attention.norm, ready.feed_forward.norm):
        norm.float()
    for each, weights in rounded:
        each.take(weights)
    if one_call:
        lay_out(ready)
    assert (ready.ready is not None) is one_call
    return ready


@torch.no_grad()
@pytest.mark.parametrize(
    "rows",
    [None, [0], [0, 5, 8, 8, 389, 100, 3], [389, *range(390)] * 3],
    ids=["all", "one", "some", "all four times"],
)
@pytest.mark.parametrize(("hidden", "heads", "inner"), [(64, 2, 100), (24, 2, 52), (312, 12, 1200)])
def test_hidden_states_are_those_of_the_definition(hidden, heads, inner, rows):
    layer, stream = a_layer(hidden, heads, inner), a_stream()
    given, rows = states(stream, hidden), None if rows is None else torch.tensor(rows)
    exact = in_eight_bits(layer, one_call=False)(given, stream, rows).double()
    assert error(in_eight_bits(layer)(given, stream, rows), exact) < WITHIN


@torch.no_grad()
@pytest.mark.parametrize(("hidden", "heads", "inner"), [(64, 2, 100), (24, 2, 52), (312, 12, 1200)])
def test_beside_states_of_bfloat16_it_is_as_near_as_the_definition_is(hidden, heads, inner):
    """Numbers of bfloat16 often lie half-way between two levels, so no two ways give the same."""
    layer, stream = a_layer(hidden, heads, inner).bfloat16().float(), a_stream()
    given = states(stream, hidden, torch.bfloat16)
    exact = in_eight_bits(layer, one_call=False)(given.float(), stream).double()
    plain = in_eight_bits(layer, torch.bfloat16, one_call=False)(given, stream)
    found = in_eight_bits(layer, torch.bfloat16)(given, stream)
    assert found.dtype == torch.bfloat16
    assert error(found, exact) < 1.2 * error(plain, exact) < 2e-2


@torch.no_grad()
def test_eight_bits_are_seen_in_what_comes_out():
    """What the definition is near to here, exact weights are not."""
    layer, stream = a_layer(312, 12, 1200), a_stream()
    given = states(stream, 312)
    exact = layer(given, stream).double()
    assert 2 * WITHIN < error(in_eight_bits(layer)(given, stream), exact) < 0.1


@torch.no_grad()
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_what_a_sequence_becomes_depends_on_no_other_and_on_no_threads(dtype):
    assert_alone_and_in_any_threads(in_eight_bits(a_layer(), dtype), dtype)


@torch.no_grad()
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_few_rows_of_a_broad_layer_become_what_they_do_among_many(dtype):
    layer = in_eight_bits(a_layer(312, 12, 2000), dtype)
    assert_few_rows_are_as_among_many(layer, 312, dtype)


@torch.no_grad()
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_row_that_is_no_number_spoils_its_own_sequence_alone(broken):
    assert_spoils_its_own_sequence_alone(in_eight_bits(a_layer()), 3, broken)


@torch.no_grad()
def test_the_highest_levels_and_rows_of_zeros_are_exact():
    """Weights at their highest level everywhere, of either sign: no sum overflows."""
    layer, stream = a_layer(64, 2, 4096), a_stream([7])
    up, down = layer.feed_forward.up, layer.feed_forward.down
    up.weight.copy_(torch.where(torch.arange(64) % 2 == 0, 3.0, -3.0).expand(4096, 64))
    down.weight.fill_(-2.0)
    given = states(stream)
    given[3] = 0.0
    exact = in_eight_bits(layer, one_call=False)(given, stream).double()
    assert error(in_eight_bits(layer)(given, stream), exact) < WITHIN


@torch.no_grad()
def test_levels_are_those_of_the_definition():
    """A map that hands its rows on: what comes back is each row at the nearest of its levels."""
    layer, stream = a_layer(64, 2, 64, hidden_act="relu"), a_stream([64])
    norm, feed_forward = layer.attention.norm, layer.feed_forward
    norm.weight.fill_(0.0)
    norm.bias.copy_(torch.linspace(0.0, 5.0, 64))
    for each in (feed_forward.up, feed_forward.down):
        each.weight.copy_(torch.eye(64))
        each.bias.fill_(0.0)
    attended = norm.bias[None]
    once = (attended / step_sizes(attended)).round() * step_sizes(attended)
    twice = (once / step_sizes(once)).round() * step_sizes(once)
    expected = feed_forward.norm(attended + twice).double()
    found = in_eight_bits(layer)(states(stream), stream)
    assert LEVELS == 127
    assert error(found, expected.expand_as(found)) < 1e-6


@torch.no_grad()
def test_a_map_that_is_no_longer_in_eight_bits_is_not_passed_over():
    layer, stream = in_eight_bits(a_layer()), a_stream()
    given = states(stream)
    assert suits([layer.ready], given, stream, None)
    layer.feed_forward.up.weight.mul_(2.0)
    assert not suits([layer.ready], given, stream, None)
    mixed = (layer.attention.qkv, layer.attention.output, *linears(layer.feed_forward))
    assert not can_lay_out(mixed, 2)
    forget(layer)
    lay_out(layer)
    assert layer.ready is None  # exact weights, for which nothing here is fast
    assert not any(each.is_rounded for each in linears(layer))


@torch.no_grad()
@pytest.mark.parametrize("capability", ["AVX2", "DEFAULT"])
def test_narrower_vectors_without_products_of_bytes_compute_the_same(capability, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    forget_builds()
    try:
        assert library(INT8_SOURCE) is not None
        for rows in (None, torch.tensor([7, 2, 300])):
            layer, stream = a_layer(72, 3, 100), a_stream()
            given = states(stream, 72)
            exact = in_eight_bits(layer, one_call=False)(given, stream, rows).double()
            assert error(in_eight_bits(layer)(given, stream, rows), exact) < WITHIN
        assert_few_rows_are_as_among_many(in_eight_bits(a_layer(312, 12, 2000)), 312)
    finally:
        forget_builds()
