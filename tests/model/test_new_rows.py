"""A new entry begins as the mean of its pieces, in every table of entries."""

from __future__ import annotations

from dataclasses import replace

import torch

from bertsmith.model.init import initialise
from bertsmith.model.new_rows import ROWS_OF_ENTRIES, with_new_rows
from bertsmith.model.objectives import PretrainModel
from tests.checkpoints.tiny import tiny_config

PIECES = {7: (3, 4, 5), 25: (9,), 26: (8, 9)}


def state_of(**changes: object) -> dict[str, torch.Tensor]:
    model = PretrainModel(tiny_config(**changes), ("masked_lm", "next_sentence"))
    initialise(model, std=0.3, seed=4)
    torch.manual_seed(0)
    model.masked_lm.bias.data.normal_()
    return model.state_dict()


def test_new_rows_are_the_means_of_their_pieces_and_others_stay() -> None:
    state = state_of()
    grown = with_new_rows(state, PIECES)
    for name in ("bert.embeddings.token.weight", "masked_lm.bias"):
        old, new = state[name], grown[name]
        assert len(new) == 27
        for row, pieces in PIECES.items():
            mean = sum(old[piece].double() for piece in pieces) / len(pieces)
            torch.testing.assert_close(new[row].double(), mean, rtol=0, atol=1e-7)
        others = [row for row in range(len(old)) if row not in PIECES]
        assert new[others].equal(old[others])
    assert all(grown[name] is state[name] for name in state if name not in ROWS_OF_ENTRIES)


def test_the_weights_that_were_given_stay_as_they_were() -> None:
    state = state_of()
    before = {name: tensor.clone() for name, tensor in state.items()}
    with_new_rows(state, PIECES)
    assert all(state[name].equal(before[name]) for name in state)
    assert with_new_rows(state, {}) == state


def test_a_decoder_of_its_own_grows_too_and_the_model_takes_all() -> None:
    grown = with_new_rows(state_of(tie_word_embeddings=False), PIECES)
    decoder = grown["masked_lm.decoder.weight"]
    assert decoder[26].equal(decoder[[8, 9]].mean(dim=0))
    config = replace(tiny_config(tie_word_embeddings=False), vocab_size=27)
    PretrainModel(config, ("masked_lm", "next_sentence")).load_state_dict(grown)


def test_rows_that_stand_for_no_entry_yet_are_filled_before_a_table_grows() -> None:
    grown = with_new_rows(state_of(vocab_size=40), PIECES)
    assert len(grown["masked_lm.bias"]) == 40
