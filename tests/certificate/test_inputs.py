"""Every check of the tokenizer and of input assembly fails on rules that are wrong in its way."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bertsmith.certificate import inputs
from bertsmith.certificate.golden.texts import (
    EXTENSION_E,
    FINAL_SIGMA,
    HANGUL,
    LONG_WORDS,
    PRIVATE_USE,
    RARE,
    SPECIAL_TOKENS,
)
from bertsmith.certificate.inputs import checks, cut_texts, encoded_pair, ordinary_texts, rare_rule
from bertsmith.data import inputs as assembling
from bertsmith.data import items
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.certificate.breaking import Break, status


def configured(**changes: object) -> Break:
    config = replace(TokenizerConfig(), **changes)
    return lambda patch: patch.setitem(inputs._CONFIGS, "uncased", config)


def library_rules(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(inputs._CONFIGS, "uncased", TokenizerConfig(library_rules=True))


def a_is_cut_first(patch: pytest.MonkeyPatch) -> None:
    def two_texts(first, second, *, limit, cls_id, sep_id):
        kept = max(0, limit - 3 - len(second))
        return items.two_texts(first[:kept], second, limit=limit, cls_id=cls_id, sep_id=sep_id)

    patch.setattr(inputs, "two_texts", two_texts)


def a_tie_cuts_a(patch: pytest.MonkeyPatch) -> None:
    def two_texts(first, second, *, limit, cls_id, sep_id):
        if len(first) == len(second):
            first = first[: (limit - 3) // 2]
        return items.two_texts(first, second, limit=limit, cls_id=cls_id, sep_id=sep_id)

    patch.setattr(inputs, "two_texts", two_texts)


def a_single_text_keeps_its_end(patch: pytest.MonkeyPatch) -> None:
    def one_text(ids, *, limit, cls_id, sep_id, keep):
        return items.one_text(
            ids[-(limit - 2) :], limit=limit, cls_id=cls_id, sep_id=sep_id, keep=keep
        )

    patch.setattr(inputs, "one_text", one_text)


def first_separator_is_of_b(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assembling, "_SEGMENT_OF_PIECE", np.array([0, 0, 1, 1, 1], dtype=np.int32))


def pair_exchanged(patch: pytest.MonkeyPatch) -> None:
    whole = Tokenizer.encode

    def encode(self, text, pair=None, **options):
        sides = (text,) if pair is None else (pair, text)
        return whole(self, *sides, **options)

    patch.setattr(Tokenizer, "encode", encode)


BREAKS = [
    (ordinary_texts, configured(strip_accents=False)),
    (ordinary_texts, configured(lowercase=False)),
    (ordinary_texts, configured(split_cjk=False)),
    (partial(rare_rule, LONG_WORDS), configured(longest_word=100)),
    (partial(rare_rule, LONG_WORDS), configured(longest_word=201)),
    (partial(rare_rule, LONG_WORDS), library_rules),
    (partial(rare_rule, EXTENSION_E), library_rules),
    (partial(rare_rule, PRIVATE_USE), library_rules),
    (partial(rare_rule, SPECIAL_TOKENS), configured(special_tokens_in_text=True)),
    (partial(rare_rule, FINAL_SIGMA), library_rules),
    (partial(rare_rule, HANGUL), configured(strip_accents=False)),
    (cut_texts, a_is_cut_first),
    (cut_texts, a_tie_cuts_a),
    (cut_texts, a_single_text_keeps_its_end),
    (inputs.packed_texts, first_separator_is_of_b),
    (encoded_pair, pair_exchanged),
]


@pytest.mark.parametrize("check", checks())
def test_this_installation_passes(check) -> None:
    assert status(check) == "passed"


@pytest.mark.parametrize(("check", "break_it"), BREAKS)
def test_a_check_fails_on_rules_that_are_wrong_in_its_way(
    check, break_it: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    assert status(check) == "failed"


def test_every_check_was_shown_to_fail() -> None:
    broken = {check.args[0] if isinstance(check, partial) else check for check, _ in BREAKS}
    assert broken == {ordinary_texts, *RARE, cut_texts, inputs.packed_texts, encoded_pair}
    assert len(checks()) == len(broken)
