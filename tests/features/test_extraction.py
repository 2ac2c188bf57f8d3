"""Vectors equal those of a text computed alone, plainly, whatever stands around it."""

import weakref
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from bertsmith.batch import PackedBatch
from bertsmith.checkpoints.store import Loaded
from bertsmith.features import extraction
from bertsmith.features.extraction import readings_of, vectors_of
from bertsmith.features.plan import FeaturePlan
from bertsmith.features.vectors import Text
from bertsmith.fusion import unfused
from bertsmith.inference import Predictor
from bertsmith.model.sentence import DenseConfig, SentenceConfig
from bertsmith.model.stream import Stream
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer
from tests.data.test_windows import best_window_of_the_original, ranges_of_the_original
from tests.model.dense import random_dense
from tests.model.test_pooling import PLAIN

LIMIT = CONFIG.max_position_embeddings
TEXTS = [
    "the dogs was playing .",
    "",
    "my hairy cat likes paris " * 9,
    "a",
    "is the capital of france london ? he likes play " * 4,
    "zzz unknown words .",
]


def predictor_of(sentence=None, dense=None, **changes):
    model = tiny_model(**changes)
    loaded = Loaded(
        model=model,
        config=model.config,
        tokenizer=tiny_tokenizer(),
        directory=Path("tiny"),
        sentence=sentence,
        dense=dense,
        notes=(),
    )
    return Predictor(loaded, tokens_per_batch=40)


@pytest.fixture(scope="module")
def predictor():
    return predictor_of()


def found(predictor, texts=TEXTS, **plan):
    given = (Text(id=str(number), text=text) for number, text in enumerate(texts))
    return list(chain.from_iterable(chunks(given, predictor, FeaturePlan(**plan))))


def chunks(given, predictor, plan):
    for chunk in readings_of(given, predictor, plan):
        yield vectors_of(chunk, predictor, plan)


def plain_states(predictor, ids):
    """(L + 1, n, H) of one sequence alone."""
    stream = Stream.of(PackedBatch.from_padded(np.array([ids])))
    with torch.no_grad(), unfused():
        return torch.stack(predictor.model.bert.hidden_states(stream))


def plain_tokens(predictor, text, plan):
    """(L + 1, n, H): `[CLS]`, each token from its best window, `[SEP]`."""
    tokenizer, limit = predictor.tokenizer, plan.limit(LIMIT, predictor.sentence)
    capacity = limit - 2
    ids = tokenizer.encode(text, add_special_tokens=False).ids.tolist()
    ranges = ranges_of_the_original(len(ids), capacity, plan.step(limit) or 1) or [(0, 0)]
    if plan.long_texts == "truncate":
        ranges, ids = ranges[:1], ids[:capacity]
    windows = [
        plain_states(predictor, [tokenizer.cls_id, *ids[start:end], tokenizer.sep_id])
        for start, end in ranges
    ]
    rows = [windows[0][:, 0]]
    for token in range(len(ids)):
        best = best_window_of_the_original(ranges, token)
        rows.append(windows[best][:, 1 + token - ranges[best][0]])
    return torch.stack([*rows, windows[-1][:, -1]], dim=1)


PLANS = [
    FeaturePlan(),
    FeaturePlan(long_texts="window"),
    FeaturePlan(long_texts="window", stride_tokens=5, max_tokens=11),
    FeaturePlan(max_tokens=7),
]


@pytest.mark.parametrize("plan", PLANS)
def test_token_vectors_equal_each_text_computed_alone(predictor, plan):
    answers = found(predictor, **vars(replace(plan, layers="0,2")))
    assert [answer.text.text for answer in answers] == TEXTS
    for text, answer in zip(TEXTS, answers, strict=True):
        states = plain_tokens(predictor, text, plan)
        expected = torch.cat([states[0], states[2]], dim=1)
        np.testing.assert_allclose(answer.vectors, expected, atol=2e-6)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("pooling", PLAIN)
