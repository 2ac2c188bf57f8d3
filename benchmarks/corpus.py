"""Building a corpus beside the bare tokenizer: rate, memory, bytes a token.

    python -m benchmarks.corpus --vocab VOCAB --plain BOOKS --wikiextractor WIKI --mediawiki DUMP

The bare tokenizer is the `tokenizers` library's fastest call, ids alone, on the sentences that the
corpus keeps, already in memory, with as many threads as the build has workers. `build-corpus` is
timed as a person runs it: start of the program, decompression, cleaning, sentences, tokens,
duplicates and checksums included. Both take turns (A B A B ...); medians are reported, in millions
of the sentences' characters a second. A text of few megabytes measures the program's start.

Memory is that of all processes together; two workers should stay within 1 GiB, each further one
within 200 MB more. MediaWiki markup is reported, not judged: most of it is thrown away.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from benchmarks.machine import append_row
from benchmarks.process_memory import Finished, run_watched
from bertsmith.corpus.manifest import Manifest
from bertsmith.reading.documents import find_sources, read_raw, sentences_of
from bertsmith.text.tokenizer import Tokenizer

Kind = Literal["plain", "wikiextractor", "mediawiki"]
KINDS: tuple[Kind, ...] = ("plain", "wikiextractor", "mediawiki")
TARGET_SHARE = 0.9
TARGET_BYTES_A_TOKEN = 2.2
_SENTENCES_AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one kind of input gave; lists hold one figure a round."""

    kind: Kind
    files: list[str]
    input_bytes: int
    characters: int
    tokens: int
    vocab_size: int
    workers: int
    bare_seconds: list[float]
    build_seconds: list[float]
    bare_rate: float
    """Median, million characters of the sentences a second."""
    build_rate: float
    share_of_bare: float
    peak_bytes: int
    memory_bound_bytes: int
    bytes_a_token: float


def main() -> None:
    """Measures every kind of input that is named, and appends one row each."""
    options = _options()
    if options.bare:
        print(bare_seconds(options.bare, options.vocab))
        return
    for kind in KINDS:
        paths = getattr(options, kind)
        if paths:
            row = measure(kind, paths, options)
            print(line(row))
            append_row("corpus", asdict(row))


def measure(kind: Kind, paths: Sequence[Path], options: argparse.Namespace) -> Row:
    """Alternates the bare tokenizer and the build, on the same cores."""
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        sentences, out = Path(scratch) / "sentences.txt", Path(scratch) / "corpus"
        characters = write_sentences(paths, sentences)
        bare: list[float] = []
        built: list[Finished] = []
        for _ in range(options.rounds):
            bare.append(_bare(sentences, options.vocab, options.workers))
            shutil.rmtree(out, ignore_errors=True)
            built.append(_build(paths, options.vocab, out, options.workers))
        report = Manifest.read(out).report
        shard_bytes = sum(file.stat().st_size for file in out.glob("*/shard-*.npy"))
    bare_rate = characters / 1e6 / statistics.median(bare)
    build_rate = report.characters / 1e6 / statistics.median(each.seconds for each in built)
    return Row(
        kind=kind,
        files=[path.name for path in paths],
        input_bytes=report.input_bytes,
        characters=report.characters,
        tokens=report.tokens,
        vocab_size=Tokenizer.load(options.vocab).vocab_size,
        workers=options.workers,
        bare_seconds=[round(seconds, 3) for seconds in bare],
        build_seconds=[round(each.seconds, 3) for each in built],
        bare_rate=bare_rate,
        build_rate=build_rate,
        share_of_bare=build_rate / bare_rate,
        peak_bytes=max(each.peak_bytes for each in built),
        memory_bound_bytes=memory_bound(options.workers),
        bytes_a_token=shard_bytes / report.tokens,
    )


def memory_bound(workers: int) -> int:
    """1 GiB with two workers, 200 MB more for each further one."""
    return (1 << 30) + max(0, workers - 2) * 200_000_000


def write_sentences(paths: Sequence[Path], out: Path) -> int:
    """Writes the sentences that a corpus keeps, one a line; returns their characters."""
    characters = 0
    with out.open("w", encoding="utf-8", newline="\n") as file:
        for source in find_sources(paths):
            for raw in read_raw(source):
                for sentence in sentences_of(raw):
                    characters += len(sentence)
                    file.write(sentence.replace("\n", " ") + "\n")
    return characters


def bare_seconds(sentences: Path, vocabulary: Path) -> float:
    """Seconds that the library needs for the ids of all sentences, reading them left out."""
    with tempfile.TemporaryDirectory() as folder:
        Tokenizer.load(vocabulary).save(Path(folder))
        import tokenizers

        bare = tokenizers.Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    bare.no_truncation()
    bare.no_padding()
    seconds = 0.0
    for batch in _batches(sentences):
        began = time.perf_counter()
        bare.encode_batch_fast(batch, add_special_tokens=False)
        seconds += time.perf_counter() - began
    return seconds


def line(row: Row) -> str:
    """The row for a person."""
    judged = "" if row.kind == "mediawiki" else f" (target {TARGET_SHARE:.0%})"
    return (
        f"{row.kind}: {row.build_rate:.2f} million characters/s with {row.workers} workers, the "
        f"bare tokenizer {row.bare_rate:.2f}: {row.share_of_bare:.0%}{judged}; all processes "
        f"together at most {row.peak_bytes / 2**20:,.0f} MiB (bound "
        f"{row.memory_bound_bytes / 2**20:,.0f}); {row.bytes_a_token:.3f} bytes a token (bound "
        f"{TARGET_BYTES_A_TOKEN})"
    )


def _bare(sentences: Path, vocabulary: Path, workers: int) -> float:
    """In a process of its own: the library reads its number of threads once."""
    threads = {"TOKENIZERS_PARALLELISM": "true", "RAYON_NUM_THREADS": str(workers)}
    command = [sys.executable, "-m", "benchmarks.corpus"]
    command += ["--bare", str(sentences), "--vocab", str(vocabulary)]
    result = subprocess.run(
        command, env={**os.environ, **threads}, stdout=subprocess.PIPE, text=True, check=True
    )
    return float(result.stdout)


def _build(paths: Sequence[Path], vocabulary: Path, out: Path, workers: int) -> Finished:
    command = [sys.executable, "-m", "bertsmith", "build-corpus", *map(str, paths)]
    command += ["--vocab", str(vocabulary), "--out", str(out), "--workers", str(workers)]
    return run_watched(command, os.environ)


def _batches(sentences: Path) -> Iterator[list[str]]:
    with sentences.open(encoding="utf-8", newline="\n") as file:
        while batch := [text.rstrip("\n") for text in islice(file, _SENTENCES_AT_ONCE)]:
            yield batch


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--vocab", type=Path, required=True, help="as build-corpus takes it")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, help="where to write; needs twice the text's size")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.bare and not any(getattr(options, kind) for kind in KINDS):
        parser.error("name at least one file with --plain, --wikiextractor or --mediawiki")
    return options


if __name__ == "__main__":
    main()
