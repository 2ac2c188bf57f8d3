"""Every check of a vocabulary against its weights fails on one that does not belong to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bertsmith.certificate import vocabulary
from bertsmith.certificate.rows import under
from bertsmith.certificate.subject import Subject
from bertsmith.certificate.vocabulary import CHECKS
from bertsmith.text.tokenizer import Tokenizer
from tests.certificate.breaking import names, row_of, saved, status, with_tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def test_a_sound_vocabulary_passes_and_a_tiny_one_has_too_few_pieces_to_tell(folder: Path) -> None:
    found = {check.__name__: status(check, Subject.read(folder)) for check in CHECKS}
    assert found == {**dict.fromkeys(names(CHECKS), "passed"), "pieces_apart": "skipped"}


def test_a_truncated_vocabulary_fails_for_everybody(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m")
    (folder / "tokenizer.json").unlink()
    lines = (folder / "vocab.txt").read_text().splitlines()
    (folder / "vocab.txt").write_text("\n".join(lines[:-6]) + "\n")
    row = row_of(vocabulary.vocabulary_size, Subject.read(folder))
    assert row.status == under(row, "huggingface").status == "failed"
    assert row.found == f"{len(lines) - 6} entries"


def test_spare_rows_up_to_a_multiple_of_8_are_known_to_transformers(folder: Path) -> None:
    subject = Subject.read(folder)
    padded = replace(subject.loaded, config=replace(subject.loaded.config, vocab_size=32))
    row = row_of(vocabulary.vocabulary_size, replace(subject, loaded=padded))
    assert row.status == under(row, "paper").status == "failed"
    assert under(row, "huggingface").status == "known difference"


def test_a_pad_token_of_another_row_than_the_config_s_fails(tmp_path: Path) -> None:
    row = row_of(vocabulary.special_tokens, Subject.read(saved(tmp_path / "m", pad_token_id=3)))
    assert row.status == "failed"
    assert row.found.endswith("pad_token_id is 3")


def test_an_entry_twice_fails_and_is_named(folder: Path) -> None:
    subject = Subject.read(folder)
    entries = list(subject.tokenizer.vocabulary)
    entries[7] = "the"
    row = row_of(vocabulary.entries_once, with_tokenizer(subject, Tokenizer(entries)))
    assert row.status == "failed"
    assert row.found == "1 entries, 'the' first"


def trained(subject: Subject) -> tuple[Subject, list[str]]:
    """600 entries whose weights know pieces from words, as training leaves them."""
    random = np.random.default_rng(0)
    is_piece = random.random(600) < 0.3
    is_piece[:5] = False
    entries = [f"{'##' if piece else ''}e{row}" for row, piece in enumerate(is_piece)]
    entries[:5] = SPECIAL
    rows = random.normal(size=(600, 32)) * random.uniform(0.5, 2.0, (600, 1))
    rows[is_piece] += random.normal(size=32)
    subject.model.bert.embeddings.token.weight.data = torch.from_numpy(rows).float()
    return subject, entries


def test_the_weights_know_the_pieces_of_their_own_vocabulary_and_of_no_other(folder: Path) -> None:
    subject, entries = trained(Subject.read(folder))
    own = with_tokenizer(subject, Tokenizer(entries))
    assert status(vocabulary.pieces_apart, own) == "passed"
    shifted = Tokenizer([*SPECIAL, *np.roll(entries[5:], 1).tolist()])
    assert status(vocabulary.pieces_apart, with_tokenizer(subject, shifted)) == "failed"


def test_first_weights_know_nothing_and_the_check_says_so(folder: Path) -> None:
    subject, entries = trained(Subject.read(folder))
    torch.manual_seed(0)
    subject.model.bert.embeddings.token.weight.data.normal_()
    row = row_of(vocabulary.pieces_apart, with_tokenizer(subject, Tokenizer(entries)))
    assert row.status == "skipped"
    assert "hardly trained" in row.found


@pytest.mark.parametrize("shift", [1, 3, 1000])
def test_the_korean_model_knows_its_vocabulary_from_one_that_is_shifted(shift: int) -> None:
    subject = Subject.read(Path(__file__).parents[2] / "models" / "mini-ko")
    assert status(vocabulary.pieces_apart, subject) == "passed"
    entries = subject.tokenizer.vocabulary
    shifted = Tokenizer([*SPECIAL, *entries[5 + shift :], *entries[5 : 5 + shift]])
    assert status(vocabulary.pieces_apart, with_tokenizer(subject, shifted)) == "failed"
