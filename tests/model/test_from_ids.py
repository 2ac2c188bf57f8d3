"""When a model looks up what ids bring to its first layer, and what it does where it cannot."""

import copy
import functools
import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from bertsmith.model import cpu_embeddings, cpu_layer, cpu_layers
from bertsmith.model import cpu_token_projections as projections
from bertsmith.model.embeddings import Table
from bertsmith.model.layers import lay_out
from tests.builds import NEEDS_COMPILER, names_of_calls
from tests.model.test_cpu_lone_answers import asked_at_once
from tests.model.test_cpu_token_projections import (
    TOKENS,
    WITHIN,
    a_model,
    a_stream,
    anywhere,
    as_answering,
    error,
    float32_too,
    has_them,
    without,
)

__all__ = ["anywhere", "float32_too"]

pytestmark = NEEDS_COMPILER


@torch.no_grad()
def test_products_of_float32_stay(monkeypatch):
    monkeypatch.setattr(projections, "FLOAT32_SOURCE", cpu_layer.FLOAT32_SOURCE)
    model, stream = a_model(), a_stream()
    for dtype in WITHIN:
        ready = as_answering(model, dtype)
        ready(stream)
        assert has_them(ready) == (dtype == torch.bfloat16)


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("num_layers", [1, 2])
def test_where_the_layer_multiplies_states_are_those_of_two_calls(num_layers, dtype, monkeypatch):
    monkeypatch.setattr(projections, "MOST_BYTES", 0)
    ready, stream = as_answering(a_model(num_hidden_layers=num_layers), dtype), a_stream()
    of_embeddings = names_of_calls(cpu_embeddings, monkeypatch)
    found = ready.hidden_states(stream)
    assert (has_them(ready), of_embeddings) == (False, [])
    without(monkeypatch)
    apart = ready.hidden_states(stream)
    assert of_embeddings == ["embed"]
    assert all(torch.equal(one, other) for one, other in zip(found, apart, strict=True))


@torch.no_grad()
def test_where_the_last_layer_multiplies_rows_that_are_asked_for_are_those_of_all(monkeypatch):
    monkeypatch.setattr(projections, "MOST_BYTES", 0)
    ready, stream = as_answering(a_model()), a_stream()
    of_embeddings, rows = names_of_calls(cpu_embeddings, monkeypatch), torch.tensor([7, 2, 2, 300])
    found = error(ready(stream, rows), ready(stream)[rows].double())
    assert found < WITHIN[torch.float32]
    assert of_embeddings == []


@torch.no_grad()
@pytest.mark.parametrize("most_bytes", [projections.MOST_BYTES, 0], ids=["added up", "multiplied"])
def test_ids_become_states_in_one_call(most_bytes, monkeypatch):
    monkeypatch.setattr(projections, "MOST_BYTES", most_bytes)
    model, stream = as_answering(a_model()), a_stream()
    model(stream)
    of_layers = names_of_calls(cpu_layers, monkeypatch)
    of_embeddings = names_of_calls(cpu_embeddings, monkeypatch)
    model.hidden_states(stream)
    model(stream, stream.first_rows)
    assert (of_layers, of_embeddings) == (["layers", "layers", "layers"], [])


@torch.no_grad()
def test_what_would_take_too_much_memory_is_multiplied(monkeypatch):
    model, stream = a_model(), a_stream()
    of_each = 256 * 4  # columns of a map of 192, in float32
    monkeypatch.setattr(projections, "MOST_BYTES", TOKENS * of_each - 1)
    ready = as_answering(model)
    assert error(ready(stream), copy.deepcopy(model).double()(stream)) < WITHIN[torch.float32]
    assert not has_them(ready)
    monkeypatch.setattr(projections, "MOST_BYTES", TOKENS * of_each)
    ready = as_answering(model)
    ready(stream)
    assert has_them(ready)


def test_threads_that_ask_first_at_the_same_time_wait_for_one(monkeypatch):
    names = names_of_calls(projections, monkeypatch)
    model, stream = a_model(), a_stream()
    with torch.no_grad():
        right = as_answering(model)(stream)
    names.clear()
    for _ in range(20):
        found = asked_at_once(functools.partial(as_answering(model), stream))
        assert names.count("project_tokens") == 1
        names.clear()
        assert all(torch.equal(each, right) for each in found)


def doubled(tensor):
    tensor.mul_(2.0)


def another_table(model):
    table = Table(TOKENS, 64).requires_grad_(False)
    table.weight.copy_(model.embeddings.token.weight * 0.5)
    model.embeddings.token = table


CHANGES = {
    "tokens": lambda model: doubled(model.embeddings.token.weight),
    "segments": lambda model: doubled(model.embeddings.segment.weight),
    "positions": lambda model: doubled(model.embeddings.position.weight),
    "norm": lambda model: doubled(model.embeddings.norm.weight),
    "the norm's bias": lambda model: doubled(model.embeddings.norm.bias),
    "the norm's epsilon": lambda model: setattr(model.embeddings.norm, "eps", 0.5),
    "another table": another_table,
    "map": lambda model: (doubled(model.layers[0].attention.qkv.weight), lay_out(model)),
}


@torch.no_grad()
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_weights_that_changed_bring_something_else(change):
    model, stream = a_model(), a_stream()
    ready = as_answering(model)
    before = ready(stream)
    change(ready)
    change(model)
    found = ready(stream)
    assert has_them(ready)
    assert torch.equal(found, as_answering(model)(stream))
    assert not torch.equal(found, before)


