"""Word counts are exact, bounded in memory, and independent of how they were made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertsmith.text.counting import SPECIAL_TOKENS, count_words
from bertsmith.text.runs import SortedRuns, read_run
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig

UNCASED = TokenizerConfig()
KOREAN = TokenizerConfig(lowercase=False, strip_accents=False, unicode_form="NFC")
CONFIGS = {
    "uncased": UNCASED,
    "cased": TokenizerConfig(lowercase=False, strip_accents=False),
    "korean": KOREAN,
    "jamo": TokenizerConfig(lowercase=True, strip_accents=False, unicode_form="NFKD"),
}
TRICKY = "aA1é가ᄀ中ΣςŽ.,[]_ \n\t\x00\x0b\x1c\x85\u00a0\u2028\u3000\u0301\u00a8ﬁ"


@pytest.mark.parametrize("name", CONFIGS)
@given(texts=st.lists(st.text(alphabet=TRICKY, max_size=25), max_size=4))
@example(texts=["ΑΣ ΑΣ.Β", "a\x1cb c\x85d", "[MASK] e\u0301", "\u00a8"])
@settings(max_examples=80, deadline=None)
def test_counts_equal_the_tokenizers_words_text_by_text(
    name: str, texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = CONFIGS[name]
    tokenizer = Tokenizer(SPECIAL_TOKENS, config)
    plain = Counter(word for text in texts for word, _ in tokenizer.words(text))
    counted = count_words(texts, config, workers=1, scratch=tmp_path_factory.getbasetemp())
    assert dict(counted) == dict(plain)
    assert counted.num_words == plain.total()
    assert counted.num_distinct == len(plain)


def test_counts_are_the_same_bytes_for_any_workers_and_any_memory(tmp_path: Path) -> None:
    texts = [f"Number {n} of {n % 97} 개입니다. été" for n in range(20_000)] * 4
    files = []
    for workers, memory_bytes in ((1, 1 << 29), (1, 160 * 500), (2, 160 * 5_000)):
        scratch = tmp_path / f"{workers}-{memory_bytes}"
        counts = count_words(
            texts, KOREAN, workers=workers, scratch=scratch, memory_bytes=memory_bytes
        )
        assert [path.name for path in scratch.iterdir()] == [counts.path.name]
        files.append(counts.path.read_bytes())
    assert files[0] == files[1] == files[2]


def test_runs_beyond_the_open_file_limit_are_merged_on_the_way(tmp_path: Path) -> None:
    runs = SortedRuns(tmp_path, memory_bytes=1)
    for number in range(200):
        runs.add({f"w{number % 7}": 1, "every": 2})
        assert len(list(tmp_path.iterdir())) <= 65
    assert runs.finish(tmp_path / "all") == (600, 8)
    words = dict(read_run(tmp_path / "all"))
    assert words["every"] == 400
    assert words["w0"] == 29
    assert list(words) == sorted(words)


def test_no_text_has_no_words(tmp_path: Path) -> None:
    counts = count_words(["", " \n"], UNCASED, workers=1, scratch=tmp_path)
    assert (counts.num_words, counts.num_distinct, list(counts)) == (0, 0, [])
