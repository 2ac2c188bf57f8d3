"""The functions of `cpu_layer.h`, beside a layer of torch's operators in float64."""

import copy
import functools
import io
from dataclasses import replace

import pytest
import torch
from torch import nn

from bertsmith import native
from bertsmith.compiler import Build, without_native
from bertsmith.model import cpu_layer, cpu_layers
from bertsmith.model.config import BertConfig
from bertsmith.model.cpu_layer import FLOAT32_SOURCE, INT8_SOURCE, SOURCE, can_lay_out
from bertsmith.model.cpu_layers import suits
from bertsmith.model.layer import Layer
from bertsmith.model.layers import forget, lay_out
from bertsmith.model.linear import Linear
from bertsmith.model.stream import Stream
from bertsmith.native import has_fast_products, library
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.device import choose_float16
from bertsmith.train.optimizer import Optimizer
from tests.builds import NEEDS_COMPILER, fastest_in, forget_builds, has_tiles
from tests.model.plain import random_packed

# float32 has 24 bits and loses a few in its sums; bfloat16 has 8, and rounds seven times.
WITHIN = {torch.float32: 2e-6, torch.bfloat16: 8e-3}
LENGTHS = [5, 3, 40, 1, 77, 200, 64]

pytestmark = NEEDS_COMPILER


anywhere = fastest_in(cpu_layer, lambda _, weight, **asked: weight.dtype in WITHIN)


def a_layer(hidden=64, heads=2, inner=100, *, seed=0, **values):
    torch.manual_seed(hidden + seed)
    config = BertConfig(
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=inner,
        **{"vocab_size": 60, "num_hidden_layers": 1, **values},
    )
    layer = Layer(config, 1).eval()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.2)
    return layer


def as_answering(layer, dtype=torch.float32):
    """A copy in that precision, norms in float32, and laid out."""
    ready = copy.deepcopy(layer).to(dtype)
    for norm in (ready.attention.norm, ready.feed_forward.norm):
        norm.float()
    lay_out(ready)
    assert ready.ready is not None
    return ready


def a_stream(lengths=LENGTHS, **given):
    return Stream.of(random_packed(lengths, 60), **given)


def states(stream, width=64, dtype=torch.float32):
    torch.manual_seed(width)
    return torch.randn(len(stream.token_ids), width).to(dtype)


def assert_alone_and_in_any_threads(layer, dtype=torch.float32):
    """What a sequence becomes depends on no other, and on no number of threads."""
    stream = a_stream()
    given = states(stream, dtype=dtype)
    together = layer(given, stream)
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            assert torch.equal(layer(given, stream), together)
    finally:
        torch.set_num_threads(threads)
    for start, length in zip(stream.first_rows.tolist(), LENGTHS, strict=True):
        end = start + length
        assert torch.equal(layer(given[start:end], a_stream([length])), together[start:end])


def assert_few_rows_are_as_among_many(layer, width, dtype=torch.float32):
    """One tile, two, more, as many as ask for what comes next, and one row more.

    They ask for it of matrices of more than 512 KiB.
    """
    lengths = [1, 5, 6, 7, 12, 13, 18, 24, 25, 100, 143, 144, 145]
    stream = a_stream(lengths)
    given = states(stream, width, dtype)
    together = layer(given, stream)
    threads = torch.get_num_threads()
    try:
        for start, length in zip(stream.first_rows.tolist(), lengths, strict=True):
            of = slice(start, start + length)
            for count in (1, 3):
                torch.set_num_threads(count)
                assert torch.equal(layer(given[of], a_stream([length])), together[of]), length
    finally:
        torch.set_num_threads(threads)


def assert_spoils_its_own_sequence_alone(layer, columns, broken, dtype=torch.float32):
    """A number that is none, at columns of the first row."""
    stream = a_stream()
    given = states(stream, dtype=dtype)
    together = layer(given, stream)
    given[0, columns] = broken
    spoilt = layer(given, stream)
    assert torch.isnan(spoilt[: LENGTHS[0]]).all()
    assert torch.equal(spoilt[LENGTHS[0] :], together[LENGTHS[0] :])


