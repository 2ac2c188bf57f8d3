"""What a model says and sees: equal to the other answers of the same model, and to the figures."""

from __future__ import annotations

import numpy as np
import pytest

from bertsmith.data.config import Masking
from bertsmith.tasks.explanation import visible
from bertsmith.tasks.hidden_places import Hiding
from tests.tasks.figures import KOREAN, LANGUAGE_MODEL, PAIR, TOKENS, figure_predictor

BOTH = ("masked_lm", "next_sentence")
MANY = Hiding(masking=Masking(rate=0.7, mask_share=0.4, random_share=0.3), seed=4)


def same(guess, candidates):
    assert [each.token for each in guess.candidates] == [each.token for each in candidates]
    expected = [each.probability for each in candidates]
    assert [each.probability for each in guess.candidates] == pytest.approx(expected, rel=1e-5)


def test_probabilities_at_masks_are_those_of_fill_mask() -> None:
    predictor = figure_predictor(*BOTH)
    text = "my [MASK] is cute he likes [MASK] ##ing"
    found = predictor.explain(text)
    (filled,) = predictor.fill_mask([text])
    for guess, candidates in zip(found.guesses, filled.masks, strict=True):
        same(guess, candidates)
        assert guess.right is guess.rank is None


def test_the_left_alone_is_fill_mask_of_the_text_cut_off_behind_the_place() -> None:
    predictor = figure_predictor(*BOTH)
    found = predictor.explain(KOREAN, hiding=Hiding(words=("어제",)))
    (one,) = found.one_sided
    both, left = predictor.fill_mask(["피곤해 보이네. [MASK] 늦게 잤니?", "피곤해 보이네. [MASK]"])
    same(one.both, both.masks[0])
    same(one.left, left.masks[0])
    assert one.left_tokens[-3:] == (".", "[MASK]", "[SEP]")
    assert one.both.right.token == one.left.right.token == "어제"
    assert one.both.candidates != one.left.candidates
    same(found.guesses[0], both.masks[0])


def test_the_right_tokens_probability_and_rank_are_its_own() -> None:
    predictor = figure_predictor(*BOTH)
    found = predictor.explain(*PAIR, hiding=MANY, top_k=100)
    assert len(found.guesses) == round(0.7 * 11)
    for guess, place in zip(found.guesses, found.hidden.places, strict=True):
        assert len(guess.candidates) == predictor.tokenizer.vocab_size
        assert sum(each.probability for each in guess.candidates) == pytest.approx(1, abs=1e-5)
        assert guess.right.token_id == place.token_id
        at_its_rank = guess.candidates[guess.rank - 1]
        assert at_its_rank.probability == pytest.approx(guess.right.probability)


def test_what_is_said_depends_on_what_became_of_the_token() -> None:
    found = figure_predictor(*BOTH).explain(*PAIR, hiding=MANY)
    fates = {place.fate for place in found.hidden.places}
    assert fates == {"mask", "random", "kept"}
    for place, guess, one in zip(found.hidden.places, found.guesses, found.one_sided, strict=True):
        is_mask = place.fate == "mask"
        alike = guess.right.probability == pytest.approx(one.both.right.probability, rel=1e-4)
        assert alike == is_mask


def test_the_left_alone_keeps_the_first_sentence_and_its_segments() -> None:
    found = figure_predictor(*BOTH).explain(*PAIR, hiding=Hiding(words=("likes",)))
    (one,) = found.one_sided
    assert one.left_tokens == (*TOKENS[:7], "[MASK]", "[SEP]")


def test_the_answer_on_the_pair_is_that_of_next_sentence() -> None:
    predictor = figure_predictor(*BOTH)
    (expected,) = predictor.next_sentence([PAIR])
    for hiding in (Hiding(), MANY):  # asked of the text with nothing hidden
        found = predictor.explain(*PAIR, hiding=hiding)
        assert found.follows == pytest.approx(expected.probability, rel=1e-5)
    assert predictor.explain(PAIR[0]).follows is None


