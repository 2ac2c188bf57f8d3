"""The functions of `cpu_embeddings.cpp`, beside the definition in float64."""

import copy
import functools
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bertsmith.compiler import without_native
from bertsmith.model import cpu_embeddings
from bertsmith.model import embeddings as definition
from bertsmith.model.config import BertConfig
from bertsmith.model.cpu_embeddings import EmbeddingRules, embed_and_learn
from bertsmith.model.embeddings import Embeddings, Table
from bertsmith.model.layers import forget, lay_out
from bertsmith.model.stream import Stream
from tests.builds import NEEDS_COMPILER, forget_builds, names_of_calls, with_vectors_of
from tests.model.plain import random_packed

# float32 loses a few of its 24 bits in sums; bfloat16 has 8, and rounds once.
WITHIN = {torch.float32: 2e-6, torch.bfloat16: 4e-3}
LENGTHS = (5, 3, 40, 1, 77, 200)
TOKENS = sum(LENGTHS)
DROPOUT = (1, 2)
BOTH_WAYS = ["embed", "embed_backward"]

pytestmark = NEEDS_COMPILER


def tables_of(embeddings):
    return embeddings.token, embeddings.segment, embeddings.position


def learning_embeddings(width=72, dtype=torch.float32, **values):
    torch.manual_seed(width)
    given = {"vocab_size": 60, "hidden_size": width, "num_attention_heads": 2, **values}
    embeddings = Embeddings(BertConfig(**given))
    for parameter in embeddings.parameters():
        nn.init.normal_(parameter)
    for table in tables_of(embeddings):
        table.to(dtype)
    return embeddings


def some_embeddings(width=72):
    """Laid out for answers."""
    embeddings = learning_embeddings(width).eval()
    lay_out(embeddings)
    return embeddings


def a_stream(lengths=LENGTHS, **values):
    return Stream.of(random_packed(list(lengths), vocab_size=60), **values)


def learned(embeddings, stream):
    """States, and the gradient of every weight, by name: as it is left."""
    states = embeddings(stream)
    torch.manual_seed(7)
    arrived = torch.randn(states.shape).bfloat16()
    names, weights = zip(*embeddings.named_parameters(), strict=True)
    gradients = torch.autograd.grad(states, weights, arrived.to(states.dtype))
    return {"states": states.detach(), **dict(zip(names, gradients, strict=True))}


def assert_near(found, exact):
    assert found.keys() == exact.keys()
    for name, ours in found.items():
        right = exact[name].to_dense()
        assert ours.shape == right.shape, name
        error = (ours.to_dense().double() - right).norm()
        assert error <= WITHIN[ours.dtype] * right.norm(), name


def assert_equal(found, others):
    assert found.keys() == others.keys()
    for name, ours in found.items():
        assert torch.equal(ours.to_dense(), others[name].to_dense()), name


@pytest.fixture
def calls(monkeypatch):
    """Names of the functions that are called."""
    return names_of_calls(cpu_embeddings, monkeypatch)


@torch.no_grad()
@pytest.mark.parametrize("vector_bytes", ["64", "32", "16"])
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("width", [64, 72, 20, 2])
def test_states_are_those_of_the_definition(width, dtype, vector_bytes, calls, monkeypatch):
    with_vectors_of(vector_bytes, monkeypatch)
    try:
        embeddings = some_embeddings(width)
        for table in tables_of(embeddings):
            table.to(dtype)
        for lengths in ((1,), LENGTHS):
            stream = a_stream(lengths)
            exact = copy.deepcopy(embeddings).double()(stream)
            del calls[:]
            found = embeddings(stream)
            assert calls
            assert found.dtype == dtype
            assert (found.double() - exact).norm() < WITHIN[dtype] * exact.norm()
    finally:
        forget_builds()


def test_what_it_does_not_take_is_left_to_the_definition(calls):
    embeddings, stream = some_embeddings(), a_stream()
    with torch.no_grad():
        embeddings(a_stream(dropout=DROPOUT))
        with without_native():
            embeddings(stream)
        copy.deepcopy(embeddings).double()(stream)
        mixed = copy.deepcopy(embeddings)
        mixed.segment.bfloat16()
        mixed(stream)
        assert not calls
        embeddings(stream)
        assert calls == ["embed"]
        forget(embeddings)
        embeddings(stream)
        assert calls == ["embed"]


