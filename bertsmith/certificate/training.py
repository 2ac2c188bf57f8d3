"""Checks of this installation's optimizer, schedule and first weights, against golden values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from bertsmith.certificate.comparisons import DEVIATIONS, compared
from bertsmith.certificate.encoder import TOLERANCE
from bertsmith.certificate.rows import Row, agreeing, outcome
from bertsmith.certificate.values import golden_values
from bertsmith.model.bert import Bert
from bertsmith.model.config import BertConfig
from bertsmith.model.init import initialise
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.schedule import ScheduleConfig

_INITIALISER = "modeling.py, create_initializer"
_SEED = 1


def optimizer() -> Row:
    """Weights after every update: no bias correction, decoupled decay with its exceptions."""
    ours, theirs, _, _ = _updates()
    return compared(
        "optimizer: weights after each of 6 updates",
        ours,
        theirs,
        tolerance=TOLERANCE,
        reference="paper, appendix A.2; optimization.py, AdamWeightDecayOptimizer",
    )


def clipping() -> Row:
    """The global norm of the gradient before clipping."""
    _, _, ours, theirs = _updates()
    return compared(
        "global norm of the gradients",
        ours,
        theirs,
        tolerance=TOLERANCE,
        reference="optimization.py, create_optimizer (clip_by_global_norm 1.0)",
    )


def schedule() -> Row:
    """The rate of every update: the first is 0, and a small drop ends the warm-up."""
    ours, theirs = [], []
    for case in golden_values("schedule").each("cases"):
        config = ScheduleConfig(
            total_steps=case.integer("total"), warmup_steps=case.integer("warmup")
        )
        ours += [config.rate(step) for step in case.integers("steps").tolist()]
        theirs += case.numbers("rates").tolist()
    return compared(
        "learning rates",
        ours,
        theirs,
        tolerance=TOLERANCE,
        reference="paper, appendix A.2; optimization.py, create_optimizer",
    )


def distribution() -> Row:
    """First weights follow a normal cut at two deviations."""
    values = golden_values("initialization")
    drawn = np.sort(_matrices(_fresh()))
    shares = np.searchsorted(drawn, values.numbers("values"), side="right") / len(drawn)
    distance = float(np.abs(shares - values.numbers("distribution")).max())
    deviation = float(drawn.std())
    bound = float(np.abs(drawn).max())
    # Kolmogorov's distance stays below 2.6 / sqrt(n), but once in a million.
    is_right = distance < 2.6 / np.sqrt(len(drawn)) and bound <= values.number("bound") + 1e-8
    return Row(
        name="first weights: a normal cut at two deviations",
        status=outcome(is_right),
        found=f"{len(drawn):,} draws: deviation {deviation:.5f}, largest {bound:.4f}",
        expected=(
            f"deviation {values.number('deviation'):.5f}, bound {values.number('bound'):.4f}, "
            f"distribution within {2.6 / np.sqrt(len(drawn)):.4f}"
        ),
        reference=_INITIALISER,
        difference="first_weights",
    )


def constants() -> Row:
    """Biases 0, LayerNorm 1 and 0."""
    found, expected = {}, {}
    for name, parameter in _fresh().named_parameters():
        if parameter.ndim < 2:
            found[name] = set(parameter.tolist())
            expected[name] = {1.0} if name.endswith("norm.weight") else {0.0}
    return agreeing(
        "first biases 0, LayerNorms 1 and 0",
        found,
        expected,
        reference="modeling.py, tf.layers.dense and layer_norm",
        against="0, 1 and 0",
    )


def pad_row() -> Row:
    """The [PAD] row is drawn like every other."""
    model = _fresh()
    row = model.token_embedding.detach()[model.config.pad_token_id].numpy()
    expected = golden_values("initialization").number("deviation")
    # The deviation of a sample's deviation, for a distribution of at most a normal's kurtosis.
    distance = abs(float(row.std()) / expected - 1.0) * np.sqrt(2.0 * len(row))
    return Row(
        name="first weights of the [PAD] row",
        status=outcome(bool(distance <= DEVIATIONS)),
        found=f"deviation {row.std():.4f}",
        expected=f"{expected:.4f} within {DEVIATIONS:.0f} deviations of a sample",
        reference="modeling.py, embedding_lookup",
        difference="pad_row",
    )


CHECKS: tuple[Callable[[], Row], ...] = (
    optimizer, clipping, schedule, distribution, constants, pad_row,
)  # fmt: skip


def _updates() -> tuple[list[float], list[float], list[float], list[float]]:
    """Weights and norms of all updates, ours and golden."""
    values = golden_values("optimizer")
    parameters = {
        name.replace("/", "."): nn.Parameter(torch.from_numpy(value.numbers()))
        for name, value in values.items("variables")
    }
    trained = Optimizer(parameters.items(), OptimizerConfig())
    weights: list[float] = []
    golden_weights: list[float] = []
    norms: list[float] = []
    golden_norms: list[float] = []
    for update in values.each("updates"):
        for name, gradient in update.items("gradients"):
            parameters[name.replace("/", ".")].grad = torch.from_numpy(gradient.numbers())
        norms.append(float(trained.step(update.number("rate"))))
        golden_norms.append(update.number("norm"))
        for name, value in update.items("variables"):
            weights += parameters[name.replace("/", ".")].detach().flatten().tolist()
            golden_weights += value.numbers().ravel().tolist()
    return weights, golden_weights, norms, golden_norms


def _fresh() -> Bert:
    config = BertConfig(
        vocab_size=400,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=64,
    )
    model = Bert(config)
    initialise(model, std=golden_values("initialization").number("initializer_range"), seed=_SEED)
    return model


def _matrices(model: nn.Module) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    drawn: np.ndarray[tuple[int], np.dtype[np.float32]] = torch.cat(
        [matrix.detach().flatten() for matrix in matrices]
    ).numpy()
    return drawn
