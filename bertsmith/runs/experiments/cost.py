"""A pre-training run and a machine -> how many multiplications it makes a second, and its memory.

From a few steps on tokens that mean nothing. What a run really takes is measured when it begins.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch

from bertsmith.batch import PackedBatch, PretrainBatch
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.experiments.flops import pretraining_flops
from bertsmith.runs.measuring import peak_bytes
from bertsmith.runs.training import trainee
from bertsmith.train.loop import train

_MOST_SEQUENCES = 8
_STEPS = 3


def measured_rate(run: PretrainRun, vocab_size: int, device: torch.device) -> tuple[float, int]:
    """Multiplications and additions a second, and bytes of memory, of a few steps of the model."""
    model = replace(run.model, vocab_size=vocab_size)
    run = replace(run, model=model, accumulation=1)
    first = run.phases[0]
    count = min(_MOST_SEQUENCES, first.batch_size)
    batch = _meaningless(run, count, first.sequence_length)
    parts = trainee(run, device)
    seconds, began = [], time.perf_counter()
    for update in train(
        parts.learner, parts.optimizer, parts.schedule, iter([batch] * _STEPS), accumulation=1
    ):
        _ = update.loss  # fetched, so that the device has finished
        now = time.perf_counter()
        seconds.append(now - began)
        began = now
    one = replace(first, steps=1, batch_size=count)
    flops = pretraining_flops(replace(run, phases=(one,), warmup_steps=0), vocab_size=vocab_size)
    return flops / min(seconds), peak_bytes(device)


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
