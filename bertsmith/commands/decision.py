"""What a person asked for -> a run with nothing left open, its plan printed, run.json written.

The end of `pretrain`'s first half: the corpus is there, and from here on only the run's directory
counts. The rules are in `runs/planning.py`; it does not train.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import torch
from rich.console import Console

from bertsmith.commands.model_start import begin_with
from bertsmith.commands.preparation import corpus_of, is_corpus
from bertsmith.commands.request import Request
from bertsmith.commands.stages import Stage
from bertsmith.corpus.store import Corpus
from bertsmith.model.config import SIZES, BertConfig
from bertsmith.reading.counted import counted
from bertsmith.reading.documents import find_sources, read_raw
from bertsmith.recipes.pretraining import scaled
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.directory import Record, fingerprint, versions
from bertsmith.runs.measuring import Bench, Measurement, measure, num_steps_to_measure
from bertsmith.runs.planning import (
    PEAK_RATES,
    choose_size,
    described,
    fitted,
    late_warning,
    warnings,
)
from bertsmith.runs.pretrain_start import PretrainStart
from bertsmith.runs.progress import say
from bertsmith.runs.room import pretraining_bytes, told_room
from bertsmith.runs.together import command_line
from bertsmith.train.device import Processes, choose_precision, recorded_precision

_LEAST_SECONDS = 20.0  # of training, whatever the preparation took
_SHARE_FOR_MEASURING = 0.1  # of the minutes asked, at most
_SHARE_FOR_MEASURING_AGAIN = 0.05  # of the time left: later no further measurement begins
Measuring = Callable[[PretrainRun], Measurement]
_NEAR = 1.25  # rates within this factor of each other agree


def decide(
    request: Request,
    directory: Path,
    device: torch.device,
    processes: Processes,
    console: Console,
) -> Record:
    """Makes the corpus where it is missing, fills in what was left open, and prints the plan.

    Raises ValueError for text or a run that cannot be trained, as early as it can be known.
    """
    began = time.perf_counter()
    if "next_sentence" in request.run.objectives:
        _require_two_documents(request)
    start, text = None, request.text
    if request.model is not None:
        start, text = begin_with(request.model, request, directory, console)
    path = corpus_of(request.texts, text, directory, console)
    bench = Bench(corpus=Corpus.open(path), device=device, processes=processes)
    precision = choose_precision(request.run.precision, device)
    run = replace(request.run, model=_model(request, start, bench.corpus), precision=precision)
    measured = _measuring(bench, request.minutes, console)
    until = None if request.minutes is None else began + 60.0 * request.minutes
    measuring_began = time.perf_counter()
    run, notes, measurement = _sized(run, request, bench.corpus, measured, until)
    run, measurement = _fitted(run, request.kept, bench.corpus, measured, until, measurement)
    now, is_drawn = time.perf_counter(), start is None
    late = late_warning(request.minutes, now - began, now - measuring_began, is_drawn=is_drawn)
    if request.minutes is not None:
        told = counted(request.minutes, "minute")
        notes.append(f"{counted(run.num_steps, 'step')} chosen for {told} in all")
    warned = [*([late] if late else []), *warnings(run, bench.corpus, is_drawn=is_drawn)]
    disk = ("disk", told_room(pretraining_bytes(run), directory))
    _tell([*described(run, bench, measurement), disk], warned, console)
    return Record(
        run=run,
        corpus=path,
        corpus_fingerprint=fingerprint(path),
        command=command_line(sys.argv[1:], processes),
        request=request.asked,
        notes=(*(start.notes(run) if start is not None else ()), *notes),
        seconds_per_step=measurement.seconds_per_step,
        peak_bytes=measurement.peak_bytes,
        unigram_entropy=bench.corpus.unigram_entropy,
        versions=versions(device, processes, recorded_precision(run.precision, device)),
        model=start.place if start is not None else "",
        model_fingerprint=start.fingerprint if start is not None else "",
        ancestry=start.ancestry if start is not None else (),
    )


def with_size(run: PretrainRun, size: str, brings: Iterable[str]) -> PretrainRun:
    """The run with a model of a named size, and the peak rate and initial weights it brings."""
    model, optimizer = run.model.shaped(SIZES[size]), run.optimizer
    if "initializer_range" in brings:
        model = scaled(model)
    if "learning_rate" in brings:
        optimizer = replace(optimizer, learning_rate=PEAK_RATES[size])
    return replace(run, model=model, optimizer=optimizer)


def settled(run: PretrainRun, measured: Measuring, seconds: float) -> Measurement:
    """Measures until two rates in a row agree, for a busy moment is not the machine.

    No further measurement begins after `seconds`; the last one is believed.
    """
    until = time.perf_counter() + seconds
    found = measured(run)
    while time.perf_counter() < until:
        before, found = found, measured(run)
        slower, faster = sorted((before.tokens_per_second, found.tokens_per_second))
        if faster <= _NEAR * slower:
            break
    return found


def _tell(plan: Iterable[tuple[str, str]], warned: Iterable[str], console: Console) -> None:
    for name, value in plan:
        say(console, f"{name:<13}{value}")
    for warning in warned:
        say(console, f"warning: {warning}")


def _model(request: Request, start: PretrainStart | None, corpus: Corpus) -> BertConfig:
    """The sizes asked for, or those of the model that is gone on from."""
    if start is not None:
        return start.config
    return replace(request.run.model, vocab_size=corpus.tokenizer().vocab_size)


def _require_two_documents(request: Request) -> None:
    """Looks no further than the second document; a corpus is asked when it is opened."""
    if is_corpus(request.texts):
        return
    sources = find_sources(
        request.texts, request.text.reading.format, request.text.reading.text_field
    )
    if len(list(islice(chain.from_iterable(map(read_raw, sources)), 2))) < 2:
        raise ValueError(
            f"next_sentence needs at least 2 documents, found 1 in {request.texts[0]}: separate "
            f"the documents (one file each, or a blank line between them where a line is a "
            f"sentence), or leave next_sentence out (--objectives masked_lm)"
        )


def _measuring(bench: Bench, minutes: float | None, console: Console) -> Measuring:
    """Measures in view of the person, all measurements together in a tenth of the minutes."""
    say(console, "measuring real steps on this machine ...")
    until = math.inf
    if minutes is not None:
        until = time.perf_counter() + _SHARE_FOR_MEASURING * 60.0 * minutes

    def measured(run: PretrainRun) -> Measurement:
        total, waiting = num_steps_to_measure(run), "kernels are being made"
        with Stage(console, "measuring", "steps", total, waiting) as stage:
            return measure(run, bench, until, stage.reach)

    return measured


def _sized(
    run: PretrainRun,
    request: Request,
    corpus: Corpus,
    measured: Measuring,
    until: float | None,
) -> tuple[PretrainRun, list[str], Measurement | None]:
    """The run with the size that was asked for or, for `auto`, chosen; why; what is known of it."""
    if request.size == "recipe":
        return run, [], None
    if request.size != "auto":
        return with_size(run, request.size, request.brings), [], None
    mini = with_size(run, "mini", request.brings)
    seconds = _seconds_to(until)
    known = settled(mini, measured, _SHARE_FOR_MEASURING_AGAIN * seconds)
    size = choose_size(known.tokens_per_second, "mini", seconds, corpus.num_tokens, run.model)
    note = (
        f"size {size} chosen for {corpus.num_tokens:,} tokens of text and "
        f"{counted(round(seconds / 60), 'minute')} at mini's "
        f"{known.tokens_per_second:,.0f} tokens/s"
    )
    if size == "mini":
        return mini, [note], known
    return with_size(run, size, request.brings), [note], None


def _fitted(
    run: PretrainRun,
    kept: Collection[str],
    corpus: Corpus,
    measured: Measuring,
    until: float | None,
    known: Measurement | None,
) -> tuple[PretrainRun, Measurement]:
    """The run with as many steps as the time allows, and what one costs."""
    if until is None:
        return run, measured(run)
    again = _SHARE_FOR_MEASURING_AGAIN * _seconds_to(until)
    measurement = known or settled(run, measured, again)
    longer = fitted(run, measurement, _seconds_to(until), corpus, kept)
    if longer.phases[0].batch_size != run.phases[0].batch_size:
        measurement = measured(longer)
    return longer, measurement


def _seconds_to(until: float | None) -> float:
    assert until is not None, "a size is chosen and steps are fitted for a time only"
    return max(_LEAST_SECONDS, until - time.perf_counter())
