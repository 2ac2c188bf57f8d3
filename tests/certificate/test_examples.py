"""Every check of masks and pairs fails on a rule that is wrong in its way."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bertsmith.batch import starts_of
from bertsmith.certificate import examples
from bertsmith.certificate.examples import CHECKS
from bertsmith.data import masking, pairs
from bertsmith.data.config import Masking
from bertsmith.data.pairs import PairRules
from bertsmith.randomness import uniform
from tests.certificate.breaking import Break, names, status


def masks(**changes: object) -> Break:
    def break_it(patch: pytest.MonkeyPatch) -> None:
        def changed(**given: object) -> Masking:
            return replace(Masking(**given), **changes)

        patch.setattr(examples, "Masking", changed)

    return break_it


def bernoulli(patch: pytest.MonkeyPatch) -> None:
    """As popular collators choose: every position by a coin of its own."""

    def mask(token_ids, lengths, example_keys, rules, vocabulary, seed):
        draws = uniform(seed, 5, np.arange(len(token_ids)))
        is_ordinary = (token_ids != vocabulary.cls_id) & (token_ids != vocabulary.sep_id)
        rows = np.flatnonzero(is_ordinary & (draws < 0.15))
        return np.where(draws < 0.12, vocabulary.mask_id, token_ids), rows, token_ids[rows]

    patch.setattr(examples, "mask", mask)


def rounded_down(patch: pytest.MonkeyPatch) -> None:
    def numbers(lengths, rules):
        return np.maximum((lengths * rules.rate).astype(np.int64), 1)

    patch.setattr(masking, "_num_predictions", numbers)


def rounded_half_up(patch: pytest.MonkeyPatch) -> None:
    def numbers(lengths, rules):
        wanted = np.maximum(np.floor(lengths * rules.rate + 0.5).astype(np.int64), 1)
        return wanted if rules.max_predictions is None else np.minimum(wanted, 20)

    patch.setattr(masking, "_num_predictions", numbers)


def special_tokens_too(patch: pytest.MonkeyPatch) -> None:
    whole = masking.mask

    def mask(token_ids, lengths, example_keys, rules, vocabulary, seed):
        nothing = replace(vocabulary, cls_id=-1, sep_id=-1)
        return whole(token_ids, lengths, example_keys, rules, nothing, seed)

    patch.setattr(examples, "mask", mask)


def early_positions_first(patch: pytest.MonkeyPatch) -> None:
    whole = masking.hash64

    def hash64(seed, stream, purpose, keys, positions):
        return whole(seed, stream, purpose, keys, positions) // (1 + (positions > 20))

    patch.setattr(masking, "hash64", hash64)


def no_special_random_tokens(patch: pytest.MonkeyPatch) -> None:
    whole = masking.integers
    patch.setattr(masking, "integers", lambda high, *keys: 5 + whole(high - 5, *keys))


def ends_at_the_first_word_that_does_not_fit(patch: pytest.MonkeyPatch) -> None:
    def take(order, sizes, sequences, numbers):
        is_taken = np.zeros(len(sizes), dtype=bool)
        counts = np.bincount(sequences, minlength=len(numbers))
        for first, count, room in zip(starts_of(counts), counts, numbers, strict=True):
            units = order[first : first + count]
            is_taken[units[np.cumsum(sizes[units]) <= room]] = True
        return is_taken

    patch.setattr(masking, "_take_while_they_fit", take)


def words_not_kept_whole(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(masking, "_begins_word", lambda ids, sequences, vocabulary: np.ones_like(ids) > 0)


def never_random(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(examples, "PairRules", partial(PairRules, form="consecutive_pair"))


def never_short(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(examples, "PairRules", partial(PairRules, short_probability=0.0))


def random_a_third_of_the_time(patch: pytest.MonkeyPatch) -> None:
    whole = pairs.uniform
    patch.setattr(pairs, "uniform", lambda *keys: whole(*keys) * 1.5)


def unused_sentences_are_lost(patch: pytest.MonkeyPatch) -> None:
    whole = pairs._follow

    def follow(next_begins):
        return whole(np.maximum(next_begins, np.arange(len(next_begins)) + 3))

    patch.setattr(pairs, "_follow", follow)


BREAKS: list[tuple[str, Break]] = [
    ("predictions_a_sequence", bernoulli),
    ("predictions_a_sequence", rounded_down),
    ("predictions_a_sequence", rounded_half_up),
    ("predictions_a_sequence", special_tokens_too),
    ("fates", masks(mask_share=1.0, random_share=0.0)),
    ("fates", masks(mask_share=0.85)),
    ("fates", masks(random_share=0.12)),
    ("chosen_positions", early_positions_first),
    ("chosen_positions", special_tokens_too),
    ("random_tokens", no_special_random_tokens),
    ("whole_words", ends_at_the_first_word_that_does_not_fit),
    ("whole_word_positions", words_not_kept_whole),
    ("pairs", never_random),
    ("pairs", never_short),
    ("pairs", random_a_third_of_the_time),
    ("pairs", unused_sentences_are_lost),
]


@pytest.mark.parametrize("check", CHECKS)
def test_this_installation_passes(check) -> None:
    assert status(check) == "passed"


@pytest.mark.parametrize(("name", "break_it"), BREAKS)
def test_a_check_fails_on_a_rule_that_is_wrong_in_its_way(
    name: str, break_it: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    assert status(vars(examples)[name]) == "failed"


def test_every_check_was_shown_to_fail() -> None:
    assert {name for name, _ in BREAKS} == names(CHECKS)
