"""Parts of an experiment -> about how many multiplications and additions they are.

It measures nothing, and is read by a command line that must answer at once.

Legend: L layers, H hidden size, F feed-forward size, S sequence length, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace

from bertsmith.model.config import BertConfig
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import Model, Pretrained, Score, Tuned
from bertsmith.recipes.run import PretrainRun

_PASSES = 3
"""Multiplications of a step beside those of a forward pass: forward, and twice as many back."""
_DEV_READINGS = 2
"""Of a fine-tuning run: its last evaluation, and the report on the model as it is stored."""
_LSTM_SLOWNESS = 5.0
"""An LSTM's products are small and wait for each other."""


def pretraining_flops(run: PretrainRun, *, vocab_size: int, steps: int | None = None) -> float:
    """Of the whole run, or of its first steps, if every sequence is full."""
    is_masked = "masked_lm" in run.objectives
    share = run.masking.rate if is_masked else 1.0
    total, left = 0.0, run.num_steps if steps is None else steps
    for phase in run.phases:
        count = min(left, phase.steps)
        left -= count
        tokens = count * phase.batch_size * phase.sequence_length
        hidden = run.model.hidden_size
        head = share * (2 * hidden**2 + 2 * hidden * vocab_size)
        total += _PASSES * tokens * (_layers_flops(run.model, phase.sequence_length) + head)
    return total


def scoring_flops(score: Score, *, num_examples: int, num_dev: int) -> float:
    """Of all runs of a cell, what is read of Dev included."""
    exam, config = EXAMS[score.exam], _config_of(score.model)
    tokens = num_examples * exam.mean_tokens
    dev_tokens = num_dev * exam.mean_tokens
    forward = _layers_flops(config, min(512, int(exam.mean_tokens)))
    points = 1 if score.grid is None else len(score.grid.runs(score.run))
    runs = points * score.restarts
    on_top = 0.0
    if score.run.on_top == "bilstm":
        size = score.run.lstm_size
        inner = 16 * size * (config.hidden_size + size) + 16 * size * 3 * size
        on_top = _LSTM_SLOWNESS * inner
    if score.run.approach == "feature_based":
        kept = (tokens + dev_tokens) * forward
        reported = runs * dev_tokens * (forward + 2 * on_top)
        return kept + reported + runs * score.run.epochs * _PASSES * tokens * on_top
    learned = score.run.epochs * _PASSES * tokens
    return runs * (learned + _DEV_READINGS * dev_tokens) * (forward + on_top)


def _layers_flops(config: BertConfig, length: int) -> float:
    """Of a token's way through all layers."""
    hidden, inner = config.hidden_size, config.intermediate_size
    if config.layer_kind == "lstm":
        cells = 8 * inner * 2 * hidden + 2 * inner * hidden
        return _LSTM_SLOWNESS * config.num_hidden_layers * cells
    return config.num_hidden_layers * (8 * hidden**2 + 4 * hidden * inner + 4 * length * hidden)


def _config_of(model: Model) -> BertConfig:
    if isinstance(model, Pretrained):
        return model.run.model
    if isinstance(model, Tuned):
        return _config_of(model.learned.model)
    side = model.left_to_right.run.model
    # Twice as many layers of the same width: about what both sides cost.
    return replace(side, num_hidden_layers=2 * side.num_hidden_layers)
