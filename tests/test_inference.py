import copy
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from bertsmith import packing
from bertsmith.batch import PackedBatch
from bertsmith.checkpoints import store
from bertsmith.fusion import unfused
from bertsmith.inference import Predictor
from bertsmith.model.stream import Stream
from bertsmith.tasks.fill_mask import encode
from bertsmith.text.tokenizer import Tokenizer
from tests.checkpoints.tiny import CONFIG, VOCABULARY, tiny_model, tiny_tokenizer
from tests.tasks.predictors import SENTENCES, bare_encoder, predictor_of

TEXTS = [
    "paris is the [MASK] of france .",
    "[MASK]",
    "my [MASK] is [MASK] ?",
    "the dog likes the cat . he likes play [MASK] . is the dog hairy ? my dog was .",
]
PAIRS = [
    ("my dog", "he likes playing ."),
    ("the capital of france is paris . london was", "the dog"),
    ("a", "a"),
]
LONG = "the dog likes the cat . " * 6
MANY = [f"{text} my dog is [MASK]" for text in TEXTS] * 20 + [f"{LONG}[MASK]"]
QUESTIONS = {
    "fill_mask": lambda p: [[c.probability for c in f.masks[-1]] for f in p.fill_mask(MANY)],
    "next_sentence": lambda p: [each.probability for each in p.next_sentence(PAIRS * 40)],
    "embed": lambda p: p.embed(MANY),
    "pseudo_perplexity": lambda p: [each.perplexity for each in p.pseudo_perplexity(MANY)],
}


def plain_distributions(predictor, text):
    """The definition: one text alone, every row's logits, softmax over the vocabulary."""
    (question,) = encode([text], predictor.tokenizer, CONFIG.max_position_embeddings)
    (window,) = question.windows
    # A copy: it takes the weights as they are, not as they were laid out.
    model, ids = copy.deepcopy(predictor.model), window.item.token_ids
    stream = Stream.of(PackedBatch.from_padded(ids[None], None, window.item.segment_ids[None]))
    with torch.no_grad(), unfused():
        logits = model.masked_lm(model.bert(stream), model.bert.embeddings.token.weight)
    return logits.softmax(1)[torch.from_numpy(ids == predictor.tokenizer.mask_id)]


@pytest.mark.parametrize("tokens_per_batch", [1, 16, 4096])
def test_every_text_gets_its_own_answer_in_the_order_asked(tokens_per_batch):
    predictor = predictor_of(tokens_per_batch=tokens_per_batch)
    answers = predictor.fill_mask(TEXTS, top_k=len(VOCABULARY))
    for text, answer in zip(TEXTS, answers, strict=True):
        assert answer.question.text == text
        expected = plain_distributions(predictor, text)
        assert len(answer.masks) == len(expected) == text.count("[MASK]")
        for candidates, distribution in zip(answer.masks, expected, strict=True):
            found = {c.token: c.probability for c in candidates}
            assert found == pytest.approx(
                dict(zip(VOCABULARY, distribution.tolist(), strict=True)), abs=1e-6
            )


def test_candidates_come_likeliest_first_and_top_k_of_them():
    (answer,) = predictor_of().fill_mask(TEXTS[:1], top_k=3)
    (candidates,) = answer.masks
    everything = plain_distributions(predictor_of(), TEXTS[0])[0]
    assert [c.token_id for c in candidates] == everything.topk(3).indices.tolist()
    assert candidates[0].token == VOCABULARY[candidates[0].token_id]


def test_rows_behind_the_vocabulary_are_no_candidates():
    predictor = predictor_of()
    predictor.tokenizer = Tokenizer(VOCABULARY[:-3])  # as where a model's rows are padded
    (answer,) = predictor.fill_mask(TEXTS[:1], top_k=len(VOCABULARY))
    (candidates,) = answer.masks
    assert {candidate.token for candidate in candidates} == set(VOCABULARY[:-3])
    assert sum(candidate.probability for candidate in candidates) == pytest.approx(1)


