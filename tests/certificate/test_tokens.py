"""Every check of a model's tokenizer fails on one that is wrong in its way."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from bertsmith.certificate import tokens
from bertsmith.certificate.golden.texts import HANGUL, LONG_WORDS, RARE
from bertsmith.certificate.rows import under
from bertsmith.certificate.subject import Subject
from bertsmith.certificate.tokens import checks, rare_rule
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.certificate.breaking import row_of, saved, status, with_tokenizer
from tests.text.texts import VOCABULARY


def rich(subject: Subject, **config: object) -> Subject:
    """With a vocabulary that holds single characters, so that rules show in the tokens."""
    return with_tokenizer(subject, Tokenizer(VOCABULARY, TokenizerConfig(**config)))


def two_faced(subject: Subject, **config: object) -> Subject:
    """A tokenizer that works by other rules than it says."""
    tokenizer = Tokenizer(VOCABULARY, TokenizerConfig(**config))
    tokenizer.config = TokenizerConfig()
    return with_tokenizer(subject, tokenizer)


@pytest.mark.parametrize("check", checks())
def test_a_sound_tokenizer_passes(check, folder: Path) -> None:
    assert status(check, Subject.read(folder)) == "passed"


def edited(tmp_path: Path, file: str, edit) -> Subject:
    folder = saved(tmp_path / "m")
    path = folder / file
    path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8")
    return Subject.read(folder)


def test_a_swapped_vocabulary_file_disagrees_with_the_other(tmp_path: Path) -> None:
    def edit(text: str) -> str:
        return (
            text.replace("london\n", "x\n").replace("paris\n", "london\n").replace("x\n", "paris\n")
        )

    row = row_of(tokens.files_agree, edited(tmp_path, "vocab.txt", edit))
    assert row.status == "failed"
    assert "vocab.txt has" in row.found


def test_a_truncated_vocabulary_file_disagrees_with_the_other(tmp_path: Path) -> None:
    subject = edited(tmp_path, "vocab.txt", lambda text: "\n".join(text.splitlines()[:-3]) + "\n")
    row = row_of(tokens.files_agree, subject)
    assert row.status == "failed"
    assert "is in tokenizer.json alone and 2 more" in row.found


def test_settings_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    def edit(text: str) -> str:
        return json.dumps({**json.loads(text), "do_lower_case": False})

    row = row_of(tokens.files_agree, edited(tmp_path, "tokenizer_config.json", edit))
    assert row.status == "failed"
    assert row.found == "tokenizer_config.json has do_lower_case False, tokenizer.json True"


def test_one_file_alone_has_nothing_to_agree_with(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m")
    (folder / "tokenizer.json").unlink()
    subject = Subject.read(folder)
    assert row_of(tokens.files_agree, subject).found == "only vocab.txt is there"
    assert status(tokens.library_ids, subject) == "skipped"


def test_a_tokenizer_json_of_other_rules_gives_other_ids(tmp_path: Path) -> None:
    def edit(text: str) -> str:
        content = json.loads(text)
        content["pre_tokenizer"] = {"type": "BertPreTokenizer"}
        content["normalizer"]["lowercase"] = False
        return json.dumps(content)

    assert status(tokens.library_ids, edited(tmp_path, "tokenizer.json", edit)) == "failed"


def test_a_tokenizer_of_another_model_gives_other_ids_than_its_file(folder: Path) -> None:
    assert status(tokens.library_ids, rich(Subject.read(folder))) == "failed"


@pytest.mark.parametrize(
    "wrong", [{"strip_accents": False}, {"lowercase": False}, {"split_cjk": False}]
)
def test_tokens_by_other_rules_than_the_config_says_fail(folder: Path, wrong) -> None:
    row = row_of(tokens.ordinary_texts, two_faced(Subject.read(folder), **wrong))
    assert row.status == "failed"
    assert row.difference == ""


@pytest.mark.parametrize("rule", [rule for rule in RARE if rule != HANGUL])
def test_the_library_s_rules_fail_and_are_known_to_transformers(folder: Path, rule: str) -> None:
    subject = rich(Subject.read(folder), library_rules=True)
    row = row_of(partial(rare_rule, rule=rule), subject)
    assert under(row, "paper").status == under(row, "google").status == "failed"
    assert under(row, "huggingface").status == "known difference"
    assert status(tokens.ordinary_texts, subject) == "passed"


def test_hangul_that_does_not_fall_apart_fails_where_accents_are_stripped(folder: Path) -> None:
    subject = two_faced(Subject.read(folder), strip_accents=False)
    assert status(partial(rare_rule, rule=HANGUL), subject) == "failed"


def test_a_longest_word_of_100_fails(folder: Path) -> None:
    subject = rich(Subject.read(folder), longest_word=100)
    assert status(partial(rare_rule, rule=LONG_WORDS), subject) == "failed"


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ({"strip_accents": False}, "accents kept"),
        ({"unicode_form": "NFC"}, "NFC"),
        ({"split_cjk": False}, "Chinese characters not split"),
        ({"added_tokens": ("my",)}, "1 added tokens"),
    ],
)
def test_a_choice_that_the_original_has_not_is_known_everywhere(folder, config, shown) -> None:
    subject = rich(Subject.read(folder), **config)
    row = row_of(tokens.choices, subject)
    assert row.status == "failed"
    assert shown in row.found
    assert under(row, "paper").status == "known difference"
    # By the choices it names, it does what the original does.
    assert status(tokens.ordinary_texts, subject) == "passed"


def test_no_check_is_without_a_test_above() -> None:
    first = [tokens.files_agree, tokens.library_ids, tokens.choices, tokens.ordinary_texts]
    assert checks()[:4] == first
    assert len(checks()) == len(first) + len(RARE)
