"""The function of `cpu_embeddings.cpp`, beside the definition in float64."""

import copy
import shutil
from dataclasses import replace

import pytest
import torch

from bertsmith.compiler import without_native
from bertsmith.model import cpu_embeddings
from bertsmith.model.config import BertConfig
from bertsmith.model.embeddings import Embeddings
from bertsmith.model.layer import forget, lay_out
from bertsmith.model.stream import Stream
from tests.builds import forget_builds, with_vectors_of
from tests.model.plain import random_packed

# float32 loses a few of its 24 bits in sums; bfloat16 has 8, and rounds once.
WITHIN = {torch.float32: 1e-6, torch.bfloat16: 4e-3}

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler here")


def some_embeddings(width=72):
    """Laid out for answers."""
    torch.manual_seed(width)
    config = BertConfig(vocab_size=60, hidden_size=width, num_attention_heads=2)
    embeddings = Embeddings(config).eval()
    for parameter in embeddings.parameters():
        torch.nn.init.normal_(parameter)
    lay_out(embeddings)
    return embeddings


def a_stream(lengths=(5, 3, 40, 1, 77, 200), **values):
    return Stream.of(random_packed(list(lengths), vocab_size=60), **values)


@pytest.fixture
def calls(monkeypatch):
    made, call = [], cpu_embeddings.call
    monkeypatch.setattr(cpu_embeddings, "call", lambda *given: [made.append(1), call(*given)][1])
    return made


@torch.no_grad()
@pytest.mark.parametrize("vector_bytes", ["64", "32", "16"])
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("width", [64, 72, 20, 2])
def test_states_are_those_of_the_definition(width, dtype, vector_bytes, calls, monkeypatch):
    with_vectors_of(vector_bytes, monkeypatch)
    try:
        embeddings = some_embeddings(width)
        for table in (embeddings.token, embeddings.segment, embeddings.position):
            table.to(dtype)
        for lengths in ((1,), (5, 3, 40, 1, 77, 200)):
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
    embeddings(stream).sum().backward()
    with torch.no_grad():
        embeddings(a_stream(dropout=(1, 2)))
        with without_native():
            embeddings(stream)
        copy.deepcopy(embeddings).double()(stream)
        mixed = copy.deepcopy(embeddings)
        mixed.segment.bfloat16()
        mixed(stream)
        assert not calls
        embeddings(stream)
        assert calls == [1]
        forget(embeddings)
        embeddings(stream)
        assert calls == [1]


@torch.no_grad()
@pytest.mark.parametrize("name", ["token_ids", "segment_ids", "positions"])
@pytest.mark.parametrize("id", [-1, 600])
def test_an_id_without_a_row_is_told_as_by_the_definition(id, name, calls):
    embeddings, stream = some_embeddings(), a_stream()
    ids = getattr(stream, name).clone()
    ids[7] = id
    with pytest.raises((IndexError, RuntimeError), match=r"index out of range|out of bounds"):
        embeddings(replace(stream, **{name: ids}))
    assert calls == [1]


@torch.no_grad()
def test_ids_and_tables_that_do_not_fit_are_left_to_the_definition(calls):
    embeddings, stream = some_embeddings(), a_stream()
    with pytest.raises(RuntimeError, match="must match"):
        embeddings(replace(stream, segment_ids=stream.segment_ids[:20]))
    embeddings.segment.weight = torch.nn.Parameter(torch.zeros(2, 70))
    with pytest.raises(RuntimeError, match="must match"):
        embeddings(stream)
    assert not calls
