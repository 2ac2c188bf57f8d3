"""Layers that learn in one call, of either type, beside a layer of torch's operators in float64."""

import contextlib
import copy
import dataclasses
import functools

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bertsmith import native
from bertsmith.compiler import Build, without_native
from bertsmith.model import cpu_training_layer, cpu_training_layers
from bertsmith.model.config import BertConfig
from bertsmith.model.cpu_training_layer import MOST_NUMBERS, SOURCE
from bertsmith.model.layer import Layer
from bertsmith.model.linear import Linear
from bertsmith.model.stream import Stream
from bertsmith.native import has_fast_products
from tests.builds import (
    NEEDS_COMPILER,
    forget_builds,
    has_tiles,
    learning_in,
    names_of_calls,
    tiles_are_imitated,
    tiles_refused,
    without_tiles,
)
from tests.model.plain import random_packed

# bfloat16 has 8 bits, float32 24; the way there rounds seven times, the way back as often, and sums
# of few rows cancel.
WITHIN = {torch.bfloat16: 1.5e-2, torch.float32: 2e-6}
TYPES = [torch.bfloat16, torch.float32]
LENGTHS = [5, 3, 40, 1, 77, 200, 64]
TOKENS = sum(LENGTHS)
DROPOUT = (3, 4)
# Numbers, and how they are multiplied: the matrix unit has none for float32.
WAYS = [
    (torch.bfloat16, contextlib.nullcontext),
    (torch.bfloat16, without_tiles),
    (torch.float32, contextlib.nullcontext),
]
# Of the first, queries' depth is two parts and a shorter one, keys' and values' columns are three
# groups of sums; of the second, one matrix fits into no cache, the other's depth ends in a short
# part.
PAST_THE_CACHE = [(1088, 17, 64), (64, 2, 16448)]

pytestmark = NEEDS_COMPILER


anywhere = learning_in(cpu_training_layer)


@pytest.fixture
def calls(monkeypatch):
    """Names of the functions that are called."""
    return names_of_calls(cpu_training_layers, monkeypatch)


def a_layer(hidden=64, heads=2, inner=128, dtype=torch.bfloat16, **values):
    torch.manual_seed(hidden)
    config = BertConfig(
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=inner,
        **{"vocab_size": 60, "num_hidden_layers": 1, **values},
    )
    layer = Layer(config, 1)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.1)
    return in_type(layer, dtype)


def in_type(layer, dtype):
    """Matrices of that type, norms in float32, as a model is trained."""
    layer.to(dtype)
    for norm in (layer.attention.norm, layer.feed_forward.norm):
        norm.float()
    return layer


def a_stream(lengths=LENGTHS, dropout=DROPOUT, **given):
    return Stream.of(random_packed(lengths, 60), dropout=dropout, **given)


def drawn(count, width, seed):
    torch.manual_seed(seed)
    return torch.randn(count, width).bfloat16()


def learned(layer, stream, rows=None):
    """Output, gradient of the input's tokens, and of every weight, by name."""
    width = layer.attention.norm.normalized_shape[0]
    dtype = layer.attention.qkv.weight.dtype
    hidden = drawn(len(stream.token_ids), width, 1).to(dtype).requires_grad_()
    output = layer(hidden, stream, None if rows is None else torch.tensor(rows))
    gradient = drawn(len(output), width, 2).to(dtype)
    if rows is None:
        gradient[stream.num_tokens :] = 0
        output.backward(gradient)
        output = output[: stream.num_tokens]
    else:
        output.backward(gradient)
    found = {name: each.grad for name, each in layer.named_parameters()}
    layer.zero_grad()
    return {"output": output.detach(), "input": hidden.grad[: stream.num_tokens], **found}


def assert_near(found, exact, times=1):
    assert found.keys() == exact.keys()
    within = times * WITHIN[found["output"].dtype]
    for name, ours in found.items():
        right = exact[name].double()
        assert ours.shape == right.shape, name
        assert (ours.double() - right).norm() <= within * right.norm(), name


