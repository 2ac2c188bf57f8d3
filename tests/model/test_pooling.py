import pytest
import torch

from bertsmith.model.pooling import pool_sentences, sentence_vectors
from bertsmith.model.sentence import SentenceConfig
from bertsmith.model.stream import Stream
from tests.model.plain import random_packed

LENGTHS = [3, 7, 1, 5]
STREAM = Stream.of(random_packed(LENGTHS, vocab_size=20))
HIDDEN = torch.randn(sum(LENGTHS), 6, generator=torch.Generator().manual_seed(1))
PLAIN = {
    "cls": lambda rows: rows[0],
    "mean": lambda rows: sum(rows) / len(rows),
    "max": lambda rows: rows.max(dim=0).values,
}


@pytest.mark.parametrize("pooling", PLAIN)
def test_each_sequence_is_pooled_over_its_own_tokens_alone(pooling):
    found = pool_sentences(HIDDEN, STREAM, (pooling,))
    expected = torch.stack([PLAIN[pooling](rows) for rows in HIDDEN.split(LENGTHS)])
    torch.testing.assert_close(found, expected)


def test_several_poolings_lie_side_by_side_in_their_order():
    found = pool_sentences(HIDDEN, STREAM, ("max", "cls"))
    assert torch.equal(found[:, :6], pool_sentences(HIDDEN, STREAM, ("max",)))
    assert torch.equal(found[:, 6:], pool_sentences(HIDDEN, STREAM, ("cls",)))


def test_vectors_have_length_one_where_the_config_says_so():
    plain = sentence_vectors(HIDDEN, STREAM, SentenceConfig())
    unit = sentence_vectors(HIDDEN, STREAM, SentenceConfig(is_normalized=True))
    torch.testing.assert_close(unit.norm(dim=1), torch.ones(len(LENGTHS)))
    torch.testing.assert_close(unit * plain.norm(dim=1, keepdim=True), plain)


def test_vectors_of_bf16_states_are_float32_and_their_sums_too():
    states = torch.full((4096, 2), 1.01, dtype=torch.bfloat16)
    stream = Stream.of(random_packed([4096], vocab_size=20))
    found = pool_sentences(states, stream, ("mean",))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, states[:1].float(), rtol=1e-5, atol=0)
