"""Parts of an experiment -> about how many multiplications and additions they are.

It measures nothing, and is read by a command line that must answer at once.

Legend: L layers, H hidden size, F feed-forward size, S sequence length, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import replace

from bertsmith.model.config import BertConfig
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import Joined, Model, Pretrained, Score, Tuned
from bertsmith.recipes.run import PretrainRun

_PASSES = 3
"""Multiplications of a step beside those of a forward pass: forward, and twice as many back."""
_DEV_READINGS = 2
"""Of a fine-tuning run: its last evaluation, and the report on the model as it is stored."""
_LSTM_SLOWNESS = 5.0
"""Of a BiLSTM on top: its products are small and wait for each other."""
_QUESTION_TOKENS = 15
"""Of SQuAD, with [CLS] and both [SEP], about."""
_STRIDE = 128
"""From one window of a passage to the next, where nobody names another (paper's code)."""


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
    config = _config_of(score.model)
    an_example, longest = _tokens_read(score)
    tokens, dev_tokens = num_examples * an_example, num_dev * an_example
    forward = _layers_flops(config, min(512, int(longest)))
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


def _tokens_read(score: Score) -> tuple[float, float]:
    """Of a middling example: the tokens of all its sequences, and those of the longest.

    What is too long is cut; a passage is read in windows, each with the question.
    """
    exam, limit = EXAMS[score.exam], score.max_tokens
    if limit is None or exam.mean_tokens <= limit:
        return exam.mean_tokens, exam.mean_tokens
    if "squad" not in exam.files:
        return limit, limit
    beside = min(_QUESTION_TOKENS, limit - 1)
    passage, room = exam.mean_tokens - beside, limit - beside
    stride = min(int(str(score.options.get("doc_stride", _STRIDE))), room)
    more = math.ceil((passage - room) / stride)
    return passage + more * (room - stride) + (1 + more) * beside, limit


def _layers_flops(config: BertConfig, length: int) -> float:
    """Of a token's way through all layers."""
    hidden, inner = config.hidden_size, config.intermediate_size
    if config.layer_kind == "lstm":
        return config.num_hidden_layers * (8 * inner * 2 * hidden + 2 * inner * hidden)
    return config.num_hidden_layers * (8 * hidden**2 + 4 * hidden * inner + 4 * length * hidden)


def pretrained_of(model: Model) -> PretrainRun:
    """The run whose kind of model it is; of two sides, one of them."""
    if isinstance(model, Pretrained):
        return model.run
    if isinstance(model, Tuned):
        return pretrained_of(model.learned.model)
    return model.left_to_right.run


def _config_of(model: Model) -> BertConfig:
    config = pretrained_of(model).model
    if isinstance(model, Joined):
        # Twice as many layers of the same width: about what both sides cost.
        return replace(config, num_hidden_layers=2 * config.num_hidden_layers)
    return config
