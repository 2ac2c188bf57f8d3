"""The most memory that a vocabulary and a corpus ever take does not grow with the text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SMALL_MB, LARGE_MB = 8, 32
ALLOWED_MB = 12  # half of what the larger text has more; the peaks of one text differ by a few
# A small process in between: a new process begins with the peak of the one that starts it.
PEAK_OF_A_COMMAND = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
# What waits for a full shard is kept: shards are small here, so that both texts fill several.
BUILD = """
import sys
from pathlib import Path
from bertsmith.corpus.build import build
from bertsmith.corpus.build_rules import BuildRules
from bertsmith.reading.documents import find_sources
from bertsmith.text.tokenizer import Tokenizer

text, vocab, out = map(Path, sys.argv[1:])
rules = BuildRules(held_out=0.01, shard_tokens=1 << 20)
build(find_sources([text]), Tokenizer.load(vocab), out, rules, num_workers=1)
"""


def write_text(path: Path, megabytes: int) -> Path:
    """Writes documents of eight sentences, a line each, of 20,000 made-up words."""
    draw = np.random.default_rng(1)
    letters = draw.integers(ord("a"), ord("z") + 1, (20_000, 9), dtype=np.uint8)
    words = np.array([row.tobytes()[: 2 + n % 8].decode() for n, row in enumerate(letters)])
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < megabytes << 20:
            for document in words[draw.integers(0, len(words), (100, 8, 12))].tolist():
                file.write("\n".join(" ".join(sentence) + "." for sentence in document) + "\n\n")
    return path


def peak_mb(*arguments: object) -> float:
    """The peak of `python ARGUMENTS`, in a process of its own."""
    answer = subprocess.run(
        [sys.executable, "-c", PEAK_OF_A_COMMAND, sys.executable, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    # Linux counts in KiB, macOS in bytes.
    return int(answer.stdout) / (1 << 20 if sys.platform == "darwin" else 1 << 10)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such count of memory")
def test_four_times_the_text_takes_no_more_memory(tmp_path: Path) -> None:
    texts = [write_text(tmp_path / f"{size}.txt", size) for size in (SMALL_MB, LARGE_MB)]
    vocabularies = [tmp_path / f"vocab-of-{text.stem}" for text in texts]
    options = ("--vocab-size", 4_000, "--workers", 1)
    learning = [
        peak_mb("-m", "bertsmith", "learn-vocab", text, "--out", out, *options)
        for text, out in zip(texts, vocabularies, strict=True)
    ]
    building = [
        peak_mb("-c", BUILD, text, vocabularies[0], tmp_path / f"corpus-of-{text.stem}")
        for text in texts
    ]
    assert learning[1] - learning[0] < ALLOWED_MB, learning
    assert building[1] - building[0] < ALLOWED_MB, building
