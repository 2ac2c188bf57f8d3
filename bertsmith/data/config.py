"""What is drawn from a corpus, as plain values: the form of a sequence, and its masks.

How a sequence is cut is in `pairs.py`, how it is masked in `masking.py`. Nothing here does anything
or needs numpy, so that a command line made of these values answers at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PairForm = Literal["pairs", "consecutive_pair", "one_segment"]


@dataclass(frozen=True, kw_only=True)
class Masking:
    """Which positions are predicted, and what the model sees there."""

    rate: float = 0.15
    """Share of a sequence's positions to predict (paper: 0.15)."""
    mask_share: float = 0.8
    """Share of the chosen positions that become `[MASK]` (paper: 0.8)."""
    random_share: float = 0.1
    """Share that become a random token of the vocabulary (paper: 0.1); the rest stay (0.1)."""
    whole_word: bool = False
    """Choose whole words; `[MASK]`, random or unchanged is still drawn per token (paper: off)."""
    max_predictions: int | None = None
    """Most positions a sequence. The original's 20 at length 128 and 77 at 512 never bind at rate
    0.15, so none is the same."""
    fixed_copies: int = 0
    """0: fresh pairs and masks every epoch; n: only n versions of each, by turns (original: 10)."""

    def __post_init__(self) -> None:
        """Refuses shares that are none."""
        for name, value in (
            ("rate", self.rate),
            ("mask_share", self.mask_share),
            ("random_share", self.random_share),
            ("mask_share + random_share", self.mask_share + self.random_share),
        ):
            if not 0.0 <= value <= 1.0 + 1e-9:
                raise ValueError(f"masking: {name} must be between 0 and 1, found {value}")
        if self.rate == 0.0:
            raise ValueError("masking: rate must be above 0, found 0.0: nothing would be predicted")
        if self.max_predictions is not None and self.max_predictions < 1:
            raise ValueError(
                f"masking: max_predictions must be at least 1, found {self.max_predictions}"
            )
        if self.fixed_copies < 0:
            raise ValueError(f"masking: fixed_copies must not be negative: {self.fixed_copies}")
