"""Experiments, labelled sets and a machine -> about what all of it will take: lines for a person.

It makes nothing but a measurement of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from bertsmith.commands.reproduce_options import Reproduce
from bertsmith.commands.reproduction.exam_sets import ExamSets
from bertsmith.commands.reproduction.needs import Needs, counted, tokens
from bertsmith.recipes.experiments.experiment import Experiment
from bertsmith.recipes.experiments.scales import Scale
from bertsmith.runs.experiments.cost import measured_rate
from bertsmith.runs.experiments.flops import pretraining_flops
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.experiments.presence import is_there
from bertsmith.runs.progress import duration

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
    """The plan, with time and memory from a measured step of the largest model.

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
    yield f"{'expected':<13}{_expected(whole, left, scale, sets, device)}"
    yield f"{'in':<13}{options.out}, where every part that is finished is found again"


def _told_runs(needs: Needs) -> str:
    """How many models are pre-trained, and what they are called."""
    runs = list(needs.runs)
    more = len(runs) - _MOST_SHOWN
    told = ", ".join(runs[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{counted(len(runs), 'run')} of {tokens(needs.runs.values())} at most: {told}"


def _expected(whole: Needs, left: Needs, scale: Scale, sets: ExamSets, device: torch.device) -> str:
    """Time of what is not there yet, and memory."""
    if not whole.runs:
        return "nothing can be measured: tables of the paper's figures, with what is missing"
    if not (left.runs or left.scores):
        return "all of it is there"
    largest = max(
        (model.run for model in whole.runs.values()),
        key=lambda run: pretraining_flops(run, vocab_size=scale.vocab_size, steps=1),
    )
    rate, peak = measured_rate(largest, scale.vocab_size, device)
    seconds, all_seconds = (
        needs.flops(scale.vocab_size, sets.sizes) / rate + _SECONDS_A_RUN * needs.num_finetunings
        for needs in (left, whole)
    )
    of_all = "" if seconds == all_seconds else f" of {duration(all_seconds)} in all"
    return (
        f"about {duration(seconds)}{of_all} for what is not there yet, at {rate / 1e9:,.0f} "
        f"GFLOP/s on {device} (measured); at least {peak / 2**30:.1f} GiB of memory"
    )
