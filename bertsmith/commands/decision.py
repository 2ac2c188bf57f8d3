"""What a person asked for -> a run with nothing left open, its plan printed, run.json written.

The end of `pretrain`'s first half: the corpus is there, and from here on only the run's directory
counts. The rules are in `runs/planning.py`; it does not train.
"""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from bertsmith.commands.preparation import TextChoices, corpus_of
from bertsmith.corpus.store import Corpus
from bertsmith.model.config import SIZES
from bertsmith.recipes.pretraining import scaled
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.directory import Record, fingerprint, versions
from bertsmith.runs.planning import (
    PEAK_RATES,
    Bench,
    Measurement,
    choose_size,
    described,
    fitted,
    measure,
    warnings,
)
from bertsmith.train.device import Processes, choose_device, choose_precision

_LEAST_SECONDS = 20.0  # of training, whatever the preparation took


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a person asked for."""

    texts: tuple[Path, ...]
    """Folders or files of text, or one corpus."""
    text: TextChoices
    """How they become a corpus."""
    run: PretrainRun
    """The values to begin with."""
    size: str
    """A name of `model.config.SIZES`, `auto` to choose one, `recipe` to keep the run's own."""
    minutes: float | None
    """Time of the whole command, to fit the steps to; None keeps the run's own steps."""
    device: str
    """cpu, cuda, mps, or auto."""
    asked: dict[str, object]
    """The request as JSON values, to recognise it when it is made again."""


def decide(request: Request, directory: Path, processes: Processes, console: Console) -> Record:
    """Makes the corpus where it is missing, fills in what was left open, and prints the plan."""
    began = time.perf_counter()
    path = corpus_of(request.texts, request.text, directory, console)
    device = choose_device(request.device, processes)
    bench = Bench(corpus=Corpus.open(path), device=device, processes=processes)
    model = replace(request.run.model, vocab_size=bench.corpus.tokenizer().vocab_size)
    precision = choose_precision(request.run.precision, device)
    run = replace(request.run, model=model, precision=precision)
    console.print("measuring real steps on this machine ...", highlight=False)
    until = None if request.minutes is None else began + 60.0 * request.minutes
    run, notes = _sized(run, request, bench, until)
    run, measurement = _fitted(run, bench, until)
    if request.minutes is not None:
        notes.append(f"{run.num_steps:,} steps chosen for {request.minutes:g} minutes in all")
    for name, value in described(run, bench, measurement):
        console.print(f"{name:<13}{value}", markup=False, highlight=False, soft_wrap=True)
    for warning in warnings(run, bench.corpus):
        console.print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)
    return Record(
        run=run,
        corpus=path,
        corpus_fingerprint=fingerprint(path),
        command=shlex.join(["bertsmith", *sys.argv[1:]]),
        request=request.asked,
        notes=tuple(notes),
        seconds_per_step=measurement.seconds_per_step,
        peak_bytes=measurement.peak_bytes,
        unigram_entropy=bench.corpus.unigram_entropy,
        versions=versions(),
    )


def with_size(run: PretrainRun, size: str) -> PretrainRun:
    """The run with a model of a named size and initial weights to match; the rest stays."""
    named = SIZES[size]
    model = replace(
        run.model,
        num_hidden_layers=named.num_hidden_layers,
        hidden_size=named.hidden_size,
        num_attention_heads=named.num_attention_heads,
        intermediate_size=named.intermediate_size,
    )
    return replace(run, model=scaled(model))


def with_peak_rate(run: PretrainRun, asked: PretrainRun, size: str) -> PretrainRun:
    """The run with the size's peak rate, unless another than MINI's recipe's was asked for."""
    if asked.optimizer.learning_rate != PEAK_RATES["mini"]:
        return run
    rate = PEAK_RATES[size]
    return replace(run, optimizer=replace(run.optimizer, learning_rate=rate))


def _sized(
    run: PretrainRun, request: Request, bench: Bench, until: float | None
) -> tuple[PretrainRun, list[str]]:
    """The run with the size that was asked for or, for `auto`, chosen; and why."""
    if request.size == "recipe":
        return run, []
    size, notes = request.size, list[str]()
    if size == "auto":
        mini = measure(with_size(run, "mini"), bench)
        seconds = _seconds_to(until)
        size = choose_size(mini.tokens_per_second, "mini", seconds, bench.corpus.num_tokens)
        notes.append(
            f"size {size} chosen for {bench.corpus.num_tokens:,} tokens of text and "
            f"{seconds / 60:.0f} minutes at mini's {mini.tokens_per_second:,.0f} tokens/s"
        )
    return with_peak_rate(with_size(run, size), request.run, size), notes


def _fitted(run: PretrainRun, bench: Bench, until: float | None) -> tuple[PretrainRun, Measurement]:
    """The run with as many steps as the time allows, and what one costs."""
    measurement = measure(run, bench)
    if until is None:
        return run, measurement
    longer = fitted(run, measurement, _seconds_to(until), bench.corpus)
    if longer.phases[0].batch_size != run.phases[0].batch_size:
        measurement = measure(longer, bench)
    return longer, measurement


def _seconds_to(until: float | None) -> float:
    assert until is not None, "a size is chosen and steps are fitted for a time only"
    return max(_LEAST_SECONDS, until - time.perf_counter())
