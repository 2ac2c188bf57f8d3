import warnings

import numpy as np
import pytest
import torch

from bertsmith.model.sentence import DenseConfig, SentenceConfig
from bertsmith.tasks.sentence_vectors import SentenceVector, encode, similar
from tests.checkpoints.tiny import CONFIG, tiny_tokenizer
from tests.model.dense import random_dense
from tests.model.plain import plain_hidden
from tests.tasks.predictors import SENTENCES, predictor_of

TOKENIZER = tiny_tokenizer()


def plain_vector(model, text):
    """The definition: the mean of one text's hidden states, special tokens among them."""
    ids = torch.from_numpy(TOKENIZER.encode(text).ids).long()
    with torch.no_grad():
        return plain_hidden(model.bert, ids, torch.zeros_like(ids)).mean(dim=0).numpy()


def tokens_of(item):
    return [TOKENIZER.token_of(token_id) for token_id in item.token_ids.tolist()]


def test_a_text_stands_between_its_special_tokens():
    items = encode(["the dog", "", "he likes playing"], TOKENIZER, 24)
    assert [tokens_of(item) for item in items] == [
        ["[CLS]", "the", "dog", "[SEP]"],
        ["[CLS]", "[SEP]"],
        ["[CLS]", "he", "likes", "play", "##ing", "[SEP]"],
    ]
    assert all(item.num_unread == 0 and not item.segment_ids.any() for item in items)


def test_a_long_text_keeps_its_beginning_and_the_rest_is_counted():
    (item,) = encode(["the dog likes my cat ."], TOKENIZER, 5)
    assert tokens_of(item) == ["[CLS]", "the", "dog", "likes", "[SEP]"]
    assert item.num_unread == 3


def test_a_special_token_in_a_text_is_ordinary_characters():
    (item,) = encode(["the [SEP] dog"], TOKENIZER, 24)
    assert (item.token_ids == TOKENIZER.sep_id).sum() == 1


def test_likeness_is_the_cosine_and_unread_tokens_of_both_add_up():
    first = SentenceVector(vector=np.array([0.6, 0.8], np.float32), num_unread=2)
    second = SentenceVector(vector=np.array([0.0, 1.0], np.float32), num_unread=3)
    found = similar(first, second)
    assert found.cosine == pytest.approx(0.8)
    assert found.num_unread == 5


@pytest.mark.parametrize("tokens_per_batch", [1, 16, 4096])
def test_sentence_vectors_are_the_mean_of_each_texts_own_tokens(tokens_per_batch):
    predictor = predictor_of(tokens_per_batch=tokens_per_batch)
    vectors = predictor.embed(SENTENCES)
    assert vectors.dtype == np.float32
    expected = [plain_vector(predictor.model, text) for text in SENTENCES]
    np.testing.assert_allclose(vectors, expected, atol=2e-6)


def test_a_sentence_models_own_way_is_taken_unless_overruled():
    own = SentenceConfig(pooling=("cls", "max"), is_normalized=True)
    predictor = predictor_of(sentence=own)
    vectors = predictor.embed(SENTENCES)
    assert vectors.shape == (len(SENTENCES), 2 * CONFIG.hidden_size)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    overruled = predictor.embed(SENTENCES, pooling="mean", is_normalized=False)
    np.testing.assert_allclose(overruled, predictor_of().embed(SENTENCES), atol=1e-6)


@pytest.mark.parametrize("pooling", ["cls", "lasttoken"])
def test_a_sentence_models_dense_layer_is_followed_unless_overruled(pooling):
    layer = DenseConfig(in_features=CONFIG.hidden_size, out_features=7)
    own, dense = SentenceConfig(pooling=(pooling,), dense=layer), random_dense(layer)
    predictor = predictor_of(sentence=own, dense=dense)
    pooled = predictor.embed(SENTENCES, pooling=pooling)
    np.testing.assert_allclose(pooled, predictor_of().embed(SENTENCES, pooling=pooling), atol=1e-6)
    with torch.no_grad():
        expected = dense(torch.from_numpy(pooled)).numpy()
    np.testing.assert_allclose(predictor.embed(SENTENCES), expected, atol=2e-6)
    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(predictor.embed(SENTENCES, is_normalized=True), unit, atol=2e-6)
    assert predictor.embed([]).shape == (0, 7)
    assert predictor.embed([], pooling="mean").shape == (0, CONFIG.hidden_size)


@pytest.mark.parametrize("pooling", ["cls", "lasttoken"])
@pytest.mark.parametrize("is_normalized", [False, True])
def test_one_tokens_vector_alone_is_the_one_among_all(pooling, is_normalized):
    predictor = predictor_of()
    alone = predictor.embed(SENTENCES, pooling=pooling, is_normalized=is_normalized)
    both = predictor_of(sentence=SentenceConfig(pooling=(pooling, "mean"))).embed(SENTENCES)
    expected = both[:, : CONFIG.hidden_size]
    if is_normalized:
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(alone, expected, atol=2e-6)


def test_what_a_sentence_vector_leaves_out_is_counted_and_warned_of():
    predictor = predictor_of(sentence=SentenceConfig(max_tokens=6))
    texts = ["the dog likes my cat .", "the dog"]
    assert [each.num_unread for each in predictor.sentence_vectors(texts)] == [2, 0]
    with pytest.warns(UserWarning, match="1 of 1 text was longer than the 6 tokens"):
        predictor.embed(texts[:1])
    with pytest.warns(UserWarning, match="1 of 2 texts were longer than the 6 tokens"):
        vectors = predictor.embed(texts)
    expected = plain_vector(predictor.model, "the dog likes my")
    np.testing.assert_allclose(vectors[0], expected, atol=2e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictor.embed(texts[1:])


def test_similarity_is_the_cosine_of_the_two_vectors():
    predictor = predictor_of(sentence=SentenceConfig(max_tokens=7))
    pairs = [("the dog", "a cat"), ("a cat", "a cat"), ("the dog", "the dog likes my cat . a")]
    answers = predictor.similarity(pairs)
    for (first, second), answer in zip(pairs, answers, strict=True):
        one, other = (each.vector for each in predictor.sentence_vectors([first, second]))
        cosine = one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
        assert answer.cosine == pytest.approx(float(cosine), abs=1e-6)
    assert answers[1].cosine == pytest.approx(1, abs=1e-6)
    assert [answer.num_unread for answer in answers] == [0, 0, 2]
