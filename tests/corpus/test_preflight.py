from __future__ import annotations

import gzip
import os
import re
import unicodedata
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from bertsmith.corpus.preflight import check_vocabulary
from bertsmith.reading.documents import find_sources
from bertsmith.text.config import VocabularyConfig
from bertsmith.text.counting import count_words
from bertsmith.text.learn import learn_vocabulary
from bertsmith.text.rules import TokenizerConfig
from bertsmith.text.tokenizer import Tokenizer

MODELS = Path(__file__).parents[2] / "models"
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


HANGUL_ROWS = [chr(0xAC00 + 28 * number) for number in range(99)]


@pytest.mark.parametrize(
    ("line", "num_hangul_rows", "told"),
    [
        ("The cat sleeps near the river.", 99, r"only 6% of .* letters \(Latin\), and a word"),
        ("The cat sleeps near the river.", 20, None),
        ("1988 - 2018.", 99, None),
    ],
)
def test_a_vocabulary_of_other_letters_is_warned_of_though_it_spells_the_words(
    tmp_path: Path, line: str, num_hangul_rows: int, told: str | None
) -> None:
    words = ["the", "cat", "sleeps", "near", "river", "runs", "1988", "2018", "-", "."]
    rows = [*SPECIALS, *words, *HANGUL_ROWS[:num_hangul_rows]]
    warnings = warnings_for(tmp_path, [line] * 50, Tokenizer(rows))
    assert len(warnings) == (told is not None)
    assert all(re.search(told or "", warning) for warning in warnings)


@pytest.fixture(scope="module")
def real_texts() -> dict[str, list[str]]:
    """Some hundred kilobytes of each kind of text."""
    data = Path(os.environ["BERTSMITH_DATA"])

    def lines(path: str, count: int = 2_000) -> list[str]:
        with gzip.open(data / path, "rt", encoding="utf-8") as file:
            return [line.rstrip("\n") for line in islice(file, count)]

    news = [line for line in lines("korean/klue_ner/dev.tsv.gz", 99_999) if line[:2] == "##"]
    return {
        "encyclopaedia": lines("corpora/wikitext-2/valid.txt.gz"),
        "film reviews": [line.split("\t")[0] for line in lines("glue/SST-2/train.tsv.gz")],
        "Korean news": [re.sub("<(.*?):[A-Z]+>", r"\1", line.split("\t")[-1]) for line in news],
        "Korean film reviews": [line.split("\t")[1] for line in lines("korean/nsmc/dev.tsv.gz")],
    }


@pytest.fixture(scope="module")
def vocabularies(
    real_texts: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Tokenizer]:
    config = VocabularyConfig(vocab_size=5_000)
    scratch = tmp_path_factory.mktemp("counts")
    texts = real_texts["encyclopaedia"]
    counts = count_words(texts, config.tokenizer, workers=1, scratch=scratch)
    korean = Tokenizer.load(MODELS / "mini-ko")
    characters = [row for row in korean.vocabulary if len(row.removeprefix("##")) == 1]
    return {
        "mini-en": Tokenizer.load(MODELS / "mini-en"),
        "mini-ko": korean,
        "5,000 English": Tokenizer(learn_vocabulary(counts, config)),
        "Korean characters": Tokenizer([*SPECIALS, *characters], korean.config),
    }


@pytest.mark.data
@pytest.mark.parametrize(
    ("text", "vocabulary", "is_warned"),
    [
        *((text, "mini-ko", text.startswith(("ency", "film"))) for text in
          ("encyclopaedia", "film reviews", "Korean news", "Korean film reviews")),
        *((text, name, False) for text in ("encyclopaedia", "film reviews")
          for name in ("mini-en", "5,000 English")),
        ("encyclopaedia", "Korean characters", True),
        ("Korean news", "Korean characters", True),
    ],
)  # fmt: skip
def test_a_real_text_is_warned_of_beside_a_vocabulary_that_does_not_fit_and_no_other(
    tmp_path: Path,
    real_texts: dict[str, list[str]],
    vocabularies: dict[str, Tokenizer],
    text: str,
    vocabulary: str,
    is_warned: bool,
) -> None:
    lines = [line for line in real_texts[text] if line.strip()]
    warnings = warnings_for(tmp_path, lines, vocabularies[vocabulary])
    warned = [warning for warning in warnings if "another language" in warning]
    assert len(warned) == is_warned, warnings


def test_hangul_that_would_break_into_jamo_is_warned_of(tmp_path: Path) -> None:
    jamo = ["ᄑ", "ᅵ", "ᄀ", "ᅩ", "ᆫ"]
    tokenizer = Tokenizer([*SPECIALS, *jamo, *("##" + one for one in jamo), "."])
    warnings = warnings_for(tmp_path, ["피곤."] * 9, tokenizer)
    assert any("jamo" in warning for warning in warnings)


def test_decomposed_hangul_that_a_korean_vocabulary_does_not_hold_is_named(tmp_path: Path) -> None:
    syllables = [*"피곤해보이네"]
    rows = [*SPECIALS, *syllables, *("##" + one for one in syllables), "."]
    lines = ["피곤해 보이네."] * 90
    apart = [unicodedata.normalize("NFD", line) for line in lines]
    tokenizer = Tokenizer(rows, TokenizerConfig(strip_accents=False))
    composing = Tokenizer(rows, TokenizerConfig(strip_accents=False, unicode_form="NFC"))
    told = r"67% of the sample's tokens .* 90 of the 90 texts of the sample hold Hangul that is dec"
    with pytest.raises(ValueError, match=f"{told}.* learned with --unicode-form NFC, or compose"):
        warnings_for(tmp_path, apart, tokenizer)
    assert warnings_for(tmp_path, apart, composing) == warnings_for(tmp_path, lines, tokenizer)
    # Of a few it is a warning.
    first, *_ = warnings_for(tmp_path, [*lines, *apart[:5]], tokenizer)
    assert first.startswith("5 of the 95 texts of the sample hold Hangul that is decomposed")
