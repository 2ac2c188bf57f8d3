import math

import numpy as np
import pytest
import torch

from bertsmith.tasks.pseudo_perplexity import chunks, encode, scored, windows
from tests.checkpoints.tiny import tiny_tokenizer
from tests.model.plain import plain_hidden
from tests.tasks.predictors import SENTENCES, predictor_of

TOKENIZER = tiny_tokenizer()
LONG = "the dog likes my cat . he likes playing ? is the dog hairy"


def plain_log_likelihoods(model, ids, rows, targets):
    """The definition: one sequence alone, log-softmax of every row."""
    ids = torch.from_numpy(ids).long()
    with torch.no_grad():
        hidden = plain_hidden(model.bert, ids, torch.zeros_like(ids))
        logits = model.masked_lm(hidden, model.bert.embeddings.token.weight)
    return logits.log_softmax(dim=1)[rows, targets].tolist()


def windows_of(text, limit, direction="bidirectional"):
    questions = encode([text], TOKENIZER, limit)
    return questions[0].token_ids, list(windows(questions, TOKENIZER, limit, direction))


def test_every_token_is_masked_once_with_as_much_before_it_as_behind():
    ids, found = windows_of(LONG, 9)
    assert len(found) == len(ids) == 15
    for place, window in enumerate(found):
        (row,) = window.rows
        body = window.item.token_ids
        assert len(body) == 9
        assert body[row] == TOKENIZER.mask_id
        assert (body == TOKENIZER.mask_id).sum() == 1
        assert window.token_ids.tolist() == [ids[place]]
        before = row - 1
        assert before == 3 or (before < 3 and place == before) or place + (7 - before) == 15
        unmasked = body.copy()
        unmasked[row] = ids[place]
        start = place - before
        assert unmasked.tolist() == [TOKENIZER.cls_id, *ids[start : start + 7], TOKENIZER.sep_id]


def test_a_short_text_is_whole_in_every_window():
    _, found = windows_of("the dog likes", 24)
    assert [window.rows.tolist() for window in found] == [[1], [2], [3]]
    assert all(len(window.item.token_ids) == 5 for window in found)


@pytest.mark.parametrize("limit", [3, 4, 5, 9, 16, 17, 24])
@pytest.mark.parametrize(("direction", "side"), [("left_to_right", 1), ("right_to_left", -1)])
def test_a_model_of_one_side_is_asked_for_every_token_once_in_order(limit, direction, side):
    ids, found = windows_of(LONG, limit, direction)
    assert np.concatenate([window.token_ids for window in found]).tolist() == ids.tolist()
    at_edge = found[0] if side == 1 else found[-1]
    for window in found:
        body, rows = window.item.token_ids, window.rows
        assert len(body) <= limit
        assert body[rows + side].tolist() == window.token_ids.tolist()
        seen = rows.min() if side == 1 else len(body) - 1 - rows.max()
        if window is not at_edge:  # what it may look at, of half a window at least
            assert seen >= (limit - 2) // 2


def test_chunks_bound_the_tokens_that_exist_at_once():
    _, found = windows_of(LONG, 24)
    parts = list(chunks(iter(found), 40))
    assert [window for part in parts for window in part] == found
    assert {len(part) for part in parts[:-1]} == {3}  # of 17 tokens each


def test_answers_are_given_back_to_their_texts():
    questions = encode(["the dog", "a", "he likes playing"], TOKENIZER, 24)
    values = [np.float32([-each]) for each in range(1, 8)]
    found = scored(questions, values)
    assert [answer.log_likelihoods.tolist() for answer in found] == [
        [-1, -2],
        [-3],
        [-4, -5, -6, -7],
    ]
    assert found[0].log_likelihood == -3
    assert found[0].perplexity == pytest.approx(math.exp(1.5))


def test_unknown_tokens_and_windows_are_told():
    short, long = encode(["The zebra likes zzz", LONG], TOKENIZER, 9)
    assert short.num_unknown == 2
    assert not short.is_windowed
    assert long.is_windowed
    assert [short.text[start:end] for start, end in short.spans] == ["The", "zebra", "likes", "zzz"]


def test_a_text_without_a_token_is_refused():
    with pytest.raises(ValueError, match="text 2: '  ' has no token"):
        encode(["the dog", "  "], TOKENIZER, 24)


@pytest.mark.parametrize("tokens_per_batch", [1, 30, 4096])
def test_pseudo_perplexity_masks_each_token_in_turn(tokens_per_batch):
    predictor = predictor_of(tokens_per_batch=tokens_per_batch)
    texts = [text for text in SENTENCES if text]
    for text, answer in zip(texts, predictor.pseudo_perplexity(texts), strict=True):
        ids = predictor.tokenizer.encode(text).ids
        expected = []
        for place in range(1, len(ids) - 1):
            masked = ids.copy()
            masked[place] = predictor.tokenizer.mask_id
            expected += plain_log_likelihoods(predictor.model, masked, [place], [ids[place]])
        assert answer.question.text == text
        assert answer.question.tokens == tuple(predictor.tokenizer.tokenize(text))
        np.testing.assert_allclose(answer.log_likelihoods, expected, atol=1e-5)
        assert answer.perplexity == pytest.approx(math.exp(-np.mean(expected)), rel=1e-5)
        assert answer.log_likelihood == pytest.approx(sum(expected), rel=1e-5)


@pytest.mark.parametrize(("direction", "step"), [("left_to_right", -1), ("right_to_left", 1)])
def test_a_model_of_one_direction_gives_the_ordinary_perplexity(direction, step):
    predictor = predictor_of(f"{direction}_lm", direction=direction)
    (answer,) = predictor.pseudo_perplexity(SENTENCES[:1])
    ids = predictor.tokenizer.encode(SENTENCES[0]).ids
    places = np.arange(1, len(ids) - 1)
    expected = plain_log_likelihoods(predictor.model, ids, places + step, ids[1:-1])
    np.testing.assert_allclose(answer.log_likelihoods, expected, atol=1e-5)


def test_a_long_text_is_judged_token_by_token_in_windows():
    predictor = predictor_of()
    text = " ".join(SENTENCES[:3] * 4)
    (answer,) = predictor.pseudo_perplexity([text])
    ids = predictor.tokenizer.encode(text, add_special_tokens=False).ids
    cls, sep, mask = (getattr(predictor.tokenizer, f"{name}_id") for name in ("cls", "sep", "mask"))
    assert len(ids) == len(answer.log_likelihoods) == 56
    assert answer.question.is_windowed
    for place, start in ((0, 0), (10, 0), (30, 19), (55, 34)):
        masked = ids.copy()
        masked[place] = mask
        window = np.array([cls, *masked[start : start + 22], sep])
        expected = plain_log_likelihoods(predictor.model, window, [place - start + 1], [ids[place]])
        assert answer.log_likelihoods[place] == pytest.approx(expected[0], abs=1e-5)
