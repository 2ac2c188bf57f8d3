"""Numbers -> the same numbers, checked to be finite.

Only a model's outputs are checked, which are small: NaN in a weight or a hidden state reaches them.
"""

from __future__ import annotations

import math

from torch import Tensor


def finite(answers: Tensor, what: str) -> Tensor:
    """The answers. Raises ValueError where one is infinite or NaN, naming `what` they are."""
    # A finite sum says it of every number, in a single pass; finite numbers may have another.
    if not math.isfinite(answers.sum().item()) and not bool(answers.isfinite().all()):
        is_nan = bool(answers.isnan().any())
        raise ValueError(
            f"the model's {what} are no finite numbers: found {'NaN' if is_nan else 'infinity'}; "
            f"the weights are damaged, of a training that diverged, or too large for the precision "
            f"(try fp32): see 'bertsmith verify'"
        )
    return answers
