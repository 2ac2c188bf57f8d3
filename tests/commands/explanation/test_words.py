"""What is said beside the drawings is so, of every text, every way of hiding and every model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from rich.cells import cell_len

from bertsmith.commands.explanation import words
from bertsmith.commands.explanation.picture import draw
from bertsmith.commands.explanation.terminal import lines
from bertsmith.commands.explanation.words import Chosen
from bertsmith.data.config import Masking
from bertsmith.tasks.hidden_places import Hiding
from tests.tasks.figures import PAIR, figure_predictor

CHOSEN = Chosen(model="figures", layer=1, head=None)


def terminal(found, width=80) -> str:
    return "\n".join(line.plain for line in lines(found, CHOSEN, width))


@pytest.mark.parametrize(
    ("masking", "told"),
    [
        (Masking(), "2 of 11 tokens (15%, rounded), drawn by seed 0. Of those chosen 80% become"),
        (Masking(rate=0.125), "1 of 11 tokens (12.5%, rounded), "),
        (Masking(rate=0.01), "1 of 11 tokens (1% asked for), "),
        (Masking(rate=1.0), "8 of 11 tokens (100% asked for), "),
        (Masking(rate=0.5, max_predictions=2), "2 of 11 tokens (50% asked for), "),
        (Masking(mask_share=0.875, random_share=0.0), "87.5% become [MASK], 0% a random token, 12"),
    ],
)
def test_the_number_of_drawn_tokens_is_called_rounded_only_where_it_is(masking, told) -> None:
    found = figure_predictor("masked_lm").explain(*PAIR, hiding=Hiding(masking=masking))
    assert told in words.hidden_line(found)


def test_a_mask_that_was_written_is_not_called_a_text_with_nothing_hidden() -> None:
    predictor = figure_predictor("masked_lm", "next_sentence")
    shown = terminal(predictor.explain("my [MASK] is cute", PAIR[1]))
    assert shown.count("the text as you wrote it") == 2  # beside the next sentence and attention
    assert "nothing hidden" not in shown


def test_of_several_places_the_others_stay_hidden_and_it_is_said() -> None:
    predictor = figure_predictor("masked_lm")
    alone, among = (
        predictor.explain(*PAIR, hiding=Hiding(words=hidden))
        for hidden in (("dog",), ("dog", "he"))
    )
    assert "the others hidden as above" not in words.one_sided_line(alone)
    assert "the others hidden as above" in words.one_sided_line(among)
    assert alone.one_sided[0].both.candidates != among.one_sided[0].both.candidates


@pytest.mark.drawn
def test_the_right_token_is_shown_where_others_are_as_likely(tmp_path) -> None:
    predictor = figure_predictor("masked_lm")
    with torch.no_grad():
        for parameter in predictor.model.masked_lm.parameters():
            parameter.zero_()
    found = predictor.explain(*PAIR, hiding=Hiding(words=("likes",)), top_k=3)
    (guess,) = found.guesses
    assert guess.rank == 1  # no token is likelier
    assert guess.right not in guess.candidates
    assert words.shown(guess) == (*guess.candidates, guess.right)
    assert terminal(found).count("✓ likes") == 3
    draw(found, CHOSEN, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text().count("✓") == 3


def test_a_token_of_the_vocabulary_is_neither_obeyed_nor_wider_than_the_terminal(tmp_path) -> None:
    found = figure_predictor("masked_lm").explain(*PAIR, hiding=Hiding(words=("dog", "cute")))
    odd = {"dog": "dog\x1b[31m", "cute": "cute" * 20}
    question = found.hidden.question
    tokens = tuple(odd.get(token, token) for token in question.tokens)
    hidden = replace(found.hidden, question=replace(question, tokens=tokens))
    found = replace(found, hidden=hidden)
    for width in (40, 80):
        shown = terminal(found, width)
        assert "\x1b" not in shown
        assert max(map(cell_len, shown.splitlines())) <= width
    assert not [note for note in draw(found, CHOSEN, tmp_path / "a.svg") if "\x1b" in note]


@pytest.mark.parametrize(
    ("direction", "layer_kind", "told"),
    [
        ("left_to_right", "lstm", "of the kind LSTM"),
        ("two_way", "lstm", "of the kind two-way pair of LSTMs"),
        ("two_way", "transformer", "of the kind two-way pair of BERTs"),
    ],
)
def test_why_there_is_no_attention_is_told_of_each_kind(direction, layer_kind, told) -> None:
    found = figure_predictor(direction=direction, layer_kind=layer_kind).explain(PAIR[0])
    assert [f"{told}; it is" in line for line in found.left_out if "attention" in line] == [True]
    assert ("An LSTM looks at none of them" in words.sight_line(found)) == (layer_kind == "lstm")


def test_shares_of_many_tokens_are_not_told_as_none() -> None:
    found = figure_predictor("masked_lm").explain("dog " * 22)
    even = replace(found.inside, attention=found.inside.attention * 0 + 1 / 24)
    (legend,) = (
        line for line in terminal(replace(found, inside=even)).splitlines() if "up to" in line
    )
    assert legend == "░░ up to 0.0026, ▒▒ up to 0.01, ▓▓ up to 0.023, ██ up to 0.042"
