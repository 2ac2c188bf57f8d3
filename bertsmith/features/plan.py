"""What is to be extracted, as one value: the command line of `bertsmith extract` is made of it.

It knows no tensors, so that a mistake is told before PyTorch is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertsmith.features.layers import LayerChoice

Per = Literal["token", "word", "text"]
Pooling = Literal["first", "last", "mean", "max", "cls"]
LongTexts = Literal["truncate", "window"]
DType = Literal["float32", "float16", "bfloat16"]

_POOLINGS: dict[Per, tuple[Pooling, ...]] = {
    "token": (),
    "word": ("first", "mean", "last"),
    "text": ("cls", "mean", "max"),
}
_NUM_SPECIAL = 2


@dataclass(frozen=True, kw_only=True)
class FeaturePlan:
    """Which vectors a text becomes."""

    layers: str = "last"
    """embeddings, second-to-last, last, sum-last-four, weighted-sum-last-four, concat-last-four,
    weighted-sum-all, all, or numbers side by side: 0,11,12 (0: embeddings; --layers=-1: last)."""
    weights: tuple[float, ...] = ()
    """Of a weighted sum, the lowest layer's first (default: equal, of sum 1)."""
    per: Per = "token"
    """A vector for every token (special ones included), every word, or the whole text."""
    pooling: Pooling | None = None
    """Of a word's tokens: first, mean or last; of a text's, special ones included: cls, mean or
    max (default: mean)."""
    long_texts: LongTexts = "truncate"
    """Longer than the model reads: only their beginning, or all in overlapping windows."""
    stride_tokens: int = 0
    """Tokens from one window's start to the next one's: the step, not the overlap; 0: half of what
    the model reads."""
    max_tokens: int = 0
    """Read at most this many tokens at once, special ones included; 0: as many as the model can."""
    dtype: DType = "float32"
    """How the vectors are written; bfloat16 in safetensors only."""

    def __post_init__(self) -> None:
        """Refuses contradictions before any model is loaded."""
        LayerChoice(name=self.layers, weights=self.weights)
        if self.pooling is not None and self.pooling not in _POOLINGS[self.per]:
            allowed = ", ".join(_POOLINGS[self.per]) or "none at all"
            raise ValueError(f"--per {self.per} takes as pooling {allowed}, found {self.pooling!r}")
        if self.stride_tokens < 0 or (self.stride_tokens and self.long_texts != "window"):
            raise ValueError(
                f"stride_tokens is the step of --long-texts window and at least 1, found "
                f"{self.stride_tokens} with {self.long_texts!r}"
            )
        if self.max_tokens and self.max_tokens <= _NUM_SPECIAL:
            raise ValueError(
                f"max_tokens must leave room for a token between two special ones, found "
                f"{self.max_tokens}"
            )

    @property
    def choice(self) -> LayerChoice:
        """The hidden states and how they are joined."""
        return LayerChoice(name=self.layers, weights=self.weights)

    @property
    def effective_pooling(self) -> Pooling | None:
        """The pooling, the default filled in; None for a vector a token."""
        return self.pooling or ("mean" if _POOLINGS[self.per] else None)

    def capacity(self, limit: int) -> int:
        """Tokens of a text read at once by a model of `limit` tokens, special ones not counted."""
        if self.max_tokens > limit:
            raise ValueError(f"max_tokens is {self.max_tokens}, but the model reads {limit}")
        return (self.max_tokens or limit) - _NUM_SPECIAL

    def step(self, limit: int) -> int | None:
        """Tokens from window to window, None where there is one only.

        Raises ValueError for a step that would leave tokens between the windows unread.
        """
        if self.long_texts == "truncate":
            return None
        capacity = self.capacity(limit)
        if self.stride_tokens > capacity:
            raise ValueError(
                f"stride_tokens is the step between windows, not their overlap: at most "
                f"{capacity}, the tokens of one window; found {self.stride_tokens}"
            )
        return self.stride_tokens or max(1, capacity // 2)
