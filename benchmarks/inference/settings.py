"""What is asked of every system: many texts at once, and one text alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from benchmarks.inference.padded import Question
from benchmarks.inference.texts import mixed_lengths


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What every round asks."""

    question: Question
    num_texts: int
    length: int | None = None
    """Tokens of every text; None: from 6 to 138."""
    one_by_one: bool = False
    """Each text is a call of its own, and timed alone."""
    pause: float = 0.0
    """Seconds before each call, as between requests to a server: threads fall asleep."""

    def on(self, device: torch.device) -> Setting:
        """As it is asked on a device: a GPU is given 64 times as many texts together."""
        if device.type == "cpu" or self.one_by_one:
            return self
        return replace(self, num_texts=64 * self.num_texts)

    def lengths(self) -> list[int]:
        """Tokens of every text."""
        if self.length is None:
            return mixed_lengths(self.num_texts, 0)
        return [self.length] * self.num_texts


SETTINGS = {
    "embed, mixed": Setting(question="embed", num_texts=256),
    "classify, mixed": Setting(question="classify", num_texts=256),
    "embed, 128 tokens": Setting(question="embed", num_texts=64, length=128),
    "one text, 16 tokens": Setting(question="embed", num_texts=20, length=16, one_by_one=True),
    "one text, 64 tokens": Setting(question="embed", num_texts=20, length=64, one_by_one=True),
    "one text, 128 tokens": Setting(question="embed", num_texts=20, length=128, one_by_one=True),
    "one text after a pause, 16 tokens": Setting(
        question="embed", num_texts=10, length=16, one_by_one=True, pause=0.1
    ),
}
