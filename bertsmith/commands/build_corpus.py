"""`bertsmith build-corpus`: folders of text and a vocabulary -> a tokenised corpus on disk.

What there is to see is here: the check before the start, the bar with the time left, the report at
the end. The work is `corpus.build`'s.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from bertsmith.corpus import build
from bertsmith.corpus.build_rules import BuildRules
from bertsmith.corpus.manifest import FILE_NAME, Manifest
from bertsmith.corpus.preflight import check_vocabulary
from bertsmith.reading.documents import Format, Language, find_sources
from bertsmith.runs.progress import duration
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.workers import choose_workers

_SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True, kw_only=True)
class BuildCorpus:
    """Turns text into token ids with sentence and document boundaries, once.

    Interrupted or killed, it goes on when it is started again in the same way.
    """

    inputs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Files or folders: plain text, JSONL, Parquet, WikiExtractor output, a MediaWiki dump;
    compressed (.gz .xz .bz2 .zst, .tar) or not."""
    vocab: Path
    """A vocab.txt, a tokenizer.json or a directory that holds them."""
    out: Path
    """The corpus's directory."""
    workers: int = 0
    """Processes that encode; 0: one a core. The result does not depend on it."""
    held_out: float = 0.01
    """Share of the documents kept for evaluation."""
    language: Language = "auto"
    """Whose rules split prose into sentences."""
    format: Format = "auto"
    """What the files are; auto looks at each."""
    text_field: str = "text"
    """The field or column that holds the text, in JSONL and Parquet."""
    seed: int = 0
    """Chooses the documents that are held out."""

    def __post_init__(self) -> None:
        """Refuses what could only fail later."""
        if self.workers < 0:
            raise ValueError(f"workers must be at least 0, found {self.workers}")


def build_corpus(run: BuildCorpus, console: Console | None = None) -> Manifest:
    """Builds the corpus, or finishes or finds it, and prints the report.

    Raises FileNotFoundError or ValueError for input that cannot be read or a vocabulary that does
    not belong to it, before the long work.
    """
    console = console or Console()
    rules = BuildRules(language=run.language, held_out=run.held_out, seed=run.seed)
    _require_outside(run)
    tokenizer = Tokenizer.load(run.vocab)
    skipped: Counter[str] = Counter()
    sources = find_sources(run.inputs, run.format, run.text_field, skipped=skipped)
    is_new = not (run.out / FILE_NAME).is_file()
    if is_new:
        for warning in check_vocabulary(sources, tokenizer, run.language):
            _say(console, f"warning: {warning}")
    workers = choose_workers(run.workers, sum(source.size_bytes for source in sources))
    start = time.perf_counter()
    with _Display(console) as display:
        manifest = build.build(
            sources,
            tokenizer,
            run.out,
            rules,
            num_workers=workers,
            skipped=skipped,
            on_progress=display.show,
        )
    _report(console, run.out, manifest, time.perf_counter() - start if is_new else None)
    return manifest


class _Display:
    """The build as it happens: a bar on a terminal, else a line every ten seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("build-corpus"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None)
        self._first: tuple[float, build.Progress] | None = None
        self._latest_line = time.perf_counter()

    def __enter__(self) -> _Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, progress: build.Progress) -> None:
        """Renews the bar, or prints a line when it is time for one."""
        # Measured from the first block on, so that a resumed build counts from where it went on.
        now = time.perf_counter()
        self._first = self._first or (now, progress)
        line = _line(progress, self._first[1], now - self._first[0])
        self._bar.update(
            self._task,
            completed=progress.bytes_read,
            total=progress.input_bytes,
            description=line,
        )
        if not self._console.is_terminal and now - self._latest_line > _SECONDS_BETWEEN_LINES:
            self._latest_line = now
            share = progress.bytes_read / max(1, progress.input_bytes)
            _say(self._console, f"build-corpus {share:.0%}  {line}")


def _line(progress: build.Progress, first: build.Progress, seconds: float) -> str:
    facts = f"{progress.documents:,} documents  {progress.tokens:,} tokens"
    tokens, read = progress.tokens - first.tokens, progress.bytes_read - first.bytes_read
    if seconds <= 0 or read <= 0:
        return facts
    left = duration((progress.input_bytes - progress.bytes_read) * seconds / read)
    return f"{facts}  {tokens / seconds:,.0f} tokens/s  {left} left"


def _report(console: Console, out: Path, manifest: Manifest, seconds: float | None) -> None:
    report = manifest.report
    for line in report.lines():
        _say(console, f"  {line}")
    size = sum(file.stat().st_size for file in out.glob("*/shard-*.npy"))
    on_disk = f"{size / 1e6:,.1f} MB, {size / report.tokens:.2f} bytes a token"
    if seconds is None:
        _say(console, f"corpus: {out}, made before ({on_disk})")
    else:
        rate = report.characters / 1e6 / seconds
        took = f"{duration(seconds)}, {rate:.1f} million characters/s"
        _say(console, f"corpus: {out} ({on_disk}; {took})")
    for warning in _warnings(manifest):
        _say(console, f"warning: {warning}")


def _warnings(manifest: Manifest) -> list[str]:
    """What a person should know before training on this corpus."""
    report = manifest.report
    trained_on = report.documents - report.held_out_documents
    warnings = []
    if trained_on == 1:
        warnings.append(
            "the corpus is a single document: next-sentence prediction needs others to take random "
            "sentences from. In plain text a blank line separates documents"
        )
    elif report.one_sentence_documents * 2 > report.documents:
        share = report.one_sentence_documents / report.documents
        warnings.append(
            f"{share:.0%} of the documents have one sentence, and none of these can show a true "
            f"next sentence. Are there too many blank lines?"
        )
    if report.duplicate_lines * 5 > report.sentences:
        share = report.duplicate_lines / report.sentences
        warnings.append(f"{share:.0%} of the sentences are repeated: remove what is copied")
    if not report.held_out_documents:
        warnings.append(
            f"no document is held out for evaluation: there are {report.documents:,} in all. Raise "
            f"--held-out, or cut the text into more documents"
        )
    return warnings


def _require_outside(run: BuildCorpus) -> None:
    """Else the corpus's own files would be read as text the next time."""
    out = run.out.resolve()
    for path in run.inputs:
        if out.is_relative_to(path.resolve()):
            raise ValueError(
                f"the corpus's directory {run.out} lies inside the input {path}; choose one "
                f"outside of it"
            )


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