def error(found, exact):
    assert found.shape == exact.shape
    return float((found.double() - exact).norm() / exact.norm())


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right", "right_to_left"])
@pytest.mark.parametrize(
    "rows",
    [None, [0], [0, 5, 8, 8, 389, 100, 3], [389, *range(390)] * 3],
    ids=["all", "one", "some", "all four times"],
)
@pytest.mark.parametrize(("hidden", "heads", "inner"), [(64, 2, 100), (24, 2, 52), (312, 12, 1200)])
def test_hidden_states_are_those_of_the_definition(hidden, heads, inner, rows, direction, dtype):
    layer, stream = a_layer(hidden, heads, inner, direction=direction), a_stream()
    given = states(stream, hidden, dtype)
    rows = None if rows is None else torch.tensor(rows)
    exact = copy.deepcopy(layer.to(dtype)).double()(given.double(), stream, rows)
    found = as_answering(layer, dtype)(given, stream, rows)
    assert found.dtype == dtype
    assert error(found, exact) < WITHIN[dtype]


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("rows", [[0], [0, 5, 8, 8, 389, 100, 3], [389, *range(390)] * 3], ids=str)
def test_rows_asked_for_of_a_broad_layer_are_those_of_all(rows, dtype):
    layer, stream = a_layer(384, 6, 1536), a_stream()
    given = states(stream, 384, dtype)
    exact = copy.deepcopy(layer.to(dtype)).double()(given.double(), stream)
    layer = as_answering(layer, dtype)
    of_all = layer(given, stream)
    assert error(of_all, exact) < WITHIN[dtype]
    assert torch.equal(layer(given, stream, torch.tensor(rows)), of_all[rows])


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "silu", "tanh"])
def test_every_activation_is_the_definitions_from_end_to_end(activation, dtype):
    """Rows of one number each: what an inner row becomes is seen as it is."""
    layer, stream = a_layer(64, 2, 64, hidden_act=activation), a_stream([64])
    layer.attention.norm.weight.fill_(0.0)
    layer.attention.norm.bias.copy_(torch.linspace(-12, 12, 64))
    layer.feed_forward.up.weight.copy_(torch.eye(64))
    layer.feed_forward.up.bias.fill_(0.0)
    layer = layer.to(dtype)
    exact = copy.deepcopy(layer).double()(states(stream).double(), stream)
    assert (
        error(as_answering(layer, dtype)(states(stream, dtype=dtype), stream), exact)
        < (WITHIN[dtype])
    )


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_relu_of_what_is_below_all_numbers_is_zero_and_of_none_none(dtype):
    layer, stream = a_layer(64, 2, 64, hidden_act="relu").to(dtype), a_stream()
    given = states(stream, dtype=dtype)
    layer.feed_forward.up.bias[::2] = -torch.inf
    exact = copy.deepcopy(layer).double()(given.double(), stream)
    assert error(as_answering(layer, dtype)(given, stream), exact) < WITHIN[dtype]
    layer.feed_forward.up.bias[1] = torch.nan
    assert as_answering(layer, dtype)(given, stream).isnan().all()


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_what_a_sequence_becomes_depends_on_no_other_and_on_no_threads(dtype):
    layer = as_answering(a_layer(), dtype)
    assert_alone_and_in_any_threads(layer, dtype)
    assert_spoils_its_own_sequence_alone(layer, slice(None), torch.nan, dtype)


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_few_rows_of_a_broad_layer_become_what_they_do_among_many(dtype):
    assert_few_rows_are_as_among_many(as_answering(a_layer(312, 12, 1200), dtype), 312, dtype)


@torch.no_grad()
@pytest.mark.parametrize(
    ("dtype", "width", "heads", "inner"),
    [(torch.float32, 64, 2, 2432), (torch.float32, 64, 2, 4224), (torch.bfloat16, 64, 2, 4800),
     (torch.bfloat16, 312, 12, 2000)],
)  # fmt: skip
def test_rows_about_as_deep_as_the_second_cache_keeps_become_the_same_bits_by_parts_or_whole(
    dtype, width, heads, inner
):
    """The last depth is no multiple of a matrix unit's, which then has blocks of many rows."""
    layer = a_layer(width, heads, inner).to(dtype)
    ready, stream = as_answering(layer, dtype), a_stream()
    exact = copy.deepcopy(layer).double()(states(stream, width, dtype=dtype).double(), stream)
    assert error(ready(states(stream, width, dtype=dtype), stream), exact) < WITHIN[dtype]
    assert_few_rows_are_as_among_many(ready, width, dtype)


