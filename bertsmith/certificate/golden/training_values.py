"""A few variables, gradients by a formula -> the golden updates, rates and first weights."""

from __future__ import annotations

import numpy as np

from bertsmith.certificate.golden import optimization
from bertsmith.certificate.golden.formula import DECIMALS, rounded, value_of

_VARIABLES: dict[str, tuple[int, ...]] = {
    "bert/embeddings/word_embeddings": (6, 4),
    "bert/pooler/dense/kernel": (4, 4),
    "bert/pooler/dense/bias": (4,),
    "bert/embeddings/LayerNorm/gamma": (4,),
    "bert/embeddings/LayerNorm/beta": (4,),
}
_PEAK, _WARMUP = 0.05, 2
# Sizes of the gradients of each update: some are clipped, some are not.
_GRADIENTS = (3.0, 0.02, 0.7, 0.001, 5.0, 0.1)
_RANGE = 0.02


def optimizer_values() -> dict[str, object]:
    """What `optimizer.json` holds."""
    variables = {
        name: np.round(value_of(name, shape), DECIMALS) for name, shape in _VARIABLES.items()
    }
    optimizer = optimization.AdamWeightDecayOptimizer(variables)
    updates = []
    for step, size in enumerate(_GRADIENTS):
        rate = optimization.learning_rate(_PEAK, len(_GRADIENTS), _WARMUP, step)
        gradients = {
            name: np.round(size * value_of(f"gradient {step} of {name}", shape), DECIMALS)
            for name, shape in _VARIABLES.items()
        }
        clipped, norm = optimization.clip_by_global_norm(gradients)
        optimizer.apply_gradients(clipped, rate)
        updates.append(
            {
                "rate": rate,
                "gradients": {name: rounded(value) for name, value in gradients.items()},
                "norm": rounded(norm),
                "variables": {name: rounded(value) for name, value in optimizer.variables.items()},
            }
        )
    start = {name: rounded(value) for name, value in variables.items()}
    return {"variables": start, "updates": updates}


def schedule_values() -> dict[str, object]:
    """What `schedule.json` holds: shares of the peak rate by the number of finished updates."""
    of_the_paper = [0, 1, 5000, 9999, 10_000, 10_001, 900_000, 999_999, 1_000_000, 1_000_001]
    cases = []
    for total, warmup, steps in (
        (100, 10, list(range(103))), (1000, 10, [8, 9, 10, 11]), (1_000_000, 10_000, of_the_paper),
        (7, 0, list(range(9))), (5, 5, list(range(6))),
    ):  # fmt: skip
        rates = [optimization.learning_rate(1.0, total, warmup, step) for step in steps]
        cases.append({"total": total, "warmup": warmup, "steps": steps, "rates": rounded(rates)})
    return {"cases": cases}


def initialization_values() -> dict[str, object]:
    """What `initialization.json` holds: the bound, the real deviation and the distribution."""
    places = [round(0.0025 * step, 4) for step in range(-16, 17)]
    return {
        "initializer_range": _RANGE,
        "bound": optimization.CUT * _RANGE,
        "deviation": rounded(optimization.truncated_normal_deviation(_RANGE)),
        "values": places,
        "distribution": rounded(optimization.truncated_normal_cdf(places, _RANGE)),
    }