def assert_equal(found, others):
    assert found.keys() == others.keys()
    for name, ours in found.items():
        assert torch.equal(ours, others[name]), name


@pytest.mark.parametrize(("dtype", "way"), WAYS)
@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right", "right_to_left"])
@pytest.mark.parametrize(
    "rows",
    [None, [0], [0, 5, 8, 8, 389, 100, 3], [389, *range(390)] * 2],
    ids=["all", "one", "some", "all twice"],
)
@pytest.mark.parametrize(("hidden", "heads", "inner"), [(64, 2, 128), (192, 3, 320)])
def test_values_and_gradients_are_those_of_the_definition(
    hidden, heads, inner, rows, direction, dtype, way, calls
):
    layer, stream = a_layer(hidden, heads, inner, dtype, direction=direction), a_stream()
    exact = learned(copy.deepcopy(layer).double(), stream, rows)
    assert not calls
    with way():
        found = learned(layer, stream, rows)
    assert calls == ["training_layer_forward", "training_layer_backward"]
    assert_near(found, exact)
    dtypes = {name: each.dtype for name, each in layer.named_parameters()}
    assert {name: found[name].dtype for name in dtypes} == dtypes


@pytest.mark.parametrize(("dtype", "way"), WAYS)
@pytest.mark.parametrize("rows", [None, [0, 5, 8, 8, 389, 100, 3]], ids=["all", "some"])
def test_heads_deeper_than_a_part_of_a_panel_are_those_of_the_definition(rows, dtype, way, calls):
    layer, stream = a_layer(384, 1, 128, dtype), a_stream()
    exact = learned(copy.deepcopy(layer).double(), stream, rows)
    with way():
        assert_near(learned(layer, stream, rows), exact, times=2)  # of the depth of all heads
    assert calls == ["training_layer_forward", "training_layer_backward"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("hidden_rate", [0.0, 0.5])
@pytest.mark.parametrize("attention_rate", [0.0, 0.5])
@pytest.mark.parametrize("rows", [None, [8, 5, 0]], ids=["all", "some"])
def test_dropout_is_that_of_the_definition(hidden_rate, attention_rate, rows, dtype, calls):
    rates = {
        "hidden_dropout_prob": hidden_rate,
        "attention_probs_dropout_prob": attention_rate,
    }
    layer, stream = a_layer(dtype=dtype, **rates), a_stream()
    found = learned(layer, stream, rows)
    assert_near(found, learned(copy.deepcopy(layer).double(), stream, rows))
    without = learned(layer, a_stream(dropout=None), rows)
    is_dropped = hidden_rate > 0.0 or attention_rate > 0.0
    assert torch.equal(without["output"], found["output"]) is not is_dropped


@pytest.mark.parametrize("dtype", TYPES)
def test_dropout_masks_are_those_of_the_definition_to_the_bit(dtype):
    # Bias alone is large: what both sub-layers add is one number everywhere, or zero where dropped.
    rates = {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.0}
    layer, stream = a_layer(dtype=dtype, **rates), a_stream()
    with torch.no_grad():
        for part in (layer.attention.output, layer.feed_forward.down):
            part.weight.zero_()
            part.bias.fill_(64.0)
    hidden = torch.zeros(TOKENS, 64, dtype=dtype)
    exact = copy.deepcopy(layer).double()(hidden.double(), stream)
    found = layer(hidden, stream)
    assert (found - exact).abs().max() < 0.1 < exact.std()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [None, [*range(0, 810, 3)]], ids=["all", "some"])
def test_sums_of_many_rows_and_much_depth_wait_with_the_same_values(rows, dtype, calls):
    lengths = [130, 200, 145, 128, 207]
    layer, stream = a_layer(384, 6, 1536, dtype), a_stream(lengths)
    exact = learned(copy.deepcopy(layer).double(), stream, rows)
    assert_near(learned(layer, stream, rows), exact, times=2)
    assert len(calls) == 2