@torch.no_grad()
def test_a_text_longer_than_a_chunk_is_read_whole():
    layer, stream = a_layer(max_position_embeddings=1024), a_stream([3, 900, 20])
    exact = copy.deepcopy(layer).double()(states(stream).double(), stream)
    assert error(as_answering(layer)(states(stream), stream), exact) < WITHIN[torch.float32]


def test_with_gradients_dropout_and_other_types_it_is_the_definition(monkeypatch):
    layer, stream = as_answering(a_layer()), a_stream()
    given = states(stream)
    monkeypatch.setattr(cpu_layers, "call", lambda *_: pytest.fail("not for these"))
    layer(given, stream).sum().backward()
    with torch.no_grad():
        layer(given, a_stream(dropout=(1, 2)))
        spare = a_stream([5, 27, 143], is_rounded=True)
        assert spare.has_spare_rows
        layer(states(spare), spare)
        with without_native():
            layer(given, stream)
        layer.double()(given.double(), stream)


@torch.no_grad()
def test_weights_that_changed_are_laid_out_anew():
    layer, stream = as_answering(a_layer()), a_stream()
    given = states(stream)
    layer.attention.qkv.weight.mul_(2.0)
    expected = layer(given, stream)
    lay_out(layer)
    assert suits([layer.ready], given, stream, None)
    torch.testing.assert_close(layer(given, stream), expected, atol=1e-5, rtol=1e-5)
    forget(layer)
    assert layer.ready is None


@torch.no_grad()
def test_a_copy_and_a_pickle_have_the_weights_alone():
    layer, stream = as_answering(a_layer()), a_stream()
    stored = io.BytesIO()
    torch.save(layer, stored)
    stored.seek(0)
    for copied in (copy.deepcopy(layer), torch.load(stored, weights_only=False)):
        assert copied.ready is None
        torch.testing.assert_close(
            copied(states(stream), stream), layer(states(stream), stream), atol=1e-5, rtol=1e-5
        )


def test_where_other_products_are_faster_or_alone_possible_each_map_is_laid_out(monkeypatch):
    def goes_this_way(layer):
        lay_out(layer)
        return layer.ready is not None

    assert goes_this_way(a_layer())
    assert goes_this_way(a_layer().bfloat16())
    assert not goes_this_way(a_layer().double())
    assert not goes_this_way(a_layer(30, 2))  # heads of an odd size
    with without_native():
        assert not goes_this_way(a_layer())
    monkeypatch.setattr(
        cpu_layer,
        "has_fast_products",
        lambda _, weight, **asked: weight.dtype == torch.float32,
    )
    assert goes_this_way(a_layer())
    assert not goes_this_way(a_layer().bfloat16())
    maps = [Linear(64, 64) for _ in range(4)]
    assert can_lay_out(maps, 2)
    maps[3].bfloat16()
    assert not can_lay_out(maps, 2)
    layer = a_layer()
    monkeypatch.setattr(cpu_layer, "takes", lambda *_: False)
    lay_out(nn.Sequential(layer, Linear(2, 2)))
    assert layer.ready is None


def test_what_was_measured_and_built_decides_which_products_are_the_faster(monkeypatch):
    monkeypatch.undo()
    single, half = torch.zeros(1), torch.zeros(1).bfloat16()
    is_broad = "-DVECTOR_BYTES=16" not in native.build().options
    assert has_fast_products(FLOAT32_SOURCE, single) is is_broad
    assert library(INT8_SOURCE) is not None  # built for the processor as it is
    for has_amx in (False, True):
        instructions = native.build().instructions
        has_it = ("-mavx512bf16" in instructions, "-mavx512vnni" in instructions)
        found = {"amx_bf16": has_amx, "amx_int8": has_amx, "avx512_vnni": has_it[1]}
        with monkeypatch.context() as changed:
            changed.setattr(torch.cpu, "get_capabilities", lambda it=found: it)
            is_enough = has_tiles() or not has_amx
            assert has_fast_products(SOURCE, half) is (has_it[0] and is_enough)
            for numbers in (single, half):
                fast = has_fast_products(INT8_SOURCE, numbers, of_bytes=True)
                assert fast is (has_it[1] and is_enough)


