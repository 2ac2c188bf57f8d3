"""The functions of `cpu_pooled_scores.cpp`, beside the pooler and a head in float64."""

import contextlib
import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from bertsmith.compiler import without_native
from bertsmith.model import cpu_pooled_scores
from bertsmith.model.bert import Bert
from bertsmith.model.config import sized
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.model.task import TaskHeadConfig
from tests.builds import NEEDS_COMPILER, fastest_in, names_of_calls, without_tiles
from tests.model.plain import random_packed, random_pretrain_batch

# bfloat16 has 8 bits: pooled vectors are rounded, and what comes back to them.
WITHIN = 8e-3
BOTH_WAYS = ["pooled_scores", "pooled_scores_backward"]

pytestmark = NEEDS_COMPILER


anywhere = fastest_in(cpu_pooled_scores)


@pytest.fixture
def calls(monkeypatch):
    """Names of the functions that are called."""
    return names_of_calls(cpu_pooled_scores, monkeypatch)


def a_model(width=64, num_labels=3, dropout=0.1):
    """An encoder of which the pooler alone is asked, and a head, in bfloat16."""
    config = replace(sized(1, width, 1), vocab_size=60)
    labels = tuple(f"label {number}" for number in range(num_labels))
    of_head = TaskHeadConfig(kind="sequence_classification", labels=labels, dropout=dropout)
    torch.manual_seed(width + num_labels)
    bert, head = Bert(config), TaskHead(config, of_head)
    for part in (bert.pooler, head.scores):
        nn.init.normal_(part.weight, std=0.1)
        nn.init.normal_(part.bias, std=0.1)
    return bert.bfloat16(), head.bfloat16()


def a_stream(count=7, dropout=(3, 4)):
    return Stream.of(random_packed([2] * count, 60), dropout=dropout)


def drawn(count, width, seed=1):
    torch.manual_seed(seed)
    return torch.randn(count, width).bfloat16()


def weights_of(bert, head):
    return [*bert.pooler.parameters(), *head.scores.parameters()]


def learned(bert, head, stream):
    """Scores, and gradients of rows and of every weight."""
    weights = weights_of(bert, head)
    count, width = len(stream.first_rows), bert.config.hidden_size
    rows = drawn(count, width).to(weights[0].dtype).requires_grad_()
    scores = head.of_states(bert, [rows], stream)
    given = drawn(*scores.shape, seed=2).to(scores.dtype)
    return [scores.detach(), *torch.autograd.grad(scores, [rows, *weights], given)]


def exact(bert, head, stream):
    return learned(copy.deepcopy(bert).double(), copy.deepcopy(head).double(), stream)


def assert_near(found, right):
    assert [each.shape for each in found] == [each.shape for each in right]
    for ours, theirs in zip(found, right, strict=True):
        assert (ours.double() - theirs).norm() <= WITHIN * theirs.norm()


@pytest.mark.parametrize("way", [contextlib.nullcontext, without_tiles])
@pytest.mark.parametrize("count", [1, 7, 32, 300])
@pytest.mark.parametrize(("width", "num_labels"), [(64, 2), (192, 3), (768, 1), (64, 64)])
def test_values_and_gradients_are_those_of_the_definition(width, num_labels, count, way, calls):
    model, stream = a_model(width, num_labels), a_stream(count)
    right = exact(*model, stream)
    assert not calls
    with way():
        found = learned(*model, stream)
    assert calls == BOTH_WAYS
    assert_near(found, right)
    assert found[0].dtype == torch.float32
    assert {each.dtype for each in found[1:]} == {torch.bfloat16}


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_masks_are_those_of_the_definition_to_the_bit(dropout, calls):
    bert, head = a_model(64, 64, dropout)
    with torch.no_grad():  # each score is one column of a pooled vector that is the same everywhere
        bert.pooler.weight.zero_()
        bert.pooler.bias.fill_(0.5)
        head.scores.weight.copy_(torch.eye(64))
        head.scores.bias.zero_()
    stream, rows = a_stream(), drawn(7, 64)
    found = head.of_states(bert, [rows], stream)
    assert calls
    definition = copy.deepcopy(head).double()
    right = definition.of_states(copy.deepcopy(bert).double(), [rows.double()], stream)
    assert torch.equal(found == 0, right == 0)
    assert (right == 0).any() == (dropout > 0.0)
    torch.testing.assert_close(found.double(), right, rtol=4e-3, atol=0.0)


def test_without_keys_nothing_is_dropped(calls):
    model, stream = a_model(dropout=0.5), a_stream(dropout=None)
    assert_near(learned(*model, stream), exact(*model, stream))
    assert calls == BOTH_WAYS


def test_the_number_of_threads_changes_no_bit(calls):
    model, stream = a_model(192, 5), a_stream(70)
    together, threads = learned(*model, stream), torch.get_num_threads()
    assert calls == BOTH_WAYS
    try:
        for count in (1, 3, 7):
            torch.set_num_threads(count)
            assert all(map(torch.equal, learned(*model, stream), together))
    finally:
        torch.set_num_threads(threads)