@pytest.mark.parametrize("rows", [None, [*range(0, 810, 3)]], ids=["all", "some"])
@pytest.mark.parametrize("shape", PAST_THE_CACHE, ids=str)
def test_what_passes_the_cache_is_as_by_vectors(rows, shape):
    # What is rounded on the way grows with the width: the definition is farther from either.
    layer, stream = a_layer(*shape), a_stream([130, 200, 145, 128, 207])
    found = learned(layer, stream, rows)
    with without_tiles():
        assert_near(found, learned(layer, stream, rows))


@pytest.mark.skipif(not tiles_are_imitated(), reason="this system keeps nothing back")
@pytest.mark.parametrize("rows", [None, [0, 5, 8, 8, 43, 3]], ids=["all", "some"])
def test_where_the_system_keeps_the_unit_back_vectors_multiply(rows):
    layer, stream = a_layer(192, 2, 320), a_stream([40, 3, 70])
    with tiles_refused():
        found = learned(layer, stream, rows)
    with without_tiles():
        assert_near(found, learned(layer, stream, rows))


def test_a_broad_layer_goes_in_one_call(calls):
    layer, stream = a_layer(768, 12, 3072), a_stream([40, 3])
    layer(drawn(43, 768, 1), stream).sum().backward()
    assert len(calls) == 2


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [None, [1919], [0, 700, 1900, 700]], ids=["all", "last", "some"])
def test_a_stream_of_several_chunks_is_one_stream(rows, dtype, calls):
    lengths = [300, 1, 200, 512, 7, 100, 600, 200]
    layer, stream = a_layer(dtype=dtype), a_stream(lengths)
    exact = learned(copy.deepcopy(layer).double(), stream, rows)
    assert_near(learned(layer, stream, rows), exact)
    assert len(calls) == 2


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "shape", [(64, 2, 128), (64, 2, 1536), (384, 6, 1536), *PAST_THE_CACHE], ids=str
)
@pytest.mark.parametrize("rows", [None, [0, 5, 8, 8, 389, 100, 3]], ids=["all", "some"])
def test_the_number_of_threads_changes_no_bit(rows, shape, dtype):
    layer, stream = a_layer(*shape, dtype=dtype), a_stream(LENGTHS * 4)
    together = learned(layer, stream, rows)
    threads = torch.get_num_threads()
    try:
        for count in (1, 3, 7):
            torch.set_num_threads(count)
            assert_equal(learned(layer, stream, rows), together)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_sequence_depends_on_no_other(dtype):
    layer, stream = a_layer(dtype=dtype), a_stream(dropout=None)
    hidden = drawn(TOKENS, 64, 1).to(dtype).requires_grad_()
    gradient = drawn(TOKENS, 64, 2).to(dtype)
    output = layer(hidden, stream)
    output.backward(gradient)
    for start, length in zip(stream.first_rows.tolist(), LENGTHS, strict=True):
        own = slice(start, start + length)
        alone = hidden.detach()[own].requires_grad_()
        of_alone = layer(alone, a_stream([length], dropout=None))
        assert torch.equal(of_alone, output[own])
        of_alone.backward(gradient[own])
        assert torch.equal(alone.grad, hidden.grad[own])


@pytest.mark.parametrize("dtype", TYPES)
def test_a_number_that_is_none_spoils_its_own_sequence_alone(dtype):
    layer, stream = a_layer(dtype=dtype), a_stream()
    given = drawn(TOKENS, 64, 1).to(dtype)
    together = layer(given, stream)
    given[0, 3] = float("nan")
    spoilt = layer(given, stream)
    assert torch.isnan(spoilt[: LENGTHS[0]]).all()
    assert torch.equal(spoilt[LENGTHS[0] :], together[LENGTHS[0] :])


