"""`bertsmith build-corpus`: folders of text and a vocabulary -> a tokenised corpus on disk.

What there is to see is here: the check before the start, the bar with the time left, the report at
the end. The work is `corpus.build`'s.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bertsmith.commands.paths import require_destination, require_text
from bertsmith.commands.stages import Stage
from bertsmith.commands.text_options import HELD_OUT, BuildCorpus
from bertsmith.corpus import build
from bertsmith.corpus.build_rules import BuildRules
from bertsmith.corpus.manifest import FILE_NAME, Manifest
from bertsmith.corpus.preflight import check_vocabulary
from bertsmith.reading.documents import find_sources
from bertsmith.runs.progress import duration, say
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.workers import choose_workers


def build_corpus(run: BuildCorpus, console: Console | None = None) -> Manifest:
    """Builds the corpus, or finishes or finds it, and prints the report.

    Raises FileNotFoundError or ValueError for input that cannot be read or a vocabulary that does
    not belong to it, before the long work.
    """
    console = console or Console()
    reading = run.reading
    rules = BuildRules(
        language=reading.language,
        held_out=HELD_OUT if run.held_out is None else run.held_out,
        holds_out_one=run.held_out is None,
        seed=run.seed,
    )
    require_destination(run.out, run.inputs, "the corpus's")
    require_text(run.inputs, "name the text that it was built from")
    tokenizer = Tokenizer.load(run.vocab)
    skipped: Counter[str] = Counter()
    sources = find_sources(run.inputs, reading.format, reading.text_field, skipped=skipped)
    is_new = not (run.out / FILE_NAME).is_file()
    if is_new:
        for warning in check_vocabulary(sources, tokenizer, reading.language):
            say(console, f"warning: {warning}")
    size = sum(source.size_bytes for source in sources)
    start = time.perf_counter()
    with Stage(console, "build-corpus", "bytes", size) as stage:
        manifest = build.build(
            sources,
            tokenizer,
            run.out,
            rules,
            num_workers=choose_workers(reading.workers, size),
            skipped=skipped,
            on_progress=_shown(stage),
        )
    _report(console, run.out, manifest, time.perf_counter() - start if is_new else None)
    return manifest


def _shown(stage: Stage) -> Callable[[build.Progress], None]:
    """Renews the stage, with the rate since the first block: a resumed build did more before."""
    first: list[tuple[float, int]] = []

    def show(progress: build.Progress) -> None:
        now = time.perf_counter()
        if not first:
            first.append((now, progress.tokens))
        began, before = first[0]
        facts = [f"{progress.documents:,} documents", f"{progress.tokens:,} tokens"]
        if now > began:
            facts.append(f"{(progress.tokens - before) / (now - began):,.0f} tokens/s")
        stage.reach(progress.bytes_read, *facts)

    return show


def _report(console: Console, out: Path, manifest: Manifest, seconds: float | None) -> None:
    report = manifest.report
    for line in report.lines():
        say(console, f"  {line}")
    size = sum(file.stat().st_size for file in out.glob("*/shard-*.npy"))
    on_disk = f"{size / 1e6:,.1f} MB, {size / report.tokens:.2f} bytes a token"
    if seconds is None:
        say(console, f"corpus: {out}, made before ({on_disk})")
    else:
        took = f"{duration(seconds)}, {_rate(report.characters / seconds)}"
        say(console, f"corpus: {out} ({on_disk}; {took})")
    for warning in _warnings(manifest):
        say(console, f"warning: {warning}")


def _rate(characters_per_second: float) -> str:
    millions = characters_per_second / 1e6
    if millions >= 1:
        return f"{millions:.1f} million characters/s"
    return f"{characters_per_second / 1e3:.1f} thousand characters/s"


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
