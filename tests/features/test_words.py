import numpy as np
import pytest
import torch

from bertsmith.features.words import pool_windows, pool_words, word_spans
from bertsmith.model.sentence import SentenceConfig
from tests.checkpoints.tiny import tiny_tokenizer

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


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_windows_pool_as_if_all_rows_were_pooled_at_once(pooling):
    def pool(rows):
        return {"cls": rows[0], "mean": rows.mean(dim=0), "max": rows.amax(dim=0)}[pooling]

    parts = torch.split(VECTORS, [3, 1, 2])
    pooled = [pool(part) for part in parts]
    found = pool_windows(pooled, [3, 1, 2], SentenceConfig(pooling=(pooling,)))
    torch.testing.assert_close(found, pool(VECTORS))


def test_poolings_of_windows_lie_side_by_side_and_have_length_one_together():
    config = SentenceConfig(pooling=("max", "cls"), is_normalized=True)
    pooled = [torch.cat([part.amax(dim=0), part[0]]) for part in torch.split(VECTORS, [4, 2])]
    expected = torch.cat([VECTORS.amax(dim=0), VECTORS[0]])
    found = pool_windows(pooled, [4, 2], config)
    torch.testing.assert_close(found, expected / expected.norm())
