"""Pre-training runs and a machine -> how many multiplications they make a second, and memory.

From a few steps on tokens that mean nothing, of the phase with most tokens in a micro-batch: two
sizes of it tell what a sequence asks for, and so what the whole micro-batch does. What a run really
takes is measured when it begins.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch

from bertsmith.batch import PackedBatch, PretrainBatch
from bertsmith.files import forget_peak_memory
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.runs.experiments.flops import pretraining_flops
from bertsmith.runs.measuring import peak_bytes
from bertsmith.runs.training import Trainee, trainee
from bertsmith.train.loop import train

_MOST_TOKENS = 2_048
"""Of a step that is measured."""
_STEPS = 3


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a run takes."""

    flops_per_second: float
    peak_bytes: int
    """Of the largest micro-batch; extrapolated where it is larger than what was measured."""
    phase: Phase
    """The phase with most tokens in a micro-batch, its batch being one of them."""
    is_extrapolated: bool


def measured_cost(run: PretrainRun, vocab_size: int, device: torch.device) -> Cost:
    """Multiplications and additions a second, and bytes of memory, from steps of the model."""
    model = replace(run.model, vocab_size=vocab_size)
    largest = largest_micro_batch(run)
    run = replace(run, model=model, accumulation=1)
    many = min(max(1, _MOST_TOKENS // largest.sequence_length), largest.batch_size)
    few = max(1, many // 2)
    parts = trainee(run, device)
    _, low = _stepped(parts, run, replace(largest, batch_size=few), device)
    seconds, high = _stepped(parts, run, replace(largest, batch_size=many), device)
    a_sequence = max(0, high - low) / (many - few) if many > few else 0.0
    one = replace(largest, steps=1, batch_size=many)
    flops = pretraining_flops(replace(run, phases=(one,), warmup_steps=0), vocab_size=vocab_size)
    return Cost(
        flops_per_second=flops / seconds,
        peak_bytes=round(high + a_sequence * (largest.batch_size - many)),
        phase=largest,
        is_extrapolated=largest.batch_size > many,
    )


def largest_micro_batch(run: PretrainRun) -> Phase:
    """The phase with most tokens in a micro-batch, of equal ones the longest; it is its batch."""
    cut = [
        replace(phase, batch_size=-(-phase.batch_size // run.accumulation)) for phase in run.phases
    ]
    return max(cut, key=lambda p: (p.batch_size * p.sequence_length, p.sequence_length))


def _stepped(
    parts: Trainee, run: PretrainRun, phase: Phase, device: torch.device
) -> tuple[float, int]:
    """The seconds of the fastest of a few steps, and the most memory that they held."""
    forget_peak_memory()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    batch = _meaningless(run, phase.batch_size, phase.sequence_length)
    seconds, began = [], time.perf_counter()
    for update in train(
        parts.learner, parts.optimizer, parts.schedule, iter([batch] * _STEPS), accumulation=1
    ):
        _ = update.loss  # fetched, so that the device has finished
        now = time.perf_counter()
        seconds.append(now - began)
        began = now
    return min(seconds), peak_bytes(device)


def _meaningless(run: PretrainRun, count: int, length: int) -> PretrainBatch:
    """Full sequences of one token, with as many targets as the run has."""
    tokens = count * length
    share = run.masking.rate if "masked_lm" in run.objectives else 1.0
    rows = np.arange(0, tokens, max(1, round(1 / share)))
    return PretrainBatch(
        packed=PackedBatch(
            token_ids=np.full(tokens, 1, np.int32),
            segment_ids=np.zeros(tokens, np.int32),
            lengths=np.full(count, length, np.int32),
            keys=np.arange(count),
        ),
        target_rows=rows,
        target_ids=np.full(len(rows), 1, np.int32),
        next_labels=np.zeros(count, np.int8) if "next_sentence" in run.objectives else None,
        step_targets=len(rows),
        step_sequences=count,
    )