def test_products_that_no_build_could_have_are_not_built_for(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_vnni": False})
    monkeypatch.setattr(native, "build", functools.cache(Build))
    monkeypatch.setattr(native, "library", lambda _: pytest.fail("something was built"))
    assert not has_fast_products(INT8_SOURCE, torch.zeros(1), of_bytes=True)


@torch.no_grad()
@pytest.mark.parametrize("change", ["in place", "another parameter", "data", "assigned", "norm"])
def test_weights_that_changed_are_noticed(change):
    layer, other, stream = as_answering(a_layer()), a_layer(), a_stream()
    given = states(stream)
    qkv = layer.attention.qkv
    if change == "in place":
        qkv.weight.mul_(2.0)
    elif change == "another parameter":
        qkv.weight = nn.Parameter(2.0 * qkv.weight)
    elif change == "data":
        qkv.weight.data = 2.0 * qkv.weight
    elif change == "assigned":
        doubled = {name: 2.0 * weight for name, weight in other.state_dict().items()}
        layer.load_state_dict(doubled, assign=True)
    else:
        layer.feed_forward.norm.bias.add_(1.0)
    other.load_state_dict(layer.state_dict())
    assert not suits([layer.ready], given, stream, None)
    torch.testing.assert_close(layer(given, stream), other(given, stream), atol=1e-5, rtol=1e-5)


class Doubled(Linear):
    """A map of one's own."""

    def forward(self, rows):
        return 2.0 * super().forward(rows)


def as_doubled(linear):
    doubled = Doubled(linear.in_features, linear.out_features)
    doubled.load_state_dict(linear.state_dict())
    return doubled


REPLACED = {
    "attention": lambda layer: setattr(layer, "attention", a_layer(seed=1).attention),
    "feed forward": lambda layer: setattr(layer, "feed_forward", a_layer(seed=1).feed_forward),
    "map": lambda layer: setattr(layer.feed_forward, "up", a_layer(seed=1).feed_forward.up),
    "map of one's own": lambda layer: setattr(
        layer.feed_forward, "up", as_doubled(layer.feed_forward.up)
    ),
    "norm": lambda layer: setattr(layer.attention, "norm", nn.LayerNorm(64)),
    "epsilon": lambda layer: setattr(layer.feed_forward.norm, "eps", 0.5),
    "activation": lambda layer: setattr(layer.feed_forward, "activation", "tanh"),
    "rules": lambda layer: setattr(
        layer.attention, "rules", replace(layer.attention.rules, direction="left_to_right")
    ),
}


@torch.no_grad()
@pytest.mark.parametrize("replace_in", REPLACED.values(), ids=REPLACED)
def test_parts_that_were_replaced_and_rules_that_changed_are_noticed(replace_in):
    layer, stream = as_answering(a_layer()), a_stream()
    given = states(stream)
    before = layer(given, stream)
    replace_in(layer)
    exact = copy.deepcopy(layer).double()(given.double(), stream)
    assert not suits([layer.ready], given, stream, None)
    assert error(layer(given, stream), exact) < WITHIN[torch.float32]
    lay_out(layer)
    assert error(layer(given, stream), exact) < WITHIN[torch.float32]
    assert error(before, exact) > 1e-3


MISFITTING = {
    "norm": lambda layer: setattr(layer.attention, "norm", nn.LayerNorm(32)),
    "inner": lambda layer: setattr(layer.feed_forward, "up", Linear(64, 32)),
    "input": lambda layer: setattr(layer.attention, "qkv", Linear(128, 192)),
}


@torch.no_grad()
@pytest.mark.parametrize("replace_in", MISFITTING.values(), ids=MISFITTING)
def test_parts_that_do_not_fit_each_other_are_refused_by_the_definition(replace_in):
    layer, stream = a_layer(), a_stream()
    replace_in(layer)
    lay_out(layer.eval())
    with pytest.raises(RuntimeError, match=r"shape|primitive"):  # torch's and oneDNN's words
        layer(states(stream), stream)


@torch.no_grad()
def test_what_is_set_to_what_it_was_changes_nothing():
    layer, stream = as_answering(a_layer()), a_stream()
    layer.feed_forward.norm.eps = float(str(layer.feed_forward.norm.eps))
    layer.attention.rules = replace(layer.attention.rules)
    choose_float16(layer, False)
    assert suits([layer.ready], states(stream), stream, None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_weights_that_an_optimizer_changed_are_noticed(dtype):
    """Its functions write past torch, which counts changes."""
    layer, stream = as_answering(a_layer(), dtype), a_stream()
    optimizer = Optimizer(layer.named_parameters(), OptimizerConfig())
    lay_out(layer)
    given = states(stream, dtype=dtype)
    with torch.no_grad():
        assert suits([layer.ready], given, stream, None)
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step(0.1)
    with torch.no_grad():
        assert not suits([layer.ready], given, stream, None)
        found = layer(given, stream)
        forget(layer)
        assert torch.equal(found, layer(given, stream))


@torch.no_grad()
def test_maps_that_are_laid_out_by_themselves_are_not_passed_over():
    layer, stream = as_answering(a_layer()), a_stream()
    layer.feed_forward.up.take(ZeroWeights())
    assert not suits([layer.ready], states(stream), stream, None)
    forget(layer)
    assert layer.feed_forward.up.own_products is None


class ZeroWeights:
    """As if all were rounded away."""


@torch.no_grad()
def test_no_rows_are_no_states_and_rows_that_are_not_there_are_told():
    layer, stream = as_answering(a_layer()), a_stream()
    given = states(stream)
    nothing = torch.zeros(0, dtype=torch.int64)
    assert layer(given, stream, nothing).shape == (0, 64)
    few = torch.tensor([3, 7], dtype=torch.int32)
    torch.testing.assert_close(
        layer(given, stream, few), layer(given, stream)[3:8:4], atol=1e-5, rtol=1e-5
    )
    for row in (-1, len(given)):
        with pytest.raises(IndexError, match="rows must be 0 to 389"):
            layer(given, stream, torch.tensor([0, row]))


@torch.no_grad()
@pytest.mark.parametrize("width", [20, 24, 36, 312])
def test_nearly_constant_rows_keep_their_digits_in_a_norm(width):
    """What fills the last vector up is no part of a variance."""
    layer, stream = a_layer(width, 2, 40), a_stream()
    for linear in (layer.attention.output, layer.feed_forward.down):
        linear.weight.fill_(0.0)
        linear.bias.copy_(3.3 + 1e-3 * torch.randn(width))
    given = torch.zeros(len(stream.token_ids), width)
    exact = copy.deepcopy(layer).double()(given.double(), stream)
    assert error(as_answering(layer)(given, stream), exact) < 5e-4


@torch.no_grad()
def test_rows_asked_for_of_several_chunks_and_inputs_that_lie_apart():
    layer, stream = as_answering(a_layer()), a_stream(4 * LENGTHS)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        apart = torch.randn(len(stream.token_ids), 128)[:, ::2]
        rows = torch.arange(len(apart) - 1, -1, -3)
        every_other = torch.stack([rows, rows], dim=1).reshape(-1)[::2]
        expected = layer(apart.contiguous(), stream)[rows]
        assert not every_other.is_contiguous()
        assert torch.equal(layer(apart, stream, every_other), expected)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("capability", ["AVX2", "DEFAULT"])
@torch.no_grad()
def test_narrower_vectors_without_products_of_bfloat16_compute_the_same(capability, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    forget_builds()
    try:
        assert all(library(each) is not None for each in (SOURCE, FLOAT32_SOURCE))
        for dtype, within in WITHIN.items():
            for rows in (None, torch.tensor([7, 2, 300])):
                layer, stream = a_layer(72, 3, 100), a_stream()
                given = states(stream, 72, dtype)
                exact = copy.deepcopy(layer.to(dtype)).double()(given.double(), stream, rows)
                assert error(as_answering(layer, dtype)(given, stream, rows), exact) < within
            for inner in (1200, 4800):
                layer, stream = a_layer(72, 3, inner), a_stream()
                given = states(stream, 72, dtype)
                exact = copy.deepcopy(layer.to(dtype)).double()(given.double(), stream)
                ready = as_answering(layer, dtype)
                assert error(ready(given, stream), exact) < within
                assert_few_rows_are_as_among_many(ready, 72, dtype)
    finally:
        forget_builds()
