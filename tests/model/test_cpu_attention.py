"""The functions of `cpu_attention.cpp`, beside the blocks in float64, which are the definition."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

from bertsmith.compiler import without_native
from bertsmith.model import block_attention, cpu_attention
from bertsmith.model.attention import SelfAttention, attend
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.config import BertConfig
from bertsmith.model.stream import Stream
from tests.builds import NEEDS_COMPILER, forget_builds, with_vectors_of
from tests.model.plain import random_packed

# One token, a vector of 16 and its neighbours, tiles of six rows and what is left of them.
LENGTHS = [5, 16, 1, 17, 33, 15, 70, 12]
DIRECTIONS = ["bidirectional", "left_to_right", "right_to_left"]
# float32 has 24 bits and loses a few in its sums; bfloat16 rounds once, to 1/512 at most.
WITHIN = {torch.float32: 1e-6, torch.bfloat16: 0.003}

pytestmark = NEEDS_COMPILER


def drawn(dtype, hidden, lengths=LENGTHS, scale=1.0):
    """A stream with spare rows and dropout, its (T, 3H) rows and a (T, H) gradient."""
    stream = Stream.of(random_packed(lengths, 60), dropout=(1, 2), is_rounded=True)
    torch.manual_seed(hidden)
    rows = len(stream.token_ids)
    qkv = (scale * torch.randn(rows, 3 * hidden)).to(dtype)
    gradient = torch.randn(rows, hidden).to(dtype)
    gradient[stream.num_tokens :] = 0.0  # nothing reads spare rows
    return stream, qkv, gradient


def contexts_and_gradients(attend, qkv, gradient, stream, rules):
    leaf = qkv.detach().clone().requires_grad_()
    context = attend(leaf, stream.row_keys, stream, rules)
    context.backward(gradient.to(leaf.dtype))
    return context.detach(), leaf.grad


def blocks(qkv, words, stream, rules):
    """`attend` as the definition has it."""
    return block_attention.attend(qkv, words if rules.probability else None, stream, rules)


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(("num_heads", "head_size"), [(3, 8), (2, 20), (2, 64), (1, 80)])
def test_contexts_gradients_and_dropout_are_those_of_the_blocks(
    dtype, direction, probability, num_heads, head_size
):
    rules = AttentionRules(num_heads=num_heads, direction=direction, probability=probability)
    stream, qkv, gradient = drawn(dtype, num_heads * head_size)
    assert stream.has_spare_rows
    found = contexts_and_gradients(attend, qkv, gradient, stream, rules)
    exact = contexts_and_gradients(blocks, qkv.double(), gradient, stream, rules)
    for ours, right in zip(found, exact, strict=True):
        assert ours.dtype == dtype
        assert (ours.double() - right).norm() < WITHIN[dtype] * right.norm()
        assert not ours[stream.num_tokens :].any()


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("probability", [0.0, 0.5])
@pytest.mark.parametrize(
    "rows",
    [[], [0], [5, 0, 21, 20, 6, 22, 168], [*range(5), *range(5), 3, 100, 100, 7], list(range(169))],
    ids=["none", "one", "first ones, unsorted", "some oftener than there are tokens", "all"],
)
def test_rows_that_are_asked_for_are_those_of_the_blocks(rows, dtype, direction, probability):
    rules = AttentionRules(num_heads=2, direction=direction, probability=probability)
    stream, qkv, gradient = drawn(dtype, 40)
    rows = torch.tensor(rows, dtype=torch.int32)
    words, gradient = stream.row_keys if probability else None, gradient[: len(rows)]
    parts = [qkv[:, :40].index_select(0, rows), qkv[:, 40:].contiguous()]
    queries, others = (each.detach().requires_grad_() for each in parts)
    found = cpu_attention.attend_from(queries, others, words, stream, rows, rules)
    found.backward(gradient)

    leaf = qkv.detach().double().requires_grad_()
    exact = blocks(leaf, words, stream, rules).index_select(0, rows)
    exact.backward(gradient.double())
    summed = torch.zeros(len(qkv), 40, dtype=torch.float64)
    summed.index_add_(0, rows, queries.grad.double())
    assert found.dtype == others.grad.dtype == dtype
    for ours, theirs in [
        (found, exact),
        (others.grad, leaf.grad[:, 40:]),
        (summed, leaf.grad[:, :40]),
    ]:
        # A few numbers, whose roundings make up for each other less.
        bound = 2 * WITHIN[dtype] * theirs.norm()
        assert (ours.detach().double() - theirs.detach()).norm() <= bound
    assert not others.grad[stream.num_tokens :].any()


def test_it_is_these_functions_that_attend(monkeypatch):
    called = []
    call = cpu_attention._call
    monkeypatch.setattr(
        cpu_attention, "_call", lambda name, *rest: [called.append(name), call(name, *rest)]
    )
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.1)
    stream, qkv, gradient = drawn(torch.bfloat16, 32)
    contexts_and_gradients(attend, qkv, gradient, stream, rules)
    with torch.inference_mode():
        attend(qkv, None, stream, rules)
    assert called == ["forward", "backward", "forward"]
    with without_native():
        contexts_and_gradients(attend, qkv, gradient, stream, rules)
    assert len(called) == 3


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_neither_neighbours_nor_threads_nor_a_wish_for_gradients_change_a_bit(dtype):
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.1)
    stream, qkv, gradient = drawn(dtype, 32)
    found = contexts_and_gradients(attend, qkv, gradient, stream, rules)
    with torch.no_grad():
        assert torch.equal(attend(qkv, stream.row_keys, stream, rules), found[0])
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        for ours, again in zip(
            found, contexts_and_gradients(attend, qkv, gradient, stream, rules), strict=True
        ):
            assert torch.equal(ours, again)
    finally:
        torch.set_num_threads(threads)
    rows = slice(sum(LENGTHS[:3]), sum(LENGTHS[:4]))  # the fourth sequence alone
    alone = Stream.of(random_packed(LENGTHS[3:4], 60), dropout=(1, 2))
    alone = replace(alone, row_keys=stream.row_keys[rows])
    for ours, again in zip(
        found, contexts_and_gradients(attend, qkv[rows], gradient[rows], alone, rules), strict=True
    ):
        assert torch.equal(ours[rows], again)


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize(
    ("rows", "are_apart"), [([0, 21, 5, 22, 0, 0], True), ([*range(100)], False)]
)
def test_a_sub_layer_that_is_asked_for_few_rows_makes_queries_of_these_alone(
    rows, are_apart, dtype, monkeypatch
):
    """Values and gradients are those of all rows, of which some are taken, with dropout too."""
    apart = []
    attend_from = cpu_attention.attend_from
    monkeypatch.setattr(
        cpu_attention, "attend_from", lambda *given: [apart.append(1), attend_from(*given)][1]
    )
    config = BertConfig(vocab_size=60, hidden_size=40, num_attention_heads=2)
    sub_layer = SelfAttention(config, 1).to(dtype)
    sub_layer.norm.float()
    stream, rows = drawn(dtype, 40)[0], torch.tensor(rows)
    given = torch.randn(len(stream.token_ids), 40).to(dtype)
    slopes = torch.randn(len(rows), 40).to(dtype)

    def computed(hidden, layer):
        leaf = hidden.detach().clone().requires_grad_()
        found = layer(leaf, stream, rows)
        found.backward(slopes.to(found.dtype))
        return [found.detach(), leaf.grad, *(each.grad for each in layer.parameters())]

    exact_layer = copy.deepcopy(sub_layer).double()
    exact = computed(given.double(), exact_layer)  # float64 is the blocks' own
    assert not apart
    found = computed(given, sub_layer)
    assert bool(apart) is are_apart
    for ours, right in zip(found, exact, strict=True):
        # The product, its context, the norm's input: each rounded once more than the bound counts.
        assert (ours.double() - right).norm() < 4 * WITHIN[dtype] * right.norm()


@pytest.mark.parametrize("scale", [30.0, 1e15])
def test_scores_of_any_size_give_probabilities(scale):
    """Of thousands, where all but one weigh nothing, and of 1e30, whose squares are infinite."""
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.0)
    stream, qkv, gradient = drawn(torch.float32, 32, scale=scale)
    context, slopes = contexts_and_gradients(attend, qkv, gradient, stream, rules)
    exact, _ = contexts_and_gradients(blocks, qkv.double(), gradient, stream, rules)
    assert context.isfinite().all()
    assert slopes.isfinite().all()
    # Two nearly equal scores of thousands may differ by a unit in the last place of the larger.
    assert (context.double() - exact).norm() < 1e-2 * exact.norm()


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_broken_number_is_seen_in_its_own_sequence_and_in_no_other(dtype, value):
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.0)
    stream, qkv, _ = drawn(dtype, 32)
    first = LENGTHS[0]
    broken = qkv.clone()
    broken[first, 0] = value  # a query of the second sequence
    with torch.no_grad():
        context, sound = (attend(rows, None, stream, rules) for rows in (broken, qkv))
    assert context[first, :16].isnan().all()
    rest = torch.ones(len(qkv), dtype=torch.bool)
    rest[first] = False
    assert torch.equal(context[rest], sound[rest])


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_a_broken_key_among_large_scores_hides_nothing(dtype):
    """Beside it the highest score may not be found, and others may then lie far above."""
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.1)
    stream, qkv, gradient = drawn(dtype, 32, scale=30.0)
    start = sum(LENGTHS[:6])
    broken = qkv.clone()
    broken[start + 20, 32] = torch.nan  # of the first head
    found, there = contexts_and_gradients(attend, broken, gradient, stream, rules)
    sound, as_before = contexts_and_gradients(attend, qkv, gradient, stream, rules)
    own = torch.zeros(len(qkv), dtype=torch.bool)
    own[start : start + LENGTHS[6]] = True
    assert found[own, :16].isnan().all()
    assert torch.equal(found[own, 16:], sound[own, 16:])
    assert torch.equal(found[~own], sound[~own])
    assert there[own].view(-1, 3, 2, 16)[:, 0, 0].isnan().all()
    assert torch.equal(
        there[own].view(-1, 3, 2, 16)[:, :, 1], as_before[own].view(-1, 3, 2, 16)[:, :, 1]
    )
    assert torch.equal(there[~own], as_before[~own])


def test_what_they_do_not_take_is_left_to_the_blocks(monkeypatch):
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.1)
    stream, qkv, _ = drawn(torch.float32, 32)

    def suits(qkv, stream=stream, rules=rules):
        return cpu_attention.suits(qkv, qkv.shape[1] // 3, stream, rules)

    length = math.ceil(math.sqrt((cpu_attention.MOST_KEYS + 1) * stream.num_tokens))
    many = replace(stream, lengths=np.array([length]))
    for is_best in (False, True):
        monkeypatch.setattr(cpu_attention, "has_fast_products", lambda _, __, it=is_best: it)
        assert suits(qkv)
        assert suits(qkv.bfloat16())
        assert suits(qkv, many)
        assert suits(qkv.bfloat16(), many) is is_best
    assert not suits(qkv.double())
    assert not suits(qkv.half())
    assert not suits(qkv.to("meta"))
    odd = replace(rules, num_heads=32)
    assert suits(qkv, rules=odd)
    assert not suits(qkv.bfloat16(), rules=odd)
    assert not suits(qkv, Stream.of(random_packed([cpu_attention.LONGEST + 1], 60)))
    with without_native():
        assert not suits(qkv)


def test_keys_of_a_query_are_counted_in_the_mean():
    assert Stream.of(random_packed([3, 1], 60)).keys_per_query == (9 + 1) / 4


def test_a_gradient_of_the_gradient_is_refused():
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.0)
    stream, qkv, _ = drawn(torch.float32, 32)
    leaf = qkv.requires_grad_()
    context = attend(leaf, None, stream, rules)
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(context.square().sum(), leaf, create_graph=True)


@pytest.mark.parametrize("vector_bytes", ["16", "32"])
def test_narrower_vectors_give_the_same(vector_bytes, monkeypatch, tmp_path):
    """As for an older processor, and for one of another kind."""
    rules = AttentionRules(num_heads=2, direction="left_to_right", probability=0.1)
    stream, qkv, gradient = drawn(torch.bfloat16, 40)
    here = contexts_and_gradients(attend, qkv, gradient, stream, rules)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with_vectors_of(vector_bytes, monkeypatch)
    try:
        there = contexts_and_gradients(attend, qkv, gradient, stream, rules)
        check_small_probabilities()
    finally:
        forget_builds()
    assert list(tmp_path.glob("bertsmith/cpu_attention-*.so"))
    for ours, theirs in zip(here, there, strict=True):
        # Sums of another order: the next bfloat16 here and there.
        assert (ours.double() - theirs.double()).norm() < 1e-3 * ours.double().norm()


def check_small_probabilities():
    """Of two keys one weighs e^-x times the other: the context is e^-x / (1 + e^-x); 0 past 87."""
    last = torch.tensor([86.99999, 87.0, 87.00001, 88.0, 1e30])
    exponents = torch.cat([torch.linspace(0.0, 86.0, 2001), last])
    stream = Stream.of(random_packed([2] * len(exponents), 60))
    qkv = torch.zeros(len(exponents), 2, 3, 4)  # (N, S, 3, K)
    qkv[:, :, 0, 0] = 2.0  # the square root of K
    qkv[:, 1, 1, 0] = -exponents
    qkv[:, 1, 2, 0] = 1.0
    rules = AttentionRules(num_heads=1, direction="bidirectional", probability=0.0)
    found = attend(qkv.view(-1, 12), None, stream, rules)[::2, 0]
    right = torch.exp(-exponents.double())
    is_nothing = exponents > 87.0
    assert is_nothing.sum() == 3
    assert (found[is_nothing] == 0.0).all()
    found, right = found[~is_nothing], right[~is_nothing]
    # Two units in the last place of e^-x, and one each of the sum, its inverse and the product.
    assert ((found.double() / (right / (1.0 + right)) - 1.0).abs() < 5 * 2.0**-24 + 1e-8).all()


def test_small_probabilities_have_all_their_digits():
    check_small_probabilities()


def test_what_is_no_tensor_of_numbers_is_left_to_the_blocks():
    """A stand-in, with which a model is traced, has none in memory."""
    stream, qkv, _ = drawn(torch.float32, 32)
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.0)
    with FakeTensorMode() as mode:
        assert not cpu_attention.suits(mode.from_tensor(qkv), 32, stream, rules)

    def attended(rows):
        return attend(rows, None, stream, rules)

    with without_native():
        expected = attended(qkv)
    torch.testing.assert_close(torch.jit.trace(attended, qkv)(qkv), expected)
    assert not torch.jit.is_tracing()


def test_what_was_begun_is_ended_under_another_switch():
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.1)
    stream, qkv, gradient = drawn(torch.float32, 32)
    right = contexts_and_gradients(attend, qkv, gradient, stream, rules)[1]
    leaf = qkv.clone().requires_grad_()
    context = attend(leaf, stream.row_keys, stream, rules)
    with without_native():
        context.backward(gradient)
    assert torch.equal(leaf.grad, right)


def test_rows_may_lie_apart():
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.1)
    stream, qkv, gradient = drawn(torch.float32, 32)
    apart = torch.cat([qkv, qkv], dim=1)[:, : qkv.shape[1]]
    assert not apart.is_contiguous()
    with torch.no_grad():
        found, right = (attend(rows, stream.row_keys, stream, rules) for rows in (apart, qkv))
    assert torch.equal(found, right)
    leaf = qkv.clone().requires_grad_()
    context = attend(leaf, stream.row_keys, stream, rules)
    context.backward(gradient.T.contiguous().T)
    assert torch.equal(leaf.grad, contexts_and_gradients(attend, qkv, gradient, stream, rules)[1])