@torch.no_grad()
@pytest.mark.parametrize("name", ["token_ids", "segment_ids", "positions"])
@pytest.mark.parametrize("id", [-1, 600])
def test_an_id_without_a_row_is_told_as_by_the_definition(id, name, calls):
    embeddings, stream = some_embeddings(), a_stream()
    ids = getattr(stream, name).clone()
    ids[7] = id
    with pytest.raises((IndexError, RuntimeError), match=r"index out of range|out of bounds"):
        embeddings(replace(stream, **{name: ids}))
    assert calls == ["embed"]


@torch.no_grad()
def test_ids_and_tables_that_do_not_fit_are_left_to_the_definition(calls):
    embeddings, stream = some_embeddings(), a_stream()
    with pytest.raises(RuntimeError, match="must match"):
        embeddings(replace(stream, segment_ids=stream.segment_ids[:20]))
    embeddings.segment.weight = torch.nn.Parameter(torch.zeros(2, 70))
    with pytest.raises(RuntimeError, match="must match"):
        embeddings(stream)
    assert not calls


@pytest.mark.parametrize("vector_bytes", ["64", "32", "16"])
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("width", [64, 72, 20, 2])
def test_states_and_gradients_are_those_of_the_definition(
    width, dtype, vector_bytes, calls, monkeypatch
):
    with_vectors_of(vector_bytes, monkeypatch)
    # Of two numbers a norm leaves nothing but their order, unless epsilon is large.
    values = {"layer_norm_eps": 0.9} if width == 2 else {}
    try:
        embeddings = learning_embeddings(width, dtype, **values)
        dtypes = {name: each.dtype for name, each in embeddings.named_parameters()}
        for lengths in ((1,), LENGTHS):
            for dropout in (None, DROPOUT):
                stream = a_stream(lengths, dropout=dropout)
                exact = learned(copy.deepcopy(embeddings).double(), stream)
                assert not calls
                found = learned(embeddings, stream)
                assert calls == BOTH_WAYS
                assert {name: found[name].dtype for name in dtypes} == dtypes
                assert_near(found, exact)
                del calls[:]
    finally:
        forget_builds()


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("are_sparse", [(True, False, False), (False, True, True)], ids=str)
def test_a_sparse_gradient_holds_the_rows_that_were_looked_up_in_order_and_once(
    are_sparse, dtype, calls
):
    embeddings, stream = learning_embeddings(dtype=dtype), a_stream(dropout=DROPOUT)
    dense = learned(embeddings, stream)
    tables = tables_of(embeddings)
    for table, is_sparse in zip(tables, are_sparse, strict=True):
        table.leaves_sparse_gradients = is_sparse
    found = learned(embeddings, stream)
    assert_equal(found, dense)
    assert calls == BOTH_WAYS * 2
    all_ids = (stream.token_ids, stream.segment_ids, stream.positions)
    names = ("token.weight", "segment.weight", "position.weight")
    for name, ids, is_sparse in zip(names, all_ids, are_sparse, strict=True):
        assert not dense[name].is_sparse
        assert found[name].is_sparse == is_sparse
        if is_sparse:
            assert found[name].is_coalesced()
            assert torch.equal(found[name].indices()[0], ids.unique())


def test_a_sparse_gradient_is_taken_over_as_it_is():
    embeddings = learning_embeddings()
    embeddings.token.leaves_sparse_gradients = True
    stream = replace(a_stream((4,)), token_ids=torch.tensor([7, 3, 7, 49]))
    arrived, weight = [], embeddings.token.weight

    def places(gradient):
        return gradient._indices().data_ptr(), gradient._values().data_ptr()

    weight.register_hook(lambda gradient: arrived.append(places(gradient)))
    embeddings(stream).sum().backward()
    assert weight.grad._indices().tolist() == [[3, 7, 49]]
    assert [places(weight.grad)] == arrived