@torch.no_grad()
def test_embeddings_that_are_hooked_into_are_multiplied():
    model, stream = as_answering(a_model()), a_stream()
    before = model(stream)
    hook = model.embeddings.register_forward_hook(lambda module, given, states: states * 2.0)
    exact = copy.deepcopy(model).double()(stream)
    assert error(model(stream), exact) < WITHIN[torch.float32]
    hook.remove()
    assert torch.equal(model(stream), before)


def of_lone_columns(ids):
    """The same numbers, not one behind the other."""
    return ids[:, None].repeat(1, 2)[:, 0]


@torch.no_grad()
@pytest.mark.parametrize("odd", [of_lone_columns, torch.Tensor.int], ids=["apart", "int32"])
def test_ids_that_lie_otherwise_are_left_to_the_definition(odd):
    model, stream = as_answering(a_model()), a_stream()
    right = model(stream)
    other = replace(stream, token_ids=odd(stream.token_ids))
    assert error(model(other), right.double()) < WITHIN[torch.float32]
    assert torch.equal(model(stream), right)


class Halved(nn.Module):
    def forward(self, weight):
        return weight * 0.5


@torch.no_grad()
@pytest.mark.parametrize("part", ["token", "norm"])
def test_weights_that_others_make_are_not_kept(part, monkeypatch):
    model, stream = as_answering(a_model()), a_stream()
    parametrize.register_parametrization(getattr(model.embeddings, part), "weight", Halved())
    names = names_of_calls(projections, monkeypatch)
    exact = copy.deepcopy(model).double()(stream)
    for _ in range(2):
        assert error(model(stream), exact) < WITHIN[torch.float32]
    assert (names, has_them(model)) == ([], False)


@torch.no_grad()
def test_a_table_that_is_two_is_read_as_two(monkeypatch):
    model, stream = a_model(), a_stream()
    model.embeddings.segment = model.embeddings.position
    ready = as_answering(model)
    names = names_of_calls(projections, monkeypatch)
    for _ in range(2):
        assert error(ready(stream), copy.deepcopy(model).double()(stream)) < WITHIN[torch.float32]
    assert names.count("project_tokens") == 1


@torch.no_grad()
def test_a_layer_that_changed_multiplies(monkeypatch):
    model, stream = as_answering(a_model()), a_stream()
    model(stream)
    doubled(model.layers[0].attention.qkv.weight)
    of_layers = names_of_calls(cpu_layers, monkeypatch)
    exact = copy.deepcopy(model).double()(stream)
    assert error(model(stream), exact) < WITHIN[torch.float32]
    assert of_layers == ["layers"]  # the other one


def test_who_learns_multiplies(monkeypatch):
    model, stream = as_answering(a_model()), a_stream()
    of_layers = names_of_calls(cpu_layers, monkeypatch)
    found = model(stream)
    assert found.requires_grad
    assert (of_layers, has_them(model)) == ([], False)


@torch.no_grad()
def test_spare_rows_are_left_to_the_definition():
    model, stream = as_answering(a_model(), torch.bfloat16), a_stream(is_rounded=True)
    assert len(stream.token_ids) > stream.num_tokens
    first, second = model.chosen_states(stream, (1, 2))
    assert not has_them(model)
    model.layers[1].forget()
    for found, right in zip(model.chosen_states(stream, (1, 2)), (first, second), strict=True):
        assert error(found, right.double()) < WITHIN[torch.bfloat16]


@torch.no_grad()
def test_they_are_prepared_before_anybody_asks(monkeypatch):
    model, stream = as_answering(a_model()), a_stream()
    right = as_answering(a_model())(stream)
    model.prepare()
    assert has_them(model)
    names = names_of_calls(projections, monkeypatch)
    assert torch.equal(model(stream), right)
    assert names == []


def test_a_model_that_is_not_laid_out_has_nothing_to_prepare():
    model = a_model()
    model.prepare()
    assert not has_them(model)


@torch.no_grad()
def test_rows_that_are_asked_for_are_those_of_all():
    stream, rows = a_stream(), torch.tensor([0, 5, 8, 8, 389, 100, 3])
    for num_layers in (1, 2):
        model = as_answering(a_model(num_hidden_layers=num_layers))
        some = model(stream, rows)
        assert has_them(model) == (num_layers > 1)
        assert error(some, model(stream)[rows].double()) < WITHIN[torch.float32]


@torch.no_grad()
def test_every_state_is_the_same_whichever_are_asked_for():
    model, stream = as_answering(a_model(), torch.bfloat16), a_stream()
    states = model.hidden_states(stream)
    for number, state in enumerate(states):
        assert torch.equal(model.chosen_states(stream, (number,))[0], state)


@torch.no_grad()
def test_a_copy_keeps_nothing_of_them():
    model, stream = as_answering(a_model()), a_stream()
    right = model(stream)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert not has_them(other)
        lay_out(other)
        assert torch.equal(other(stream), right)


@torch.no_grad()
def test_an_id_that_no_table_has_is_refused_as_ever():
    model, stream = as_answering(a_model()), a_stream()
    right = model(stream)
    wrong = a_stream()
    wrong.token_ids[7] = TOKENS
    with pytest.raises(IndexError):
        model(wrong)
    assert torch.equal(model(stream), right)
