"""What ids bring to the first layer, beside the definition in float64."""

import copy

import pytest
import torch
from torch import nn

from bertsmith.answering import make_ready
from bertsmith.model import cpu_layer
from bertsmith.model import cpu_token_projections as projections
from bertsmith.model.bert import Bert
from bertsmith.model.config import BertConfig
from bertsmith.model.int8_weights import multiplies_int8
from bertsmith.model.layers import lay_out
from bertsmith.model.stream import Stream
from bertsmith.native import multiplies_float16
from bertsmith.train.device import choose_float16
from tests.builds import (
    NEEDS_COMPILER,
    fastest_in,
    forget_builds,
    has_tiles,
    with_vectors_of,
    without_tiles,
)
from tests.model.plain import random_packed

# float32 has 24 bits and loses a few in two layers; bfloat16 has 8, and rounds fifteen times.
WITHIN = {torch.float32: 4e-6, torch.bfloat16: 1.6e-2}
# Panels and vectors that are not whole among them, and rows in bands where there is a matrix unit.
SHAPES = [(64, 2, 100), (24, 2, 52), (312, 12, 1200), (256, 2, 128), (384, 6, 1536)]
LENGTHS = [5, 3, 40, 1, 77, 200, 64]
TOKENS = 60

pytestmark = NEEDS_COMPILER


anywhere = fastest_in(cpu_layer, lambda _, weight, **asked: weight.dtype in WITHIN)


@pytest.fixture(autouse=True)
def float32_too(monkeypatch):
    """As if products of float32 were no more exact: it tells smaller errors."""
    monkeypatch.setattr(projections, "FLOAT32_SOURCE", None)


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
    return Stream.of(random_packed(lengths, TOKENS), **values)


def has_them(model):
    found = model.layers[0]._projections
    return found is not None and found.are_made


def error(found, exact):
    assert found.shape == exact.shape
    return float((found.double() - exact).norm() / exact.norm())


def without(monkeypatch):
    """From now on every first layer multiplies its hidden states."""
    monkeypatch.setattr(projections, "is_answering", lambda embeddings: False)


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
@pytest.mark.parametrize("vector_bytes", ["16", "32"])
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_with_narrower_vectors_too(dtype, vector_bytes, monkeypatch):
    with_vectors_of(vector_bytes, monkeypatch)
    try:
        model, stream = a_model(24, 2, 52).to(dtype), a_stream()
        ready = as_answering(model, dtype)
        assert error(ready(stream), copy.deepcopy(model).double()(stream)) < WITHIN[dtype]
        assert has_them(ready)
    finally:
        forget_builds()


@torch.no_grad()
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.skipif(not has_tiles(), reason="there is no matrix unit")
def test_without_a_matrix_unit_too(shape):
    model, stream = a_model(*shape).bfloat16(), a_stream()
    exact = copy.deepcopy(model).double()(stream)
    with without_tiles():
        ready = as_answering(model, torch.bfloat16)
        assert error(ready(stream), exact) < WITHIN[torch.bfloat16]
    assert has_them(ready)


@torch.no_grad()
@pytest.mark.skipif(not multiplies_int8(), reason="this CPU does not multiply int8")
@pytest.mark.parametrize("shape", [*SHAPES, (768, 12, 3072)], ids=str)
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
def test_a_token_that_is_no_number_spoils_its_own_sequences_alone():
    model, stream = a_model(), a_stream()
    right = as_answering(model)(stream)
    token = int(stream.token_ids[0])
    model.embeddings.token.weight[token, 5] = torch.nan
    assert_sequences_of_it_are_spoilt(token, as_answering(model)(stream), right, stream)