def test_text_vectors_pool_the_token_vectors_special_ones_included(predictor, plan, pooling):
    answers = found(predictor, **vars(replace(plan, per="text", pooling=pooling)))
    for text, answer in zip(TEXTS, answers, strict=True):
        expected = PLAIN[pooling](plain_tokens(predictor, text, plan)[-1])
        assert answer.vectors.shape == (1, CONFIG.hidden_size)
        # The root of the number of tokens makes numbers as large as 13 of sums in another order.
        np.testing.assert_allclose(answer.vectors[0], expected, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("plan", PLANS)
def test_text_vectors_are_those_that_the_model_was_trained_to_make(plan):
    own = SentenceConfig(pooling=("mean", "cls"), is_normalized=True, max_tokens=9)
    predictor, plan = predictor_of(sentence=own), replace(plan, per="text")
    for text, answer in zip(TEXTS, found(predictor, **vars(plan)), strict=True):
        rows = plain_tokens(predictor, text, plan)[-1]
        expected = torch.cat([rows.mean(dim=0), rows[0]])
        np.testing.assert_allclose(answer.vectors[0], expected / expected.norm(), atol=2e-6)
    if plan.long_texts == "truncate" and not plan.max_tokens:
        answers = found(predictor, **vars(plan))
        expected = predictor.sentence_vectors(TEXTS)
        assert [each.num_unread for each in answers] == [each.num_unread for each in expected]


@pytest.mark.parametrize("plan", PLANS)
def test_text_vectors_go_through_the_models_dense_layer(plan):
    layer = DenseConfig(in_features=2 * CONFIG.hidden_size, out_features=7)
    own = SentenceConfig(pooling=("weightedmean", "lasttoken"), dense=layer, is_normalized=True)
    dense = random_dense(layer)
    predictor = predictor_of(sentence=own, dense=dense)
    answers = found(predictor, **vars(replace(plan, per="text")))
    for text, answer in zip(TEXTS, answers, strict=True):
        rows = plain_tokens(predictor, text, plan)[-1]
        pooled = torch.cat([PLAIN["weightedmean"](rows), rows[-1]])
        with torch.no_grad():
            expected = torch.tanh(dense.linear.weight @ pooled + dense.linear.bias)
        assert answer.vectors.shape == (1, 7)
        np.testing.assert_allclose(answer.vectors[0], expected / expected.norm(), atol=2e-6)
    if plan == FeaturePlan():
        whole = [answer.vectors[0] for answer in answers]
        alone = [each.vector for each in predictor.sentence_vectors(TEXTS)]
        np.testing.assert_allclose(alone, whole, atol=2e-6)


def test_a_pooling_that_is_asked_for_rules_and_other_models_stay_as_they_are():
    own = SentenceConfig(pooling=("cls",), is_normalized=True)
    plain = found(predictor_of(), per="text")
    asked = found(predictor_of(sentence=own), per="text", pooling="mean", is_normalized=False)
    for answer, expected in zip(asked, plain, strict=True):
        np.testing.assert_array_equal(answer.vectors, expected.vectors)
    tokens = found(predictor_of(sentence=own))
    for answer, expected in zip(tokens, found(predictor_of()), strict=True):
        np.testing.assert_array_equal(answer.vectors, expected.vectors)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("pooling", ["first", "mean", "last"])
def test_word_vectors_pool_the_pieces_of_each_word(predictor, plan, pooling):
    answers = found(predictor, **vars(replace(plan, per="word", pooling=pooling)))
    for text, answer in zip(TEXTS, answers, strict=True):
        rows = plain_tokens(predictor, text, plan)[-1][1:-1]
        encoding = predictor.tokenizer.encode(text, add_special_tokens=False)
        words = encoding.words[: len(rows)].tolist()
        expected = []
        for word in dict.fromkeys(words):
            pieces = rows[[number for number, other in enumerate(words) if other == word]]
            expected.append(
                {"first": pieces[0], "mean": pieces.mean(0), "last": pieces[-1]}[pooling]
            )
        assert len(answer.vectors) == len(expected) == len(answer.pieces) == len(answer.spans)
        for vector, other in zip(answer.vectors, expected, strict=True):
            np.testing.assert_allclose(vector, other, atol=2e-6)


def test_tokens_and_words_say_what_they_are_and_where_they_stand(predictor):
    (tokens,) = found(predictor, ["The Dogs, PLAYING zzz"])
    assert tokens.pieces == (
        "[CLS]", "the", "dog", "##s", "[UNK]", "play", "##ing", "[UNK]", "[SEP]"
    )  # fmt: skip
    assert tokens.token_ids.tolist() == [tiny_tokenizer().id_of(piece) for piece in tokens.pieces]
    in_text = [tokens.text.text[start:end] for start, end in tokens.spans.tolist()]
    assert in_text == ["", "The", "Dog", "s", ",", "PLAY", "ING", "zzz", ""]
    (words,) = found(predictor, ["The Dogs, PLAYING zzz"], per="word")
    assert words.pieces == ("The", "Dogs", ",", "PLAYING", "zzz")
    assert words.spans.tolist() == [[0, 3], [4, 8], [8, 9], [10, 17], [18, 21]]


def test_what_is_read_and_not_read_is_counted(predictor):
    num_tokens = [len(tiny_tokenizer().encode(t, add_special_tokens=False).ids) for t in TEXTS]
    for answer, n in zip(found(predictor), num_tokens, strict=True):
        assert (answer.num_tokens, answer.num_unread) == (min(n, 22), max(0, n - 22))
        assert answer.num_windows == 1
    for answer, n in zip(found(predictor, long_texts="window"), num_tokens, strict=True):
        assert (answer.num_tokens, answer.num_unread) == (n, 0)
        assert answer.num_windows == max(1, -(-(n - 22) // 11) + 1)


@pytest.mark.parametrize("per", ["token", "word", "text"])
def test_no_split_of_the_input_changes_a_vector_or_the_order(predictor, per, monkeypatch):
    plan = {"per": per, "long_texts": "window", "stride_tokens": 5}
    expected = found(predictor, **plan)
    monkeypatch.setattr(extraction, "TEXTS_AT_ONCE", 4)
    monkeypatch.setattr(extraction, "CHARACTERS_AT_ONCE", 60)
    monkeypatch.setattr(extraction, "VECTOR_BYTES_AT_ONCE", 4 * CONFIG.hidden_size * 10)
    answers = found(predictor, **plan)
    assert [answer.text for answer in answers] == [other.text for other in expected]
    for answer, other in zip(answers, expected, strict=True):
        np.testing.assert_allclose(answer.vectors, other.vectors, atol=2e-6)
        assert answer.pieces == other.pieces


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float16", torch.float16), ("bfloat16", torch.bfloat16)]
)
def test_half_precision_is_rounded_from_float32_at_the_end(predictor, dtype, kind):
    for plan in ({}, {"per": "word"}, {"per": "text"}):
        exact = found(predictor, **plan)
        for answer, other in zip(found(predictor, dtype=dtype, **plan), exact, strict=True):
            bits = torch.from_numpy(answer.vectors.view(np.int16)).view(kind)
            assert torch.equal(bits, torch.from_numpy(other.vectors).to(kind))


def test_vectors_beyond_float16_are_refused(predictor):
    weights = (9e4, 9e4)
    plan = {"layers": "weighted-sum-all", "weights": weights}
    assert np.isfinite(found(predictor, **plan)[0].vectors).all()
    with pytest.raises(ValueError, match="text '0' has vectors beyond float16's largest number"):
        found(predictor, dtype="float16", **plan)


def test_vectors_that_are_no_numbers_are_refused():
    predictor = predictor_of()
    with torch.no_grad():
        predictor.model.bert.layers[0].attention.output.weight[0] = float("nan")
    with pytest.raises(ValueError, match="the model's vectors are no finite numbers: found NaN"):
        found(predictor)
    assert found(predictor, layers="embeddings")


def test_a_left_to_right_model_has_no_first_token_to_speak_for_a_text():
    predictor = predictor_of()
    predictor.model.config = replace(predictor.model.config, direction="left_to_right")
    with pytest.raises(ValueError, match="choose mean or max"):
        found(predictor, per="text", pooling="cls")


def test_what_is_held_is_bounded_however_long_the_input(predictor, monkeypatch):
    rows_at_once, texts_at_once, num_texts = 64, 10, 300
    monkeypatch.setattr(extraction, "TEXTS_AT_ONCE", texts_at_once)
    monkeypatch.setattr(extraction, "VECTOR_BYTES_AT_ONCE", 4 * CONFIG.hidden_size * rows_at_once)
    num_drawn = 0

    def endless():
        nonlocal num_drawn
        while num_drawn < num_texts:
            num_drawn += 1
            yield Text(id=str(num_drawn), text="the dog " * (num_drawn % 40))

    vectors, most_held, num_done, rows_asked = [], 0, 0, []
    ask = predictor.in_order

    def watched(items, answer):
        rows_asked.append(sum(len(item.token_ids) for item in items))
        return ask(items, answer)

    monkeypatch.setattr(predictor, "in_order", watched)
    for chunk in chunks(endless(), predictor, FeaturePlan()):
        vectors += [weakref.ref(text.vectors) for text in chunk]
        held = [array for array in (reference() for reference in vectors) if array is not None]
        most_held = max(most_held, sum(map(len, held)))
        del held
        num_done += len(chunk)
        assert num_drawn - num_done < texts_at_once
    assert num_done == num_texts
    assert max(rows_asked) <= rows_at_once
    assert sum(rows_asked) > 50 * rows_at_once
    assert most_held <= 2 * rows_at_once  # this chunk, and the one that the loop let go of
