"""Word counts are exact, bounded in memory, and independent of how they were made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertsmith.text import counting
from bertsmith.text.counting import SPECIAL_TOKENS, CountRules, count_batches, count_words
from bertsmith.text.runs import SortedRuns, read_run
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.processes import is_running, wait_until

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
@settings(max_examples=80)
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


def test_counts_are_the_same_bytes_for_any_workers_and_any_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_BATCH_CHARACTERS", 100_000)
    texts = [f"Number {n} of {n % 97} 개입니다. été" for n in range(20_000)] * 2
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


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_is_an_error_with_the_runs_name(tmp_path: Path) -> None:
    runs = SortedRuns(tmp_path, memory_bytes=1)
    with pytest.raises(OSError, match="large") as stop:
        runs.add({f"w{number}": 1 for number in range(99)})
    assert stop.value.filename == str(tmp_path / "run-00000.tsv")


def test_no_text_has_no_words(tmp_path: Path) -> None:
    counts = count_words(["", " \n"], UNCASED, workers=1, scratch=tmp_path)
    assert (counts.num_words, counts.num_distinct, list(counts)) == (0, 0, [])


def dies_at_three(number: int) -> tuple[list[str], dict[str, int], int]:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return ["a word"], {}, number


def test_a_killed_worker_is_a_clear_error(tmp_path: Path) -> None:
    rules = CountRules(tokenizer=UNCASED, workers=2, scratch=tmp_path, memory_bytes=1 << 20)
    with pytest.raises(ChildProcessError, match=r"exit code -9.*use fewer workers"):
        count_batches(range(9), dies_at_three, rules)


def sleeps(folder: Path) -> tuple[list[str], dict[str, int], int]:
    (folder / str(os.getpid())).touch()
    time.sleep(600)
    return [], {}, 0


KILLED_COUNT = """
import sys
from pathlib import Path
from bertsmith.text.counting import CountRules, count_batches
from tests.text.test_counting import UNCASED, sleeps

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    rules = CountRules(tokenizer=UNCASED, workers=2, scratch=folder / "s", memory_bytes=1 << 20)
    count_batches([folder / "started"] * 2, sleeps, rules)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_workers_do_not_outlive_a_killed_count(tmp_path: Path) -> None:
    script, started = tmp_path / "count.py", tmp_path / "started"
    script.write_text(KILLED_COUNT)
    started.mkdir()
    root = Path(counting.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen([sys.executable, script, tmp_path], env=environment) as process:
        wait_until(lambda: len(list(started.iterdir())) == 2)
        process.kill()
    workers = [int(path.name) for path in started.iterdir()]
    wait_until(lambda: not any(is_running(worker) for worker in workers))
