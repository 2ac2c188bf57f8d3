"""Experiments, labelled sets and a machine -> about what all of it will take: lines for a person.

It makes nothing but a measurement of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from bertsmith.commands.reproduce_options import Reproduce
from bertsmith.commands.reproduction.exam_sets import ExamSets
from bertsmith.commands.reproduction.needs import Needs, counted, tokens
from bertsmith.recipes.experiments.experiment import Experiment
from bertsmith.recipes.experiments.scales import Scale
from bertsmith.runs.experiments.cost import measured_rate
from bertsmith.runs.experiments.flops import pretraining_flops
from bertsmith.runs.progress import duration

_MOST_SHOWN = 12


def planned(
    experiments: Sequence[Experiment],
    scale: Scale,
    sets: ExamSets,
    options: Reproduce,
    device: torch.device,
) -> Iterator[str]:
    """The plan, with time and memory from a measured step of the largest model."""
    needs = Needs.of(experiments, sets.lacks)
    yield f"{'experiments':<13}{', '.join(each.name for each in experiments)}, scale {scale.name}"
    runs = list(needs.runs)
    more = len(runs) - _MOST_SHOWN
    told = ", ".join(runs[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
    yield (
        f"{'pre-training':<13}{counted(len(runs), 'run')} of {tokens(needs.runs.values())} at "
        f"most: {told}"
    )
    exams = ", ".join(dict.fromkeys(score.exam for score in needs.scores))
    yield f"{'fine-tuning':<13}{counted(needs.num_finetunings, 'run')} on {exams}"
    for name, reason in sets.gaps.items():
        yield f"{'missing':<13}{name}, left out: {reason}"
    largest = max(
        (model.run for model in needs.runs.values()),
        key=lambda run: pretraining_flops(run, vocab_size=scale.vocab_size, steps=1),
    )
    rate, peak = measured_rate(largest, scale.vocab_size, device)
    seconds = needs.flops(scale.vocab_size, sets.num_examples) / rate
    yield (
        f"{'expected':<13}about {duration(seconds)} for all that is not there yet, at "
        f"{rate / 1e9:,.0f} GFLOP/s on {device} (measured); at least {peak / 2**30:.1f} GiB of "
        f"memory"
    )
    yield f"{'in':<13}{options.out}, where every part that is finished is found again"
