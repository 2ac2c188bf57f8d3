"""What is hidden: Figure 2's rows, pre-training's own draws, and a person's own choice."""

from __future__ import annotations

import numpy as np
import pytest

from bertsmith.data.config import Masking
from bertsmith.data.masking import VocabularyFacts, mask
from bertsmith.tasks.hidden_places import Hiding, encode
from tests.tasks.figures import KOREAN, PAIR, SEGMENTS, TOKENS, figure_tokenizer

TOKENIZER = figure_tokenizer()


def hidden(*sides, limit=24, **hiding):
    return encode(sides, TOKENIZER, limit, Hiding(**hiding))


def rows_of(found):
    return [place.row for place in found.places]


def test_the_rows_are_those_of_figure_2() -> None:
    question = hidden(*PAIR).question
    assert question.tokens == TOKENS
    assert question.item.segment_ids.tolist() == SEGMENTS


@pytest.mark.parametrize("masking", [Masking(), Masking(rate=0.6, mask_share=0.3), None])
@pytest.mark.parametrize("seed", range(40))
def test_places_and_fates_are_those_of_pre_training_for_the_seed(seed, masking) -> None:
    masking = masking or Masking(rate=0.4, mask_share=0.2, random_share=0.4, whole_word=True)
    found = hidden(*PAIR, seed=seed, masking=masking)
    ids = found.question.item.token_ids
    facts = VocabularyFacts(
        vocab_size=TOKENIZER.vocab_size, cls_id=TOKENIZER.cls_id, sep_id=TOKENIZER.sep_id,
        mask_id=TOKENIZER.mask_id, is_continuation=TOKENIZER.is_continuation,
    )  # fmt: skip
    one, key = np.array([len(ids)], np.int32), np.array([0])
    seen_ids, rows, targets = mask(ids, one, key, masking, facts, seed)
    assert rows_of(found) == rows.tolist()
    assert [place.token_id for place in found.places] == targets.tolist()
    assert [place.seen_id for place in found.places] == seen_ids[rows].tolist()
    assert found.seen_ids.tolist() == seen_ids.tolist()
    for place in found.places:
        if place.seen_id == place.token_id:
            assert place.fate == "kept"
        else:
            assert place.fate == ("mask" if place.seen_id == TOKENIZER.mask_id else "random")


def test_all_three_fates_come_in_their_shares() -> None:
    fates = [place.fate for seed in range(2000) for place in hidden(*PAIR, seed=seed).places]
    assert len(fates) == 2 * 2000  # round(0.15 * 11)
    shares = {fate: fates.count(fate) / len(fates) for fate in ("mask", "random", "kept")}
    deviation = (0.8 * 0.2 / len(fates)) ** 0.5
    # One random token in V is the right one, and one is [MASK].
    size = TOKENIZER.vocab_size
    assert shares["mask"] == pytest.approx(0.8 + 0.1 / size, abs=5 * deviation)
    assert shares["random"] == pytest.approx(0.1 * (1 - 2 / size), abs=5 * deviation)
    assert shares["kept"] == pytest.approx(0.1 + 0.1 / size, abs=5 * deviation)


def test_a_word_is_hidden_with_all_its_pieces_wherever_it_stands() -> None:
    found = hidden("he likes playing", "my dog likes playing", words=("Playing",))
    assert [found.question.tokens[row] for row in rows_of(found)] == ["play", "##ing"] * 2
    assert {place.fate for place in found.places} == {"mask"}
    assert found.drawn_by is None
    seen = [TOKENIZER.token_of(id) for id in found.seen_ids.tolist()]
    assert seen.count("[MASK]") == 4
    assert [place.token_id for place in found.places][:2] == [
        TOKENIZER.id_of("play"),
        TOKENIZER.id_of("##ing"),
    ]


def test_a_korean_word_with_its_punctuation_is_a_run_of_words() -> None:
    found = hidden(KOREAN, words=("잤니?",))
    assert [found.question.tokens[row] for row in rows_of(found)] == ["잤", "##니", "?"]


def test_a_piece_alone_is_no_word() -> None:
    with pytest.raises(ValueError, match="no word 'play' to hide: the words are he, likes, play"):
        hidden("he likes playing", words=("play",))


def test_a_mask_that_was_written_is_a_place_of_which_nobody_knows_the_token() -> None:
    found = hidden("my [MASK] is cute", words=("cute",))
    assert found.question.tokens == ("[CLS]", "my", "[MASK]", "is", "cute", "[SEP]")
    assert [(place.row, place.token_id) for place in found.places] == [
        (2, None),
        (4, TOKENIZER.id_of("cute")),
    ]
    assert [place.seen_id for place in found.places] == [TOKENIZER.mask_id] * 2


def test_other_special_tokens_in_a_text_without_a_mask_are_characters() -> None:
    assert "[SEP]" not in hidden("my [SEP] dog").question.tokens[1:-1]
    assert hidden("my zebra dog").num_unknown == 1


def test_a_text_that_does_not_fit_is_refused_with_its_length() -> None:
    with pytest.raises(ValueError, match="32 tokens are more than the 24 that the model reads"):
        hidden("dog " * 30)
    assert len(hidden("dog " * 22).question.tokens) == 24


def test_where_no_whole_word_is_short_enough_nothing_is_hidden() -> None:
    found = hidden("playing", masking=Masking(whole_word=True))
    assert found.places == ()
    assert found.drawn_by is not None
