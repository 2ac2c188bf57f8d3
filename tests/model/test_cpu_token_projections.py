"""What ids bring to the first layer, beside the definition in float64."""

import copy
import pickle
import threading

import pytest
import torch
from torch import nn

from bertsmith.answering import make_ready
from bertsmith.model import cpu_embeddings, cpu_layer, cpu_layers
from bertsmith.model import cpu_token_projections as projections
from bertsmith.model.bert import Bert
from bertsmith.model.config import BertConfig
from bertsmith.model.embeddings import Table
from bertsmith.model.int8_weights import multiplies_int8
from bertsmith.model.layer import lay_out
from bertsmith.model.stream import Stream
from bertsmith.native import multiplies_float16
from bertsmith.train.device import choose_float16
from tests.builds import NEEDS_COMPILER, fastest_in, names_of_calls, without_tiles
from tests.model.plain import random_packed

# float32 has 24 bits and loses a few in two layers; bfloat16 has 8, and rounds fifteen times.
WITHIN = {torch.float32: 4e-6, torch.bfloat16: 1.6e-2}
SHAPES = [(64, 2, 100), (24, 2, 52), (312, 12, 1200), (256, 2, 128)]
LENGTHS = [5, 3, 40, 1, 77, 200, 64]
TOKENS = 60

pytestmark = NEEDS_COMPILER


anywhere = fastest_in(cpu_layer, lambda _, weight, **asked: weight.dtype in WITHIN)


@pytest.fixture(autouse=True)
def float32_too(monkeypatch):
    """As if products of float32 were no more exact: it tells smaller errors."""
    monkeypatch.setattr(projections, "SOURCE", None)


def a_model(hidden=64, heads=2, inner=100, **values):
    """All its weights are drawn, those of norms around one."""
    torch.manual_seed(hidden)
    config = BertConfig(
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=inner,
        **{"vocab_size": TOKENS, "num_hidden_layers": 2, "max_position_embeddings": 200, **values},
    )
    model = Bert(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=1.6 * hidden**-0.5)  # scores are as large at every width
    for norm in norms(model):
        nn.init.normal_(norm.weight, mean=1.0, std=0.2)
    return model


def norms(model):
    return [each for each in model.modules() if isinstance(each, nn.LayerNorm)]


def as_answering(model, dtype=torch.float32):
    """A copy in that precision, norms in float32, and laid out."""
    ready = copy.deepcopy(model).to(dtype)
    for norm in norms(ready):
        norm.float()
    lay_out(ready)
    return ready


def a_stream(lengths=LENGTHS, **values):
    return Stream.of(random_packed(lengths, TOKENS, **values))


def has_them(model):
    return model.layers[0]._projections is not None


def error(found, exact):
    assert found.shape == exact.shape
    return float((found.double() - exact).norm() / exact.norm())


def without(monkeypatch):
    """From now on every first layer multiplies its hidden states."""
    monkeypatch.setattr(projections, "answer", lambda made_by: False)


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right", "right_to_left"])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_hidden_states_are_those_of_the_definition(shape, num_layers, direction, dtype):
    model = a_model(*shape, direction=direction, num_hidden_layers=num_layers).to(dtype)
    stream, exact = a_stream(), copy.deepcopy(model).double()
    ready = as_answering(model, dtype)
    assert error(ready(stream), exact(stream)) < WITHIN[dtype]
    assert has_them(ready)


@torch.no_grad()
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_without_a_matrix_unit_too(shape):
    model, stream = a_model(*shape).bfloat16(), a_stream()
    exact = copy.deepcopy(model).double()(stream)
    with without_tiles():
        ready = as_answering(model, torch.bfloat16)
        assert error(ready(stream), exact) < WITHIN[torch.bfloat16]
    assert has_them(ready)


@torch.no_grad()
@pytest.mark.skipif(not multiplies_int8(), reason="this CPU does not multiply int8")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_in_eight_bits_they_are_as_near_as_without(shape, monkeypatch):
    model, stream = a_model(*shape), a_stream()
    exact = copy.deepcopy(model).double()(stream)
    make_ready(model, "int8", torch.device("cpu"))
    found = error(model(stream), exact)
    assert has_them(model)
    without(monkeypatch)
    assert 0.0 < found < 1.1 * error(model(stream), exact)


@torch.no_grad()
@pytest.mark.skipif(not multiplies_float16(), reason="no products of float16 here")
def test_in_float16_they_are_as_near_as_without(monkeypatch):
    model, stream = a_model(), a_stream()
    exact = copy.deepcopy(model).double()(stream)
    choose_float16(model, True)
    lay_out(model)
    found = error(model(stream), exact)
    assert has_them(model)
    without(monkeypatch)
    assert 0.0 < found < 1.1 * error(model(stream), exact)


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_what_a_sequence_becomes_depends_on_no_other_and_on_no_threads(dtype):
    model, stream = as_answering(a_model(), dtype), a_stream()
    together = model(stream)
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            assert torch.equal(model(stream), together)
    finally:
        torch.set_num_threads(threads)
    for start, length in zip(stream.first_rows.tolist(), LENGTHS, strict=True):
        end, alone = start + length, a_stream([length])
        alone.token_ids.copy_(stream.token_ids[start:end])
        alone.segment_ids.copy_(stream.segment_ids[start:end])
        assert torch.equal(model(alone), together[start:end])


def assert_sequences_of_it_are_spoilt(token, found, right, stream):
    """And no others."""
    are_spoilt = []
    for start, length in zip(stream.first_rows.tolist(), LENGTHS, strict=True):
        rows = slice(start, start + length)
        are_spoilt.append(token in stream.token_ids[rows].tolist())
        if are_spoilt[-1]:
            assert found[rows].isnan().all()
        else:
            assert torch.equal(found[rows], right[rows])
    assert {*are_spoilt} == {True, False}


@torch.no_grad()
def test_what_a_token_brings_is_made_once():
    model, stream = as_answering(a_model()), a_stream()
    right, token = model(stream), int(stream.token_ids[0])
    of_tokens = model.layers[0]._projections._held[0]
    of_tokens[token] = torch.nan
    assert_sequences_of_it_are_spoilt(token, model(stream), right, stream)


@torch.no_grad()
def test_products_of_float32_stay(monkeypatch):
    monkeypatch.setattr(projections, "SOURCE", cpu_layer.SOURCE)
    model, stream = a_model(), a_stream()
    for dtype in WITHIN:
        ready = as_answering(model, dtype)
        ready(stream)
        assert has_them(ready) == (dtype == torch.bfloat16)


@torch.no_grad()
def test_ids_become_states_in_one_call(monkeypatch):
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
    ready(stream)
    assert has_them(ready)


def test_threads_that_ask_first_at_the_same_time_wait_for_one(monkeypatch):
    names = names_of_calls(projections, monkeypatch)
    model, stream = a_model(), a_stream()
    with torch.no_grad():
        right = as_answering(model)(stream)
    names.clear()
    for _ in range(20):
        ready, found = as_answering(model), []
        barrier = threading.Barrier(4)

        def ask(ready=ready, found=found, barrier=barrier):
            barrier.wait()
            with torch.no_grad():
                found.append(ready(stream))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(found) == 4
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


@torch.no_grad()
def test_a_token_that_is_no_number_spoils_its_own_sequences_alone():
    model, stream = a_model(), a_stream()
    right = as_answering(model)(stream)
    token = int(stream.token_ids[0])
    model.embeddings.token.weight[token, 5] = torch.nan
    assert_sequences_of_it_are_spoilt(token, as_answering(model)(stream), right, stream)


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