def test_targets_alone_are_judged_with_their_probability_among_all():
    predictor = predictor_of()
    (answer,) = predictor.fill_mask(TEXTS[:1], top_k=1, targets=["Paris", "dog", "##ing"])
    everything = plain_distributions(predictor, TEXTS[0])[0]
    (candidates,) = answer.masks
    assert {c.token for c in candidates} == {"paris", "dog", "##ing"}
    for candidate in candidates:
        assert candidate.probability == pytest.approx(everything[candidate.token_id].item(), 1e-4)
    probabilities = [c.probability for c in candidates]
    assert probabilities == sorted(probabilities, reverse=True)


def test_next_sentence_is_the_first_class_of_the_pooled_vector():
    predictor = predictor_of()
    answers = predictor.next_sentence(PAIRS)
    model, tokenizer = predictor.model, predictor.tokenizer
    for pair, answer in zip(PAIRS, answers, strict=True):
        encoding = tokenizer.encode(*pair)
        stream = Stream.of(
            PackedBatch.from_padded(encoding.ids[None], None, encoding.segments[None])
        )
        with torch.no_grad(), unfused():
            logits = model.next_sentence(model.bert.pool(model.bert(stream), stream))
        assert answer.probability == pytest.approx(logits.softmax(1)[0, 0].item(), abs=1e-6)


def test_what_does_not_fit_is_counted():
    predictor = predictor_of()
    filled, follows = (
        predictor.fill_mask([f"[MASK] {'dog ' * 40}"])[0],
        predictor.next_sentence([("dog " * 40, "cat")])[0],
    )
    assert filled.num_unread == 41 - (CONFIG.max_position_embeddings - 2)
    assert follows.num_unread == 41 - (CONFIG.max_position_embeddings - 3)


def test_a_model_without_the_head_says_what_it_was_trained_for():
    with pytest.raises(ValueError, match="pre-trained for masked_lm only; this needs a model"):
        predictor_of("masked_lm").next_sentence(PAIRS)
    with pytest.raises(ValueError, match="pre-trained for left_to_right_lm only"):
        predictor_of("left_to_right_lm", direction="left_to_right").fill_mask(TEXTS)


def test_a_model_of_one_segment_refuses_pairs_and_answers_all_else():
    predictor = predictor_of(model=tiny_model(type_vocab_size=1))
    for ask in (lambda: predictor.next_sentence(PAIRS), lambda: predictor.look(*PAIRS[0])):
        with pytest.raises(ValueError, match=r"type_vocab_size 1.* ask of one text at a time"):
            ask()
    assert predictor.look(PAIRS[0][0]).question.tokens[1:3] == ("my", "dog")
    assert len(predictor.similarity(PAIRS)) == len(PAIRS)
    assert len(predictor.fill_mask(TEXTS)) == len(TEXTS)


def test_an_encoder_without_heads_makes_vectors_and_says_what_it_cannot_do():
    predictor = predictor_of(model=bare_encoder())
    assert predictor.embed(SENTENCES).shape == (len(SENTENCES), CONFIG.hidden_size)
    with pytest.raises(
        ValueError, match=r"tiny holds no pre-training head; this needs .* for masked_lm$"
    ):
        predictor.fill_mask(TEXTS)
    with pytest.raises(ValueError, match="for masked_lm or left_to_right_lm or right_to_left_lm"):
        predictor.pseudo_perplexity(SENTENCES[:1])


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_read_is_told_as_a_share_that_rises_to_the_whole(question):
    predictor, shares = predictor_of(tokens_per_batch=64), []
    predictor.watch = shares.append
    QUESTIONS[question](predictor)
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]
    assert shares[-1] == pytest.approx(1)


def test_no_questions_get_no_answers():
    assert predictor_of().fill_mask([]) == []
    assert predictor_of().next_sentence([]) == []
    assert predictor_of().embed([]).shape == (0, CONFIG.hidden_size)
    assert predictor_of().similarity([]) == []
    assert predictor_of().pseudo_perplexity([]) == []


def test_top_k_below_one_is_refused():
    with pytest.raises(ValueError, match="top_k must be at least 1, found 0"):
        predictor_of().fill_mask(TEXTS, top_k=0)