@pytest.mark.parametrize("direction", LANGUAGE_MODEL)
def test_attention_is_that_of_look_and_every_row_sums_to_one(direction) -> None:
    predictor = figure_predictor(LANGUAGE_MODEL[direction], direction=direction)
    inside = predictor.explain(*PAIR, hiding=MANY).inside
    expected = predictor.look(*PAIR)
    np.testing.assert_allclose(inside.attention, expected.attention, atol=1e-6)
    np.testing.assert_allclose(inside.shares(2).sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(inside.shares(1, 3), expected.attention[0, 2], atol=1e-6)
    above, below = (
        (np.triu(inside.attention, 1) > 0).any(),
        (np.tril(inside.attention, -1) > 0).any(),
    )
    assert above == (direction != "left_to_right")
    assert below == (direction != "right_to_left")


@pytest.mark.parametrize("num_tokens", [1, 2, 11, 60])
def test_figure_3_bert_sees_both_sides_and_gpt_the_left(num_tokens) -> None:
    everything = np.ones((num_tokens, num_tokens), bool)
    assert visible(num_tokens, "bidirectional").all()
    np.testing.assert_array_equal(visible(num_tokens, "left_to_right"), np.tril(everything))
    np.testing.assert_array_equal(visible(num_tokens, "right_to_left"), np.triu(everything))


@pytest.mark.parametrize("direction", LANGUAGE_MODEL)
def test_what_is_drawn_as_visible_is_where_a_model_has_attention(direction) -> None:
    inside = figure_predictor(LANGUAGE_MODEL[direction], direction=direction).explain(*PAIR).inside
    sees = visible(len(TOKENS), direction)
    assert ((inside.attention > 0) == sees).all()


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
def test_a_model_of_one_side_is_asked_in_its_own_way(direction) -> None:
    predictor = figure_predictor(LANGUAGE_MODEL[direction], direction=direction)
    text = "my dog is cute"
    found = predictor.explain(text, hiding=Hiding(words=("dog", "is")))
    (scored,) = predictor.pseudo_perplexity([text])
    said = [guess.right.probability for guess in found.guesses]
    assert said == pytest.approx(np.exp(scored.log_likelihoods[1:3]).tolist(), rel=1e-5)
    assert found.one_sided == ()


def test_a_model_without_a_head_leaves_out_what_needs_it_and_says_so() -> None:
    bare = figure_predictor().explain(*PAIR)
    assert bare.guesses is None
    assert bare.one_sided == ()
    assert bare.follows is None
    assert len(bare.hidden.places) == 2
    assert ["language-model head" in bare.left_out[0], "next-sentence" in bare.left_out[1]] == [
        True
    ] * 2
    assert len(bare.left_out) == 2
    only_masks = figure_predictor("masked_lm").explain(*PAIR)
    assert only_masks.guesses
    assert ["next-sentence" in line for line in only_masks.left_out] == [True]
    assert figure_predictor("masked_lm").explain(PAIR[0]).left_out == ()


def test_layers_without_attention_leave_it_out_and_say_so() -> None:
    predictor = figure_predictor("left_to_right_lm", direction="left_to_right", layer_kind="lstm")
    found = predictor.explain(PAIR[0], hiding=Hiding(words=("dog",)))
    assert found.inside is None
    assert ["no attention" in line for line in found.left_out] == [True]
    (scored,) = predictor.pseudo_perplexity([PAIR[0]])
    (guess,) = found.guesses
    assert guess.right.probability == pytest.approx(np.exp(scored.log_likelihoods[1]), rel=1e-5)
    two_way = figure_predictor(direction="two_way").explain(PAIR[0])
    assert (two_way.inside, two_way.guesses, two_way.one_sided) == (None, None, ())


def test_what_cannot_be_read_is_refused() -> None:
    predictor = figure_predictor(*BOTH)
    with pytest.raises(ValueError, match="'  ' has no token"):
        predictor.explain("my dog", "  ")
    with pytest.raises(ValueError, match="half a character"):
        predictor.explain("dog \ud83d")
