from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bertsmith.corpus.preflight import check_vocabulary
from bertsmith.reading.documents import find_sources
from bertsmith.text.tokenizer import Tokenizer

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture
def tokenizer() -> Tokenizer:
    words = ["river", "cat", "runs", "sleeps", "the", "near", "."]
    return Tokenizer(SPECIALS + words)


def test_a_vocabulary_of_another_language_is_refused_before_the_work(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    (tmp_path / "ko.txt").write_text("어제 늦게 잤어?\n어쩐지 피곤해 보이더라.\n\n" * 20)
    with pytest.raises(ValueError, match=r"does not belong to this text: \d\d% .*learn-vocab"):
        check_vocabulary(find_sources([tmp_path / "ko.txt"]), tokenizer)


def warnings_for(tmp_path: Path, lines: Sequence[str], tokenizer: Tokenizer) -> list[str]:
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    return check_vocabulary(find_sources([tmp_path / "text.txt"], "lines"), tokenizer)


def test_an_unusual_vocabulary_is_warned_of_and_an_ordinary_one_is_not(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    ordinary = ["The cat sleeps near the river."] * 50
    assert warnings_for(tmp_path, ordinary, tokenizer) == []
    (unknown,) = warnings_for(tmp_path, ordinary + ["The quark runs."] * 10, tokenizer)
    assert "are unknown to the vocabulary of 12 entries" in unknown
    letters = [*"abcdefghijklmnopqrstuvwxyz"]
    spelling = Tokenizer([*SPECIALS, *letters, *("##" + letter for letter in letters), "."])
    (pieces,) = warnings_for(tmp_path, ordinary, spelling)
    assert "a word of this text takes" in pieces


def test_hangul_that_would_break_into_jamo_is_warned_of(tmp_path: Path) -> None:
    jamo = ["ᄑ", "ᅵ", "ᄀ", "ᅩ", "ᆫ"]
    tokenizer = Tokenizer([*SPECIALS, *jamo, *("##" + one for one in jamo), "."])
    warnings = warnings_for(tmp_path, ["피곤."] * 9, tokenizer)
    assert any("jamo" in warning for warning in warnings)