def test_learning_takes_what_it_works_in_from_memory_whatever_the_default_device(calls):
    embeddings, stream = learning_embeddings(), a_stream(dropout=(1, 2))
    embeddings.token.leaves_sparse_gradients = True
    weights, arrived = list(embeddings.parameters()), torch.randn(len(stream.token_ids), 72)
    right = torch.autograd.grad(embeddings(stream), weights, arrived)
    with torch.device("meta"):
        found = torch.autograd.grad(embeddings(stream), weights, arrived)
    assert calls == BOTH_WAYS * 2
    for ours, theirs in zip(found, right, strict=True):
        assert torch.equal(ours.to_dense(), theirs.to_dense())


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_an_id_of_very_many_rows_is_summed_as_by_the_definition(dtype, calls):
    embeddings, stream = learning_embeddings(dtype=dtype), a_stream([500, 12] * 5)
    stream = replace(stream, segment_ids=torch.ones_like(stream.segment_ids))
    for ids in (torch.full_like(stream.token_ids, 59), stream.token_ids, stream.positions // 9):
        of_ids = replace(stream, token_ids=ids)
        exact = learned(copy.deepcopy(embeddings).double(), of_ids)
        assert_near(learned(embeddings, of_ids), exact)
    assert calls == BOTH_WAYS * 3


@pytest.mark.parametrize("is_sparse", [True, False])
def test_ids_of_many_digits_are_told_apart(is_sparse, calls):
    embeddings = learning_embeddings(4, vocab_size=2**20 + 7)
    embeddings.token.leaves_sparse_gradients = is_sparse
    some = [0, 2**20 + 6, 1023, 1, 2**20, 1024, 2**20 - 1, 1025, 2**10 * 700, 2**10 * 700 + 1]
    ids = torch.tensor(some * 20)[torch.randperm(200)]
    stream = replace(a_stream([200], dropout=DROPOUT), token_ids=ids)
    exact = learned(copy.deepcopy(embeddings).double(), stream)
    assert_near(learned(embeddings, stream), exact)
    assert calls == BOTH_WAYS


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_dropout_masks_are_those_of_the_definition_to_the_bit(rate, calls):
    # What is dropped is one number everywhere.
    embeddings = learning_embeddings(hidden_dropout_prob=rate)
    nn.init.zeros_(embeddings.norm.weight)
    nn.init.constant_(embeddings.norm.bias, 64.0)
    stream = a_stream(dropout=DROPOUT)
    found = embeddings(stream)
    assert calls == ["embed"]
    assert torch.equal(found.double(), copy.deepcopy(embeddings).double()(stream))
    assert (found == 0.0).any() == (rate > 0.0)


def test_states_without_dropout_are_those_of_answers_to_the_bit(calls):
    embeddings, stream = some_embeddings(), a_stream()
    with torch.no_grad():
        answers = embeddings(stream)
    assert torch.equal(embeddings(stream), answers)
    assert calls == ["embed"] * 2


@pytest.mark.parametrize("is_sparse", [True, False])
def test_spare_rows_are_rows_like_others(is_sparse, calls):
    embeddings, stream = learning_embeddings(), a_stream(is_rounded=True, dropout=DROPOUT)
    assert stream.has_spare_rows
    for table in tables_of(embeddings):
        table.leaves_sparse_gradients = is_sparse
    assert_near(learned(embeddings, stream), learned(copy.deepcopy(embeddings).double(), stream))
    assert calls == BOTH_WAYS


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("is_sparse", [True, False])
def test_the_number_of_threads_changes_no_bit(is_sparse, dtype):
    embeddings, stream = learning_embeddings(dtype=dtype), a_stream(LENGTHS * 4, dropout=DROPOUT)
    embeddings.token.leaves_sparse_gradients = is_sparse
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            found.append(learned(embeddings, stream))
    finally:
        torch.set_num_threads(threads)
    for each in found[1:]:
        assert_equal(each, found[0])


def test_a_gradient_that_lies_apart_is_taken_as_it_is(calls):
    embeddings, stream = learning_embeddings(), a_stream()
    weight = embeddings.token.weight
    arrived = torch.randn(TOKENS, 144)[:, ::2]
    apart, together = (
        torch.autograd.grad(embeddings(stream), weight, each)[0]
        for each in (arrived, arrived.contiguous())
    )
    assert torch.equal(apart, together)
    assert calls == BOTH_WAYS * 2


def test_one_way_there_is_gone_back_twice():
    embeddings, stream = learning_embeddings(), a_stream()
    states, weights = embeddings(stream), list(embeddings.parameters())
    once, again = (
        torch.autograd.grad(states, weights, torch.ones_like(states), retain_graph=True)
        for _ in range(2)
    )
    assert all(map(torch.equal, once, again))


@pytest.mark.parametrize("is_sparse", [True, False])
def test_gradients_of_two_parts_of_a_batch_add_up(is_sparse):
    embeddings, stream = learning_embeddings(dtype=torch.bfloat16), a_stream(dropout=DROPOUT)
    embeddings.token.leaves_sparse_gradients = is_sparse
    once = learned(embeddings, stream)
    embeddings.token.weight.grad_dtype = torch.float32  # as for micro-batches
    torch.manual_seed(7)
    arrived = torch.randn(TOKENS, 72).bfloat16()
    for _ in range(2):
        embeddings(stream).backward(arrived)
    for name, each in embeddings.named_parameters():
        assert torch.equal(each.grad.to_dense(), once[name].to_dense().to(each.grad.dtype) * 2)
    assert embeddings.token.weight.grad.dtype == torch.float32


def test_what_is_computed_anew_for_the_way_back_is_the_same(calls):
    embeddings, stream = learning_embeddings(), a_stream(dropout=DROPOUT)
    states, again = embeddings(stream), checkpoint(embeddings, stream, use_reentrant=False)
    assert torch.equal(states, again)
    weights = list(embeddings.parameters())
    found = [torch.autograd.grad(each.sum(), weights) for each in (states, again)]
    assert all(map(torch.equal, *found))
    assert calls.count("embed") == 3


def test_a_gradient_cannot_be_differentiated_again():
    embeddings, stream = learning_embeddings(), a_stream()
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        torch.autograd.grad(embeddings(stream).sum(), embeddings.token.weight, create_graph=True)


@pytest.mark.parametrize(
    "name", ["token.weight", "segment.weight", "position.weight", "norm.weight", "norm.bias"]
)
def test_weights_that_changed_are_not_gone_back_through(name, calls):
    embeddings, stream = learning_embeddings(), a_stream()
    states = embeddings(stream)
    with torch.no_grad():
        embeddings.get_parameter(name).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        states.sum().backward()
    assert calls == ["embed"]


@pytest.mark.parametrize("name", ["token_ids", "segment_ids", "positions", "row_keys"])
def test_ids_and_keys_that_changed_are_not_gone_back_through(name, calls):
    embeddings, stream = learning_embeddings(), a_stream(dropout=DROPOUT)
    states = embeddings(stream)
    getattr(stream, name).zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        states.sum().backward()
    assert calls == ["embed"]


@pytest.mark.parametrize("name", ["token_ids", "segment_ids", "positions"])
@pytest.mark.parametrize("id", [-1, 600])
def test_an_id_without_a_row_is_told_as_by_the_definition_where_it_learns(id, name, calls):
    embeddings, stream = learning_embeddings(), a_stream(dropout=DROPOUT)
    ids = getattr(stream, name).clone()
    ids[7] = id
    with pytest.raises((IndexError, RuntimeError), match=r"index out of range|out of bounds"):
        embeddings(replace(stream, **{name: ids}))
    assert calls == ["embed"]


class Doubled(Table):
    """A table that somebody changed."""

    def forward(self, ids):
        return 2 * super().forward(ids)


class OtherNorm(nn.LayerNorm):
    """A norm that somebody may have changed."""


def hooked(embeddings):
    embeddings.segment.register_forward_hook(lambda *_: None)


def hooked_before(embeddings):
    embeddings.token.register_forward_pre_hook(lambda *_: None)


def hooked_on_the_way_back(embeddings):
    embeddings.norm.register_full_backward_hook(lambda *_: None)


def changed(embeddings):
    embeddings.position.__class__ = Doubled


def with_another_norm(embeddings):
    embeddings.norm.__class__ = OtherNorm


def patched(embeddings):
    embeddings.token.forward = functools.partial(Table.forward, embeddings.token)


def parametrized(embeddings):
    nn.utils.parametrize.register_parametrization(embeddings.token, "weight", nn.Identity())


def in_float64(embeddings):
    embeddings.double()


def in_two_types(embeddings):
    embeddings.segment.bfloat16()


def in_columns(embeddings):
    weight = embeddings.token.weight
    embeddings.token.weight = nn.Parameter(weight.detach().T.contiguous().T)


def norm_in_half(embeddings):
    embeddings.norm.bfloat16()


def frozen(name, embeddings):
    embeddings.get_parameter(name).requires_grad_(False)


@pytest.mark.parametrize(
    "change",
    [
        hooked, hooked_before, hooked_on_the_way_back, changed, with_another_norm, patched,
        parametrized, in_float64, in_two_types, in_columns, norm_in_half,
        *(
            functools.partial(frozen, f"{part}.weight")
            for part in ("token", "segment", "position", "norm")
        ),
        functools.partial(frozen, "norm.bias"),
    ],
)  # fmt: skip
def test_embeddings_that_are_not_as_they_were_go_part_by_part(change, calls):
    embeddings, stream = learning_embeddings(), a_stream(dropout=DROPOUT)
    change(embeddings)
    embeddings(stream).sum().backward()
    assert not calls
    for parameter in embeddings.parameters():
        assert (parameter.grad is not None) == parameter.requires_grad


def test_a_hook_for_all_modules_is_called(calls):
    embeddings, stream, seen = learning_embeddings(), a_stream(), []
    hook = nn.modules.module.register_module_forward_hook(lambda part, *_: seen.append(part))
    try:
        embeddings(stream)
    finally:
        hook.remove()
    assert not calls
    assert embeddings.segment in seen


def test_a_hook_on_the_embeddings_themselves_is_called(calls):
    embeddings, stream, seen = learning_embeddings(), a_stream(), []
    embeddings.register_forward_hook(lambda *_: seen.append("there"))
    learned(embeddings, stream)
    assert seen == ["there"]
    assert calls == BOTH_WAYS


def test_it_takes_no_part_where_nobody_learns_or_nothing_is_built(calls):
    embeddings, stream = learning_embeddings(), a_stream(dropout=DROPOUT)
    with torch.no_grad():
        embeddings(stream)
    with without_native():
        embeddings(stream)
    assert not calls
    embeddings(stream)
    assert calls == ["embed"]


def test_what_is_being_compiled_is_not_asked_about(monkeypatch):
    monkeypatch.setattr(definition, "embed_and_learn", lambda *_: pytest.fail("asked"))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    embeddings, stream = learning_embeddings(), a_stream()
    assert embeddings(stream).shape == (len(stream.token_ids), 72)


def apart(numbers):
    """The same, not one behind the other."""
    return torch.stack([numbers, numbers], 1)[:, 0]


@pytest.mark.parametrize("change", [torch.Tensor.int, apart])
@pytest.mark.parametrize("name", ["token_ids", "segment_ids", "positions"])
def test_ids_that_do_not_lie_as_they_should_are_left_to_the_definition(name, change, calls):
    embeddings, stream = learning_embeddings(), a_stream()
    right = embeddings(stream)
    del calls[:]
    found = embeddings(replace(stream, **{name: change(getattr(stream, name))}))
    assert not calls
    torch.testing.assert_close(found, right)


def test_keys_that_do_not_lie_as_they_should_are_left_to_the_definition(calls):
    embeddings, stream = learning_embeddings(), a_stream(dropout=DROPOUT)
    right = embeddings(stream)
    del calls[:]
    torch.testing.assert_close(embeddings(replace(stream, row_keys=apart(stream.row_keys))), right)
    for keys in (stream.row_keys.long(), stream.row_keys[:20]):
        with pytest.raises((AssertionError, RuntimeError)):
            embeddings(replace(stream, row_keys=keys))
    assert not calls


def test_ids_and_tables_of_other_shapes_are_refused_as_by_the_definition(calls):
    embeddings, stream = learning_embeddings(), a_stream()
    with pytest.raises(RuntimeError, match="must match"):
        embeddings(replace(stream, segment_ids=stream.segment_ids[:20]))
    embeddings.segment.weight = nn.Parameter(torch.zeros(2, 70))
    with pytest.raises(RuntimeError, match="must match"):
        embeddings(stream)
    assert not calls


def test_norms_that_the_definition_does_not_take_either_are_left_to_it(calls):
    embeddings, stream = learning_embeddings(), a_stream()
    weights = [table.weight for table in tables_of(embeddings)]
    rules = EmbeddingRules(epsilon=1e-12, probability=0.1, are_sparse=(False, False, False))
    without_bias, narrow, in_parts = (
        nn.LayerNorm(72, bias=False),
        nn.LayerNorm(70),
        nn.LayerNorm(72),
    )
    in_parts.bias = nn.Parameter(torch.zeros(144)[::2])
    for norm in (without_bias, narrow, in_parts):
        assert embed_and_learn(stream, weights, norm, rules) is None
    assert not calls
    assert embed_and_learn(stream, weights, nn.LayerNorm(72), rules) is not None
