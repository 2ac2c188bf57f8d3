import numpy as np
import pytest
import torch

from bertsmith.features.words import pool_windows, pool_words, text_vectors, word_spans
from bertsmith.model.sentence import DenseConfig, SentenceConfig
from tests.checkpoints.tiny import tiny_tokenizer
from tests.model.dense import random_dense
from tests.model.test_pooling import PLAIN

WORDS = np.array([0, 0, 0, 1, 2, 2], dtype=np.int32)
VECTORS = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))


def test_a_word_is_its_first_or_last_piece_or_their_mean():
    groups = [[0, 1, 2], [3], [4, 5]]
    for pooling, pooled in (
        ("first", [VECTORS[group[0]] for group in groups]),
        ("last", [VECTORS[group[-1]] for group in groups]),
        ("mean", [VECTORS[group].mean(dim=0) for group in groups]),
    ):
        torch.testing.assert_close(pool_words(VECTORS, WORDS, pooling), torch.stack(pooled))


def test_words_of_an_encoding_are_found_in_its_text():
    text = "The DOGS was playing."
    encoding = tiny_tokenizer().encode(text, add_special_tokens=False)
    spans = word_spans(encoding.spans, encoding.words)
    found = [text[start:end] for start, end in spans.tolist()]
    assert found == ["The", "DOGS", "was", "playing", "."]
    assert len(pool_words(torch.randn(len(encoding.ids), 3), encoding.words, "mean")) == 5


@pytest.mark.parametrize("pooling", ["first", "last", "mean"])
def test_no_tokens_are_no_words(pooling):
    nothing = np.zeros(0, dtype=np.int32)
    assert pool_words(torch.zeros(0, 4), nothing, pooling).shape == (0, 4)
    assert word_spans(np.zeros((0, 2), dtype=np.int32), nothing).shape == (0, 2)


def by_place(part, num_before):
    """The mean of rows weighted by their places in the whole."""
    weights = torch.arange(num_before + 1.0, num_before + len(part) + 1)
    return weights @ part / weights.sum()


@pytest.mark.parametrize("pooling", PLAIN)
def test_windows_pool_as_if_all_rows_were_pooled_at_once(pooling):
    parts = torch.split(VECTORS, [3, 1, 2])
    pooled = [PLAIN[pooling](part) for part in parts]
    if pooling == "weightedmean":
        pooled = [by_place(*each) for each in zip(parts, [0, 3, 4], strict=True)]
    found = pool_windows(pooled, [3, 1, 2], (pooling,))
    torch.testing.assert_close(found, PLAIN[pooling](VECTORS))


@pytest.mark.parametrize("layer", [None, DenseConfig(in_features=8, out_features=3)])
def test_poolings_of_windows_lie_side_by_side_and_become_one_vector_together(layer):
    config = SentenceConfig(pooling=("max", "cls"), dense=layer, is_normalized=True)
    dense = random_dense(layer) if layer is not None else None
    pooled = [torch.cat([part.amax(dim=0), part[0]]) for part in torch.split(VECTORS, [4, 2])]
    whole = torch.cat([VECTORS.amax(dim=0), VECTORS[0]])
    expected = dense(whole) if dense is not None else whole
    first, second = text_vectors([pooled, [whole]], [[4, 2], [6]], config, dense)
    torch.testing.assert_close(first, expected / expected.norm())
    torch.testing.assert_close(second, first)
