"""So many megabytes of text -> what building a corpus of them costs, and opening it.

Building is timed as a person runs it, start of the program and checksums included; its memory is
that of all its processes together. Opening is what a run does before its first step: the manifest,
the plan, the first batch of 32 x 128, in a process that does nothing else.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.batches import Shape, batches_of
from benchmarks.process_memory import own_peak_bytes, run_watched
from benchmarks.processes import apart
from benchmarks.scaling.axes import TRAINING, Point
from benchmarks.scaling.renamed import write_text


@dataclass(frozen=True, kw_only=True)
class CorpusPoint:
    """What one size of text cost."""

    building: Point
    opening: Point


def measured(
    texts: Sequence[str], megabytes: float, vocabulary: Path, scratch: Path
) -> CorpusPoint:
    """Writes the text, builds a corpus of it, and opens that."""
    text, corpus = scratch / "text", scratch / "corpus"
    text_bytes = write_text(texts, megabytes, text)
    command = [sys.executable, "-m", "bertsmith", "build-corpus", str(text)]
    built = run_watched([*command, "--vocab", str(vocabulary), "--out", str(corpus)], os.environ)
    size = text_bytes / 1e6
    seconds, peak_bytes = apart(opened, corpus)
    return CorpusPoint(
        building=Point(value=size, seconds=built.seconds, peak_bytes=built.peak_bytes),
        opening=Point(value=size, seconds=seconds, peak_bytes=peak_bytes),
    )


def opened(corpus: Path) -> tuple[float, int]:
    """Seconds from nothing to the first batch, and the most memory of this process."""
    shape = Shape(num_sequences=TRAINING.batch, length=TRAINING.length, corpus=corpus)
    began = time.perf_counter()
    batches_of(TRAINING.config, shape)(0)
    return time.perf_counter() - began, own_peak_bytes()
