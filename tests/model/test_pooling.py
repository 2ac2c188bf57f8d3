from typing import get_args

import pytest
import torch

from bertsmith.model.pooling import pool_sentences, sentence_vectors
from bertsmith.model.sentence import DenseConfig, Pooling, SentenceConfig
from bertsmith.model.stream import Stream
from tests.model.dense import random_dense
from tests.model.plain import random_packed

LENGTHS = [3, 7, 1, 5]
STREAM = Stream.of(random_packed(LENGTHS, vocab_size=20))
HIDDEN = torch.randn(sum(LENGTHS), 6, generator=torch.Generator().manual_seed(1))
PLAIN = {
    "cls": lambda rows: rows[0],
    "mean": lambda rows: sum(rows) / len(rows),
    "max": lambda rows: rows.max(dim=0).values,
    "mean_sqrt_len_tokens": lambda rows: sum(rows) / len(rows) ** 0.5,
    "weightedmean": lambda rows: (
        sum(place * row for place, row in enumerate(rows, start=1)) / sum(range(len(rows) + 1))
    ),
    "lasttoken": lambda rows: rows[-1],
}


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("pooling", PLAIN)
def test_each_sequence_is_pooled_over_its_own_tokens_alone(pooling, learns):
    with torch.set_grad_enabled(learns):
        found = pool_sentences(HIDDEN, STREAM, (pooling,))
    expected = torch.stack([PLAIN[pooling](rows) for rows in HIDDEN.split(LENGTHS)])
    torch.testing.assert_close(found, expected)


def test_every_pooling_there_is_has_its_plain_definition_here():
    assert PLAIN.keys() == set(get_args(Pooling))


def test_a_token_counts_by_its_place_in_the_text_and_not_in_the_part_of_it():
    first, second = HIDDEN[:3], HIDDEN[3:10]
    (_, found, *_) = pool_sentences(HIDDEN, STREAM, ("weightedmean",), [0, 3, 0, 0])
    whole = PLAIN["weightedmean"](torch.cat([first, second]))
    expected = (whole * sum(range(11)) - PLAIN["weightedmean"](first) * sum(range(4))) / 49
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("config", "plain"),
    [
        (DenseConfig(in_features=12, out_features=4), torch.tanh),
        (DenseConfig(in_features=12, out_features=4, activation="identity"), lambda rows: rows),
        (DenseConfig(in_features=12, out_features=9, has_bias=False), torch.tanh),
    ],
    ids=["tanh", "identity", "no bias"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pooled_states_go_through_the_dense_layer_and_then_to_length_one(config, plain, dtype):
    dense = random_dense(config).to(dtype)
    own = SentenceConfig(pooling=("cls", "mean"), dense=config, is_normalized=True)
    found = sentence_vectors(HIDDEN, STREAM, own, dense)
    pooled = pool_sentences(HIDDEN, STREAM, own.pooling).double()
    inner = pooled @ dense.linear.weight.double().T
    if config.has_bias:
        inner += dense.linear.bias.double()
    expected = plain(inner) / plain(inner).norm(dim=1, keepdim=True)
    assert found.dtype == torch.float32
    assert found.shape == (len(LENGTHS), config.out_features) == (4, own.width(6))
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


def test_several_poolings_lie_side_by_side_in_their_order():
    found = pool_sentences(HIDDEN, STREAM, ("max", "cls"))
    assert torch.equal(found[:, :6], pool_sentences(HIDDEN, STREAM, ("max",)))
    assert torch.equal(found[:, 6:], pool_sentences(HIDDEN, STREAM, ("cls",)))


def test_vectors_have_length_one_where_the_config_says_so():
    plain = sentence_vectors(HIDDEN, STREAM, SentenceConfig())
    unit = sentence_vectors(HIDDEN, STREAM, SentenceConfig(is_normalized=True))
    torch.testing.assert_close(unit.norm(dim=1), torch.ones(len(LENGTHS)))
    torch.testing.assert_close(unit * plain.norm(dim=1, keepdim=True), plain)


@pytest.mark.parametrize("learns", [True, False])
def test_vectors_of_bf16_states_are_float32_and_their_sums_too(learns):
    states = torch.full((4096, 2), 1.01, dtype=torch.bfloat16)
    stream = Stream.of(random_packed([4096], vocab_size=20))
    with torch.set_grad_enabled(learns):
        found = pool_sentences(states, stream, ("mean",))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, states[:1].float(), rtol=1e-5, atol=0)