@pytest.mark.parametrize("dtype", TYPES)
def test_spare_rows_are_never_read_and_have_no_gradient(dtype, calls):
    layer, stream = a_layer(dtype=dtype), a_stream(is_rounded=True)
    assert len(stream.token_ids) > TOKENS
    exact = learned(copy.deepcopy(layer).double(), a_stream())
    hidden = drawn(len(stream.token_ids), 64, 1).to(dtype)
    hidden[:TOKENS] = drawn(TOKENS, 64, 1)
    hidden[TOKENS:] = float("nan")
    hidden.requires_grad_()
    output = layer(hidden, stream)
    assert not output[TOKENS:].any()
    gradient = torch.full_like(output, float("nan"))
    gradient[:TOKENS] = drawn(TOKENS, 64, 2)
    output.backward(gradient)
    assert not hidden.grad[TOKENS:].any()
    found = {name: each.grad for name, each in layer.named_parameters()}
    assert_near({"output": output[:TOKENS], "input": hidden.grad[:TOKENS], **found}, exact)
    assert len(calls) == 2


@pytest.mark.parametrize("row", [-1, TOKENS])
def test_a_row_of_no_sequence_cannot_be_asked_for(row):
    layer, stream = a_layer(), a_stream(is_rounded=True)
    with pytest.raises(IndexError, match=f"rows must be 0 to {TOKENS - 1}: {min(row, 0)} to"):
        layer(drawn(len(stream.token_ids), 64, 1), stream, torch.tensor([row, 0]))


def test_what_is_kept_lies_in_memory_whatever_the_default_device(calls):
    layer, stream, hidden = a_layer(), a_stream(), drawn(TOKENS, 64, 1)
    right = layer(hidden, stream)
    with torch.device("meta"):
        assert torch.equal(layer(hidden, stream), right)
    assert calls == ["training_layer_forward"] * 2


def test_rows_that_lie_apart_are_taken_as_they_are(calls):
    layer, stream = a_layer(), a_stream()
    apart = drawn(TOKENS, 128, 1)[:, ::2]
    assert torch.equal(layer(apart, stream), layer(apart.contiguous(), stream))
    assert len(calls) == 2


def test_one_way_there_is_gone_back_twice(calls):
    layer, stream = a_layer(), a_stream()
    output = layer(drawn(TOKENS, 64, 1), stream)
    weights = list(layer.parameters())
    once, again = (
        torch.autograd.grad(output, weights, torch.ones_like(output), retain_graph=True)
        for _ in range(2)
    )
    assert all(map(torch.equal, once, again))


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_computed_anew_for_the_way_back_is_the_same(dtype, calls):
    layer, stream = a_layer(dtype=dtype), a_stream()
    hidden = drawn(TOKENS, 64, 1).to(dtype).requires_grad_()
    right = learned(layer, stream)
    output = checkpoint(layer, hidden, stream, use_reentrant=False)
    output.backward(drawn(TOKENS, 64, 2).to(dtype))
    assert torch.equal(output, right["output"])
    assert torch.equal(hidden.grad, right["input"])
    assert calls.count("training_layer_forward") == 3