def test_the_public_names_are_those_of_their_rooms():
    import bertsmith

    assert bertsmith.Predictor is Predictor
    assert set(bertsmith.__all__) <= set(dir(bertsmith))
    assert all(getattr(bertsmith, name).__name__ == name for name in bertsmith.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Bort'"):
        _ = bertsmith.Bort


@pytest.mark.parametrize("question", QUESTIONS)
def test_two_threads_answer_as_one(question, monkeypatch):
    expected = QUESTIONS[question](predictor_of())
    monkeypatch.setattr(packing, "_FEWEST_TOKENS_PER_BATCH", 16)
    threads, unfused_ = set(), packing.unfused

    def noting(condition):
        threads.add(threading.get_ident())
        return unfused_(condition)

    monkeypatch.setattr(packing, "unfused", noting)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = QUESTIONS[question](predictor_of())
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert threading.get_ident() not in threads


BROKEN = {
    "fill_mask": lambda p: p.fill_mask(TEXTS),
    "next_sentence": lambda p: p.next_sentence(PAIRS),
    "embed": lambda p: p.embed(SENTENCES),
    "embed, first token": lambda p: p.embed(SENTENCES, pooling="cls"),
    "similarity": lambda p: p.similarity(PAIRS),
    "pseudo_perplexity": lambda p: p.pseudo_perplexity(SENTENCES[:1]),
    "look": lambda p: p.look(SENTENCES[0]),
}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("question", BROKEN)
def test_weights_that_are_no_numbers_give_an_error_and_no_answer(question, value):
    predictor = predictor_of()
    with torch.no_grad():
        predictor.model.bert.layers[-1].feed_forward.down.weight[0] = value
    with pytest.raises(ValueError, match=r"are no finite numbers: found (NaN|infinity); the weig"):
        BROKEN[question](predictor)


def test_a_far_mask_is_answered_from_the_window_around_it():
    predictor = predictor_of()
    text = f"my [MASK] likes {'the dog ' * 20}is [MASK] ."
    (answer,) = predictor.fill_mask([text], top_k=len(VOCABULARY))
    ids = predictor.tokenizer.encode(
        text, add_special_tokens=False, special_tokens_in_text=True
    ).ids
    room = CONFIG.max_position_embeddings - 2
    for candidates, near in zip(answer.masks, (ids[:room], ids[-room:]), strict=True):
        alone = " ".join(map(predictor.tokenizer.token_of, near))
        (expected,) = plain_distributions(predictor, alone)
        found = {each.token_id: each.probability for each in candidates}
        assert found == pytest.approx(dict(enumerate(expected.tolist())), abs=1e-6)
    assert answer.num_unread == len(ids) - 2 * room
    assert answer.filled.count("[MASK]") == 0


@pytest.mark.parametrize("ask", [Predictor.embed, Predictor.sentence_vectors, Predictor.similarity])
def test_the_first_token_of_a_left_to_right_model_stands_for_no_text(ask):
    predictor = predictor_of("left_to_right_lm", direction="left_to_right")
    given = PAIRS if ask is Predictor.similarity else SENTENCES
    with pytest.raises(ValueError, match="has seen nothing but itself: choose mean"):
        ask(predictor, given, pooling="cls")
    assert len(ask(predictor, given, pooling="max")) == len(given)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_model_loaded_before_a_fork_answers_after_it(tmp_path):
    """As behind a server that forks its workers; without the end they would wait for ever."""
    store.save(tmp_path / "model", tiny_model(), CONFIG, tiny_tokenizer())
    code = """
import os, signal, sys, torch
from bertsmith import Predictor
torch.set_num_threads(2)
predictor = Predictor.load(sys.argv[1])
predictor.embed(["the dog"] * 50)
torch.ones(1_000_000).exp()
child = os.fork()
if child == 0:
    signal.alarm(600)
    torch.ones(1_000_000).exp()
    os._exit(0 if predictor.embed(["the dog"] * 50).shape[0] == 50 else 1)
sys.exit(os.waitpid(child, 0)[1])
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "model")], check=False)
    assert done.returncode == 0
