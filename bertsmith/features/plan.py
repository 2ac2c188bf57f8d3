"""What is to be extracted, as one value: the command line of `bertsmith extract` is made of it.

It knows no tensors, so that a mistake is told before PyTorch is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from bertsmith.model.layer_choice import LayerChoice
from bertsmith.model.sentence import Pooling, SentenceConfig
from bertsmith.text.rules import NUM_SPECIAL

Per = Literal["token", "word", "text"]
WordPooling = Literal["first", "mean", "last"]
AnyPooling = Literal[Pooling, WordPooling]
LongTexts = Literal["truncate", "window"]
DType = Literal["float32", "float16", "bfloat16"]

_POOLINGS: dict[Per, tuple[AnyPooling, ...]] = {
    "token": (),
    "word": get_args(WordPooling),
    "text": get_args(Pooling),
}


@dataclass(frozen=True, kw_only=True)
class FeaturePlan:
    """Which vectors a text becomes."""

    layers: str = "last"
    """embeddings, second-to-last, last, sum-last-four, weighted-sum-last-four, concat-last-four,
    weighted-sum-all, weighted-sum-with-embeddings, all, or numbers side by side: 0,11,12 (0:
    embeddings; --layers=-1: last)."""
    weights: tuple[float, ...] = ()
    """Of a weighted sum, the lowest layer's first (default: equal, of sum 1)."""
    per: Per = "token"
    """A vector for every token (special ones included), every word, or the whole text."""
    pooling: AnyPooling | None = None
    """Of a word's tokens: first, mean or last (default: mean); of a text's, special ones included:
    cls, mean, max, mean_sqrt_len_tokens, weightedmean or lasttoken (default: as the model was
    trained, with its dense layer if it has one; else mean)."""
    is_normalized: bool | None = None
    """Bring a text's vector to length 1 (default: as the model was trained, else not)."""
    long_texts: LongTexts = "truncate"
    """Longer than the model reads: only their beginning, or all in overlapping windows."""
    stride_tokens: int = 0
    """Tokens from one window's start to the next one's: the step, not the overlap; 0: half of what
    the model reads."""
    max_tokens: int = 0
    """Read at most this many tokens at once, special ones included; 0: as many as the model can, or
    for a text's vector as many as it was trained for."""
    dtype: DType = "float32"
    """How the vectors are written; bfloat16 in safetensors only."""

    def __post_init__(self) -> None:
        """Refuses contradictions before any model is loaded."""
        LayerChoice(name=self.layers, weights=self.weights)
        if self.pooling is not None and self.pooling not in _POOLINGS[self.per]:
            allowed = ", ".join(_POOLINGS[self.per]) or "none at all"
            raise ValueError(f"--per {self.per} takes as pooling {allowed}, found {self.pooling!r}")
        if self.is_normalized is not None and self.per != "text":
            raise ValueError(f"--is-normalized is for --per text, found --per {self.per}")
        if self.stride_tokens < 0 or (self.stride_tokens and self.long_texts != "window"):
            raise ValueError(
                f"stride_tokens is the step of --long-texts window and at least 1, found "
                f"{self.stride_tokens} with {self.long_texts!r}"
            )
        if self.max_tokens and self.max_tokens <= NUM_SPECIAL:
            raise ValueError(
                f"max_tokens must leave room for a token between two special ones, found "
                f"{self.max_tokens}"
            )

    @property
    def choice(self) -> LayerChoice:
        """The hidden states and how they are joined."""
        return LayerChoice(name=self.layers, weights=self.weights)

    @property
    def word_pooling(self) -> WordPooling:
        """Of a word's tokens, the default filled in."""
        known: tuple[WordPooling, ...] = get_args(WordPooling)
        return next((each for each in known if each == self.pooling), "mean")

    def sentence(self, own: SentenceConfig) -> SentenceConfig:
        """How a text's vector is made, by the model's `own` way but where another is asked for."""
        known: tuple[Pooling, ...] = get_args(Pooling)
        chosen = next((each for each in known if each == self.pooling), None)
        return own.overruled(chosen, self.is_normalized)

    def followed(self, model_limit: int, own: SentenceConfig) -> str:
        """What of a model's own way is followed, and what would overrule it; empty for nothing.

        Raises ValueError for a model whose own way cannot be followed and is not overruled.
        """
        if self.per != "text":
            return ""
        lost, own, told = own.lost_by(self.pooling), self.sentence(own), {}
        if self.pooling is None:
            told["--pooling"] = f"pooling {own}"
        if self.is_normalized is None:
            told["--is-normalized"] = "length 1" if own.is_normalized else "not normalised"
        if not self.max_tokens and self.limit(model_limit, own) < model_limit:
            told["--max-tokens"] = f"at most {own.max_tokens} tokens"
        if not told:
            return lost
        followed = (
            f"one vector a text as the model was trained: {', '.join(told.values())} "
            f"(overruled by {', '.join(told)})"
        )
        return f"{followed}; {lost}" if lost else followed

    def width(self, num_layers: int, hidden_size: int, own: SentenceConfig) -> int:
        """How many numbers a vector has.

        Raises ValueError for layers that the model's dense layer was not trained on.
        """
        width = self.choice.width(num_layers, hidden_size)
        if self.per != "text":
            return width
        own = self.sentence(own)
        if own.dense is not None and self.choice.numbers(num_layers) != (num_layers,):
            raise ValueError(
                f"the model's own vectors are {own}, and its dense layer was trained on the last "
                f"layer alone, found --layers {self.layers}: leave --layers out, or choose a "
                f"--pooling of your own, without the dense layer"
            )
        return own.width(width)

    def limit(self, model_limit: int, own: SentenceConfig) -> int:
        """Tokens read at once, special ones included, by a model that can read `model_limit`.

        Raises ValueError for more than it can.
        """
        if self.max_tokens > model_limit:
            raise ValueError(f"max_tokens is {self.max_tokens}, but the model reads {model_limit}")
        return self.max_tokens or (own.limit(model_limit) if self.per == "text" else model_limit)

    def step(self, limit: int) -> int | None:
        """Tokens from one window of `limit` to the next, None where there is one only.

        Raises ValueError for a step that would leave tokens between the windows unread.
        """
        if self.long_texts == "truncate":
            return None
        capacity = limit - NUM_SPECIAL
        if self.stride_tokens > capacity:
            raise ValueError(
                f"stride_tokens is the step between windows, not their overlap: at most "
                f"{capacity}, the tokens of one window; found {self.stride_tokens}"
            )
        return self.stride_tokens or max(1, capacity // 2)