def test_a_gradient_cannot_be_differentiated_again():
    layer, stream = a_layer(), a_stream()
    output = layer(drawn(TOKENS, 64, 1), stream)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        torch.autograd.grad(output.sum(), layer.attention.qkv.weight, create_graph=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_gradients_of_two_parts_of_a_batch_add_up(dtype, calls):
    layer, stream = a_layer(dtype=dtype), a_stream()
    once = learned(layer, stream)
    for _ in range(2):
        layer(drawn(TOKENS, 64, 1).to(dtype), stream).backward(drawn(TOKENS, 64, 2).to(dtype))
    for name, each in layer.named_parameters():
        assert torch.equal(each.grad, once[name] * 2), name
    assert len(calls) == 6


def test_weights_that_changed_are_not_gone_back_through():
    layer, stream = a_layer(), a_stream()
    output = layer(drawn(TOKENS, 64, 1), stream)
    with torch.no_grad():
        layer.feed_forward.up.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


class Doubled(Linear):
    """A map that somebody changed."""

    def forward(self, input):
        return 2 * super().forward(input)


def hooked(layer):
    layer.feed_forward.up.register_forward_hook(lambda *_: None)


def hooked_on_the_way_back(layer):
    layer.attention.register_full_backward_hook(lambda *_: None)


def changed(layer):
    layer.attention.output.__class__ = Doubled


def patched(layer):
    layer.feed_forward.forward = functools.partial(
        type(layer.feed_forward).forward, layer.feed_forward
    )


def parametrized(layer):
    nn.utils.parametrize.register_parametrization(layer.attention.qkv, "weight", nn.Identity())


def frozen(layer):
    layer.feed_forward.down.bias.requires_grad_(False)


def dropping_in_one_place(layer):
    layer.feed_forward.dropout = 0.3


def with_heads_pruned(layer):
    """Half of the heads are gone."""
    attention = layer.attention
    attention.rules = dataclasses.replace(attention.rules, num_heads=1)
    attention.qkv, attention.output = Linear(64, 96).bfloat16(), Linear(32, 64).bfloat16()


def of_another_number(layer):
    layer.feed_forward.number = 2


def in_float64(layer):
    layer.double()


def of_products_in_float16(layer):
    in_type(layer, torch.float32).feed_forward.up.in_float16 = True


def norms_in_half(layer):
    layer.bfloat16()


@pytest.mark.parametrize(
    "change",
    [
        hooked, hooked_on_the_way_back, changed, patched, parametrized, frozen,
        dropping_in_one_place, with_heads_pruned, of_another_number, in_float64,
        of_products_in_float16, norms_in_half,
    ],
)  # fmt: skip
def test_a_layer_that_is_not_as_it_was_goes_operator_by_operator(change, calls):
    layer, stream = a_layer(), a_stream()
    change(layer)
    hidden = drawn(TOKENS, 64, 1).to(layer.attention.qkv.weight.dtype)
    layer(hidden, stream).sum().backward()
    assert not calls
    assert layer.feed_forward.up.weight.grad is not None


def test_a_layer_whose_part_is_a_function_goes_operator_by_operator(calls):
    layer, stream = a_layer(), a_stream()
    attention = layer.attention
    del layer.attention
    layer.attention = attention.forward
    layer(drawn(TOKENS, 64, 1), stream).sum().backward()
    assert not calls
    assert attention.qkv.weight.grad is not None
    layer.lay_out()
    assert layer.ready is None


def test_a_layer_whose_norm_has_no_bias_is_not_for_one_call():
    layer = a_layer()
    layer.feed_forward.norm = nn.LayerNorm(64, bias=False)
    assert layer.learning() is None
    layer.lay_out()
    assert layer.ready is None


@pytest.mark.parametrize("dtype", TYPES)
def test_rules_that_changed_count_from_then_on(dtype, calls):
    """What the functions are told of a layer is kept with its rules."""
    layer, stream = a_layer(dtype=dtype), a_stream()
    before = learned(layer, stream)
    layer.attention.norm.eps, layer.feed_forward.norm.eps = 0.5, 2.0
    layer.attention.dropout = layer.feed_forward.dropout = 0.4
    found = learned(layer, stream)
    assert len(calls) == 4
    assert_near(found, learned(copy.deepcopy(layer).double(), stream))
    with pytest.raises(AssertionError):
        assert_near(before, found)
    in_eval = learned(layer, a_stream(dropout=None))
    assert_near(in_eval, learned(copy.deepcopy(layer).double(), a_stream(dropout=None)))


@pytest.mark.parametrize(
    ("values", "lengths"),
    [
        ({"hidden_act": "relu"}, LENGTHS),
        ({"inner": 96}, LENGTHS),
        ({"hidden": 96, "heads": 2}, LENGTHS),
        ({"heads": 4}, LENGTHS),  # of half a band
        ({"hidden": 192, "heads": 4}, LENGTHS),  # of one and a half
        ({}, [2049]),
    ],
)
def test_what_it_was_not_made_for_goes_operator_by_operator(values, lengths, calls):
    layer, stream = a_layer(**values), a_stream(lengths)
    width = layer.attention.norm.normalized_shape[0]
    layer(drawn(sum(lengths), width, 1), stream).sum().backward()
    assert not calls


def test_states_of_another_width_are_refused_as_by_the_operators(calls):
    layer, stream = a_layer(), a_stream()
    with pytest.raises(RuntimeError):
        layer(drawn(TOKENS, 32, 1), stream)
    assert not calls


def test_it_takes_no_part_where_nobody_learns_or_another_type_is_asked_for(calls):
    layer, stream, hidden = a_layer(), a_stream(), drawn(TOKENS, 64, 1)
    with torch.no_grad():
        layer(hidden, stream)
    with torch.autocast("cpu", torch.bfloat16):
        layer(hidden, stream)
    with without_native():
        layer(hidden, stream)
    assert not calls
    layer(hidden, stream)
    assert calls == ["training_layer_forward"]


def test_a_hook_on_the_layer_itself_is_called(calls):
    layer, stream, seen = a_layer(), a_stream(), []
    layer.register_forward_hook(lambda *_: seen.append("there"))
    layer.register_full_backward_hook(lambda *_: seen.append("back"))
    learned(layer, stream)
    assert seen == ["there", "back"]
    assert len(calls) == 2


@pytest.mark.parametrize("capability", ["AVX2", "DEFAULT"])
def test_narrower_vectors_learn_the_same_in_float32(capability, calls, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    forget_builds()
    try:
        for rows in (None, [0, 5, 8, 8, 389, 100, 3], a_stream().first_rows.tolist()):
            layer, stream = a_layer(192, 3, 320, torch.float32), a_stream()
            exact = learned(copy.deepcopy(layer).double(), stream, rows)
            assert_near(learned(layer, stream, rows), exact)
        assert len(calls) == 6
    finally:
        forget_builds()


@pytest.mark.parametrize(
    ("hidden", "inner", "is_long", "is_taken"),
    [(512, 2048, True, True), (512, 2112, True, False), (576, 2048, True, False),
     (640, 1024, True, False), (512, 2048, False, False)],
)  # fmt: skip
def test_in_float32_it_pays_where_matrices_are_small_and_vectors_long(
    hidden, inner, is_long, is_taken, calls, monkeypatch
):
    monkeypatch.setattr(cpu_training_layer, "MOST_NUMBERS", MOST_NUMBERS)
    monkeypatch.setattr(cpu_training_layer, "has_long_vectors", lambda: is_long)
    learned(a_layer(hidden, 1, inner, torch.float32), a_stream([3, 2]))
    assert len(calls) == (2 if is_taken else 0)


def test_vectors_are_long_where_functions_are_built_for_such(monkeypatch):
    for width in (16, 32, 64):
        made = Build(options=(f"-DVECTOR_BYTES={width}",))
        monkeypatch.setattr(native, "build", lambda made=made: made)
        assert native.has_long_vectors() is (width == 64)


def test_it_is_the_fastest_where_a_processor_multiplies_bfloat16_by_its_best_way(monkeypatch):
    half = torch.zeros(1, 64).bfloat16()
    multiplies, has_unit = native.multiplies_bfloat16(), has_tiles()
    assert has_fast_products(SOURCE, half, of_bfloat16=True) is multiplies
    with without_tiles():  # where there is a matrix unit, vectors beside it are not the best way
        assert has_fast_products(SOURCE, half, of_bfloat16=True) is (multiplies and not has_unit)
    monkeypatch.setattr(native, "build", lambda: Build(options=(), instructions=()))
    assert not has_fast_products(SOURCE, half, of_bfloat16=True)
