"""How to train, as frozen values: the optimizer's numbers and the names of the precisions.

They can be read without PyTorch, so that a command line made of them answers at once. What they
mean is in `train.optimizer` and `train.device`.

Source: Devlin et al. 2018, appendix A.2; google-research/bert optimization.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Precision = Literal["bf16", "fp16", "fp32"]
PrecisionChoice = Literal["auto", "bf16", "fp16", "fp32"]
AnswerPrecision = Literal["auto", "bf16", "fp16", "fp32", "int8"]
"""int8 rounds the matrices of a model that only answers (`answering`)."""
OptimizerName = Literal["bert_adam", "adamw", "lamb"]


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """How gradients become updates."""

    name: OptimizerName = "bert_adam"
    """BERT's own Adam without bias correction, AdamW (with it), or LAMB for very large steps."""
    learning_rate: float = 1e-4
    """The peak of the schedule (paper: 1e-4 in pre-training; 5e-5, 3e-5, 2e-5 in fine-tuning)."""
    beta1: float = 0.9
    """Memory of the first moment (paper: 0.9)."""
    beta2: float = 0.999
    """Memory of the second moment (paper: 0.999)."""
    epsilon: float = 1e-6
    """Added outside the root (google-research/bert: 1e-6)."""
    weight_decay: float = 0.01
    """Decoupled decay on matrices and embeddings, none on LayerNorm and biases (paper: 0.01)."""
    clip_norm: float | None = 1.0
    """Largest global norm of the gradient (google-research/bert: 1.0); None: no clipping."""

    def __post_init__(self) -> None:
        """Refuses values that cannot train."""
        for name, memory in {"beta1": self.beta1, "beta2": self.beta2}.items():
            if not 0.0 <= memory < 1.0:
                raise ValueError(f"{name} must be in [0, 1), found {memory}")
        for name, value in {
            "learning_rate": self.learning_rate,
            "weight_decay": self.weight_decay,
        }.items():
            if not 0.0 <= value < math.inf:
                raise ValueError(f"{name} must be a number from 0 up, found {value}")
        if not 0.0 < self.epsilon < math.inf:  # 0 / 0 of a weight without a gradient is no number
            raise ValueError(f"epsilon must be a number above 0, found {self.epsilon}")
        if self.clip_norm is not None and not self.clip_norm > 0.0:
            raise ValueError(
                f"clip_norm must be above 0, or None for no clipping, found {self.clip_norm}"
            )