def test_a_number_that_is_none_spoils_the_scores_of_its_own_row_alone(calls):
    (bert, head), stream = a_model(), a_stream()
    rows = drawn(7, 64)
    right = head.of_states(bert, [rows], stream)
    assert calls
    rows[3, 5] = float("nan")
    found = head.of_states(bert, [rows], stream)
    assert torch.isnan(found[3]).all()
    others = [0, 1, 2, 4, 5, 6]
    assert torch.equal(found[others], right[others])


def test_one_way_there_is_gone_back_twice_and_not_differentiated_again(calls):
    (bert, head), stream = a_model(), a_stream()
    scores, weights = head.of_states(bert, [drawn(7, 64)], stream), weights_of(bert, head)
    once, again = (torch.autograd.grad(scores.sum(), weights, retain_graph=True) for _ in range(2))
    assert all(map(torch.equal, once, again))
    assert calls == [BOTH_WAYS[0], BOTH_WAYS[1], BOTH_WAYS[1]]
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        torch.autograd.grad(scores.sum(), weights, create_graph=True)


def test_rows_that_lie_apart_or_have_no_gradient_are_taken_as_they_are(calls):
    (bert, head), stream = a_model(), a_stream(7, dropout=(3, 4))
    apart = drawn(7, 128)[:, ::2]
    found = head.of_states(bert, [apart], stream)
    assert torch.equal(found, head.of_states(bert, [apart.contiguous()], stream))
    found.sum().backward()
    assert calls == [BOTH_WAYS[0], *BOTH_WAYS]
    assert bert.pooler.weight.grad.any()


class Twice(nn.Module):
    """Weights that are made of others."""

    def forward(self, weight):
        return 2 * weight


def test_weights_that_are_made_of_others_have_gradients(calls):
    (bert, head), stream = a_model(), a_stream()
    nn.utils.parametrize.register_parametrization(bert.pooler, "weight", Twice())
    assert_near(learned(bert, head, stream), exact(bert, head, stream))
    assert calls == BOTH_WAYS


class Doubled(nn.Linear):
    """A map that somebody changed."""

    def forward(self, input):
        return 2 * super().forward(input)


def hooked_pooler(bert, head):
    bert.pooler.register_forward_hook(lambda *_: None)


def hooked_scores(bert, head):
    head.scores.register_full_backward_hook(lambda *_: None)


def hooked_head(bert, head):
    head.register_forward_hook(lambda *_: None)


def changed(bert, head):
    head.scores.__class__ = Doubled


def patched(bert, head):
    bert.pooler.forward = lambda rows: nn.functional.linear(rows, bert.pooler.weight)


def without_a_bias(bert, head):
    bert.pooler = nn.Linear(64, 64, bias=False).bfloat16()


class OtherHead(TaskHead):
    """One that somebody changed."""

    def forward(self, rows, row_keys=None):
        return 2 * super().forward(rows, row_keys)


def another_head(bert, head):
    head.__class__ = OtherHead


def frozen(bert, head):
    bert.pooler.bias.requires_grad_(False)


def in_float32(bert, head):
    bert.float()
    head.float()


def scores_in_float32(bert, head):
    head.float()


@pytest.mark.parametrize(
    "change",
    [
        hooked_pooler, hooked_scores, hooked_head, changed, patched, without_a_bias, another_head,
        frozen, in_float32, scores_in_float32,
    ],
)  # fmt: skip
def test_maps_that_are_not_as_they_were_go_operator_by_operator(change, calls):
    (bert, head), stream = a_model(), a_stream()
    change(bert, head)
    rows = drawn(7, 64).to(bert.pooler.weight.dtype)
    head.of_states(bert, [rows], stream).sum().backward()
    assert not calls
    assert head.scores.weight.grad is not None


@pytest.mark.parametrize(("width", "num_labels"), [(96, 3), (64, 65)])
def test_what_it_was_not_made_for_goes_operator_by_operator(width, num_labels, calls):
    learned(*a_model(width, num_labels), a_stream())
    assert not calls


def test_it_takes_no_part_where_nobody_learns_or_another_type_is_asked_for(calls):
    (bert, head), stream, rows = a_model(), a_stream(), drawn(7, 64)
    with torch.no_grad():
        head.of_states(bert, [rows], stream)
    with torch.autocast("cpu", torch.bfloat16):
        head.of_states(bert, [rows], stream)
    with without_native():
        head.of_states(bert, [rows], stream)
    assert not calls
    head.of_states(bert, [rows], stream)
    assert calls == BOTH_WAYS[:1]


def test_next_sentences_are_told_by_it_too(calls):
    config = replace(sized(1, 64, 1), vocab_size=60)
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=0.1, seed=1)
    model.bfloat16()
    batch = random_pretrain_batch([5, 9, 3, 20], 60)
    exact = copy.deepcopy(model).double()
    gradients, losses = [], []
    for each in (model, exact):
        found = each(batch)
        found.loss.backward()
        losses.append(found.sums["next_sentence_loss_sum"].double())
        gradients.append([part.weight.grad for part in (each.bert.pooler, each.next_sentence)])
    assert calls == BOTH_WAYS
    torch.testing.assert_close(*losses, rtol=1e-2, atol=0.0)
    for ours, theirs in zip(*gradients, strict=True):
        assert (ours.double() - theirs).norm() <= 5e-2 * theirs.norm()
