"""The means of `cpu_pooling.cpp` beside the definition in float64, and what is left to torch."""

import pytest
import torch

from bertsmith.model import cpu_pooling
from bertsmith.model.pooling import pool_sentences
from bertsmith.model.stream import Stream
from tests.builds import NEEDS_COMPILER, forget_builds, names_of_calls, with_vectors_of
from tests.model.plain import random_packed

LENGTHS = [5, 1, 200, 5, 5, 64, 3, 512]

WITHIN = 1e-6
"""Of numbers of one sign: 32 sums one behind the other, then at most six, each rounded by 6e-8 at
most, and by half of that in the mean."""

pytestmark = NEEDS_COMPILER


def a_stream(lengths=LENGTHS):
    return Stream.of(random_packed(lengths, vocab_size=20))


def hidden_states(width, dtype=torch.float32):
    drawn = torch.randn(sum(LENGTHS), width, generator=torch.Generator().manual_seed(width))
    return (drawn + 3.0).to(dtype)  # sums that grow: those of both signs would stay small


def exact(hidden, lengths=LENGTHS):
    return torch.stack([rows.double().mean(dim=0) for rows in hidden.split(lengths)])


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [6, 16, 40, 256, 768])
def test_means_are_those_of_the_definition(width, dtype):
    hidden = hidden_states(width, dtype)
    found = cpu_pooling.means(hidden, a_stream())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact(hidden), rtol=WITHIN, atol=0.0)


@torch.no_grad()
@pytest.mark.parametrize("vector_bytes", ["16", "32"])
def test_with_narrower_vectors_too(vector_bytes, monkeypatch):
    with_vectors_of(vector_bytes, monkeypatch)
    try:
        hidden = hidden_states(38)
        found = cpu_pooling.means(hidden, a_stream())
        torch.testing.assert_close(found.double(), exact(hidden), rtol=WITHIN, atol=0.0)
    finally:
        forget_builds()


@torch.no_grad()
def test_a_mean_depends_on_no_other_sequence_and_on_no_threads():
    hidden, threads = hidden_states(40), torch.get_num_threads()
    together = cpu_pooling.means(hidden, a_stream())
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            assert torch.equal(cpu_pooling.means(hidden, a_stream()), together)
    finally:
        torch.set_num_threads(threads)
    for mean, rows, length in zip(together, hidden.split(LENGTHS), LENGTHS, strict=True):
        assert torch.equal(cpu_pooling.means(rows.clone(), a_stream([length]))[0], mean)


def test_texts_of_many_lengths_are_one_call_and_who_learns_takes_torch(monkeypatch):
    names, hidden, stream = names_of_calls(cpu_pooling, monkeypatch), hidden_states(40), a_stream()
    with torch.inference_mode():
        found = pool_sentences(hidden, stream, ("mean", "max"))
    assert names == ["means"]
    learning = hidden.clone().requires_grad_()
    by_torch = pool_sentences(learning, stream, ("mean", "max"))
    by_torch.sum().backward()
    assert names == ["means"]
    assert learning.grad is not None
    torch.testing.assert_close(found, by_torch.detach(), rtol=WITHIN, atol=0.0)


@torch.no_grad()
@pytest.mark.parametrize(
    "changed",
    [lambda hidden: hidden.double(), lambda hidden: hidden.half(), lambda hidden: hidden.t()],
    ids=["float64", "float16", "turned"],
)
def test_what_the_function_does_not_take_is_torchs(changed):
    hidden = hidden_states(40)
    given = changed(hidden)
    given = given if given.shape == hidden.shape else hidden.t().contiguous().t()
    assert cpu_pooling.means(given, a_stream()) is None
    found = pool_sentences(given, a_stream(), ("mean",))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact(given), rtol=WITHIN, atol=0.0)


@torch.no_grad()
def test_spare_rows_are_in_no_mean():
    stream, hidden = Stream.of(random_packed([70, 3], 20), is_rounded=True), hidden_states(40)
    assert stream.has_spare_rows
    hidden = hidden[: len(stream.token_ids)]
    hidden[73:] = torch.nan
    found = cpu_pooling.means(hidden, stream)
    torch.testing.assert_close(found.double(), exact(hidden[:73], [70, 3]), rtol=WITHIN, atol=0.0)
    assert cpu_pooling.means(hidden[:72].clone(), stream) is None


@torch.no_grad()
def test_of_no_sequence_there_is_no_mean():
    assert cpu_pooling.means(torch.empty(0, 40), a_stream([])) is None
