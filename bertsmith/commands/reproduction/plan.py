"""Experiments, labelled sets and a machine -> about what all of it will take: lines for a person.

It makes nothing but a measurement of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch

from bertsmith.commands.reproduce_options import Reproduce
from bertsmith.commands.reproduction.exam_sets import ExamSets
from bertsmith.commands.reproduction.needs import Needs, num_runs, tokens
from bertsmith.reading.counted import counted
from bertsmith.recipes.experiments.experiment import Experiment, Pretrained, Score, models_of
from bertsmith.recipes.experiments.scales import Scale
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.experiments.cost import Cost, measured_cost
from bertsmith.runs.experiments.flops import pretraining_flops
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.experiments.presence import is_there
from bertsmith.runs.progress import duration
from bertsmith.runs.room import checkpoint_bytes, told_bytes

_MOST_SHOWN = 12
_SECONDS_A_RUN = 3.0
"""What a fine-tuning takes beside its multiplications: reading, writing, pictures."""


def planned(
    experiments: Sequence[Experiment],
    scale: Scale,
    sets: ExamSets,
    options: Reproduce,
    device: torch.device,
    site: Site | None,
) -> Iterator[str]:
    """The plan, with time and memory from measured steps of the largest model of each width.

    `site` tells what is there already; None where no corpus is, so that nobody can say.
    """
    whole = Needs.of(experiments, sets.lacks)
    left = (
        whole if site is None else Needs.of(experiments, sets.lacks, partial(is_there, site=site))
    )
    yield f"{'experiments':<13}{', '.join(each.name for each in experiments)}, scale {scale.name}"
    if whole.runs:
        yield f"{'pre-training':<13}{_told_runs(whole)}"
    if whole.scores:
        exams = ", ".join(dict.fromkeys(score.exam for score in whole.scores))
        yield f"{'fine-tuning':<13}{counted(whole.num_finetunings, 'run')} on {exams}"
    if options.found and site is None:
        yield f"{'found':<13}what other machines have found is told once the corpus is there"
    for name, reason in sets.gaps.items():
        yield f"{'missing':<13}{name}, left out: {reason}"
    for number, line in enumerate(_expected(whole, left, scale, sets, options, device)):
        yield f"{'' if number else 'expected':<13}{line}"
    yield f"{'in':<13}{options.out}, where every part that is finished is found again"


def _told_runs(needs: Needs) -> str:
    """How many models are pre-trained, and what they are called."""
    runs = list(needs.runs)
    more = len(runs) - _MOST_SHOWN
    told = ", ".join(runs[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{counted(len(runs), 'run')} of {tokens(needs.runs.values())} at most: {told}"


def _expected(
    whole: Needs,
    left: Needs,
    scale: Scale,
    sets: ExamSets,
    options: Reproduce,
    device: torch.device,
) -> Iterator[str]:
    """Time of what is not there yet, memory and disk."""
    if not whole.runs:
        yield "nothing can be measured: tables of the paper's figures, with what is missing"
        return
    if not (left.runs or left.scores):
        yield "all of it is there"
        return
    everything = list(whole.flops(scale.vocab_size, sets.sizes))
    costs = _costs([run for run, _ in everything], scale.vocab_size, options.accumulation, device)
    seconds, all_seconds = (
        sum(flops / costs[_width(run)].flops_per_second for run, flops in work)
        + _SECONDS_A_RUN * needs.num_finetunings
        for needs, work in (
            (left, left.flops(scale.vocab_size, sets.sizes)),
            (whole, everything),
        )
    )
    of_all = "" if seconds == all_seconds else f" of {duration(all_seconds)} in all"
    rates = " and ".join(
        f"{cost.flops_per_second / 1e9:,.0f} ({'LSTM ' if kind == 'lstm' else ''}H{hidden_size})"
        for (kind, hidden_size, _), cost in costs.items()
    )
    yield (
        f"about {duration(seconds)}{of_all} for what is not there yet, at {rates} GFLOP/s on "
        f"{device} (measured)"
    )
    cost = max(costs.values(), key=lambda one: one.peak_bytes)
    phase, how = cost.phase, "from fewer of them" if cost.is_extrapolated else "measured"
    yield (
        f"at least {cost.peak_bytes / 2**30:.1f} GiB of memory, for the {phase.batch_size:,} "
        f"sequences of {phase.sequence_length} tokens of the largest micro-batch ({how}; "
        f"--accumulation makes it smaller)"
    )
    yield f"{_disk(left, scale)} of disk, beside the corpus of the text"


Width = tuple[str, int, int]


def _width(run: PretrainRun) -> Width:
    """Models of one are about equally near the machine's rate, however many layers they have."""
    model = run.model
    return model.layer_kind, model.hidden_size, model.intermediate_size


def _costs(
    runs: Sequence[PretrainRun], vocab_size: int, accumulation: int, device: torch.device
) -> dict[Width, Cost]:
    """Of each width, what steps of its largest model take."""
    largest: dict[Width, tuple[float, PretrainRun]] = {}
    for run in runs:
        flops = pretraining_flops(run, vocab_size=vocab_size, steps=1)
        if flops > largest.get(_width(run), (0.0, run))[0]:
            largest[_width(run)] = (flops, run)
    return {
        width: measured_cost(replace(run, accumulation=accumulation), vocab_size, device)
        for width, (_, run) in largest.items()
    }


def _disk(left: Needs, scale: Scale) -> str:
    """Of the checkpoints of all models, and of the fine-tunings of one cell, the largest."""
    runs = [model.run for model in left.runs.values()]
    models = sum(checkpoint_bytes(run, scale.vocab_size) for run in runs)
    cells = [num_runs(score) * _of_one(score, scale) for score in left.scores]
    return f"about {told_bytes(models + max(cells, default=0))}"


def _of_one(score: Score, scale: Scale) -> int:
    """Bytes of a fine-tuning's checkpoint: as many as one of what it begins with."""
    runs = [each.run for each in models_of(score) if isinstance(each, Pretrained)]
    return sum(
        checkpoint_bytes(replace(run, keep_checkpoints=1, keep_every=0), scale.vocab_size)
        for run in runs
    )
