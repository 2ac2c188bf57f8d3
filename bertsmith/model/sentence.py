"""How a model makes one vector of a text, as a frozen value.

It knows no tensors, so that a command line can be made of it; what it says is done in `pooling`,
where the weights of its dense layer are.

Source: Reimers and Gurevych 2019, Sentence-BERT, section 3; the settings of sentence-transformers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from bertsmith.model.config import Direction

Pooling = Literal["cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
"""Under sentence-transformers' names: the first token; the mean or the largest of all; their sum by
the root of their number; their mean weighted by 1, 2, 3, ...; the last token."""
DenseActivation = Literal["tanh", "identity"]
Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]

LARGEST_WIDTH = 2**24
"""Of a dense layer; no model comes near."""

_BLIND: dict[Direction, dict[Pooling, str]] = {
    "left_to_right": {"cls": "first token of a left-to-right model has seen nothing"},
    "right_to_left": {"lasttoken": "last token of a right-to-left model has seen nothing"},
    "two_way": {
        "cls": "first token of a two-way model has on its left seen nothing",
        "lasttoken": "last token of a two-way model has on its right seen nothing",
    },
}
"""The poolings of a token that has seen nothing but itself, in all its numbers or in half."""


@dataclass(frozen=True, kw_only=True)
class DenseConfig:
    """A linear layer and an activation between pooling and length 1."""

    in_features: int
    """Numbers of all poolings side by side."""
    out_features: int
    """Numbers of a sentence vector."""
    has_bias: bool = True
    """Whether the linear layer has a bias."""
    activation: DenseActivation = "tanh"
    """What follows it; identity: nothing."""

    def __post_init__(self) -> None:
        """Refuses sizes that no layer has."""
        for name, size in (("in_features", self.in_features), ("out_features", self.out_features)):
            if not 1 <= size <= LARGEST_WIDTH:
                raise ValueError(f"{name} must be from 1 to {LARGEST_WIDTH:,}, found {size:,}")

    def __str__(self) -> str:
        """As a sentence has it."""
        activation = "" if self.activation == "identity" else f" ({self.activation})"
        return f"a dense layer to {self.out_features:,}{activation}"


@dataclass(frozen=True, kw_only=True)
class SentenceConfig:
    """How a sentence vector is made of hidden states."""

    pooling: tuple[Pooling, ...] = ("mean",)
    """What is made of all tokens, special ones included; several are laid side by side."""
    dense: DenseConfig | None = None
    """What the pooled hidden states go through; None for nothing."""
    is_normalized: bool = False
    """Whether vectors are brought to length 1."""
    max_tokens: int | None = None
    """The longest sequence the model was made for, if shorter than its positions allow."""
    similarity: Similarity = "cosine"
    """What the model's author compares vectors with; kept, not applied."""
    prompts: tuple[tuple[str, str], ...] = ()
    """(name, text) of what its author puts before a text, by task; shown, not applied."""
    is_prompt_pooled: bool = True
    """Whether a prompt's tokens count in the vector of its text; kept, not applied."""
    refusal: str = ""
    """Why its author's vectors cannot be made here; empty where they can."""

    def __post_init__(self) -> None:
        """Refuses what would give no vector."""
        if not self.pooling or not set(self.pooling) <= set(get_args(Pooling)):
            found = ", ".join(map(repr, self.pooling)) or "none"
            known = ", ".join(get_args(Pooling))
            raise ValueError(f"pooling must name one of {known}, or several; found {found}")
        if self.max_tokens is not None and self.max_tokens < 3:
            raise ValueError(f"max_tokens must leave room for a token, found {self.max_tokens}")

    def __str__(self) -> str:
        """How a vector is pooled, as a sentence has it: what it is brought to is left out."""
        dense = f", then {self.dense}" if self.dense is not None else ""
        return f"{' and '.join(self.pooling)}{dense}"

    def width(self, hidden_size: int) -> int:
        """How many numbers a sentence vector has."""
        if self.dense is not None:
            return self.dense.out_features
        return len(self.pooling) * hidden_size

    def limit(self, model_limit: int) -> int:
        """The longest sequence that a sentence vector is made of, special tokens included."""
        return min(model_limit, self.max_tokens or model_limit)

    @property
    def advice_on_prompts(self) -> str:
        """The prompts, and what a person should do with them; empty for none."""
        told = ", ".join(f"{name} ({text!r})" for name, text in self.prompts if text)
        if not told:
            return ""
        if self.is_prompt_pooled:
            return f"{told}; put them before texts yourself"
        return (
            f"{told}; do not put them there by hand, where their tokens would be pooled: this "
            f"model leaves them out (include_prompt false), only sentence-transformers does that"
        )

    def require(self) -> None:
        """Raises ValueError, with the reason, where the author's vectors cannot be made here."""
        if self.refusal:
            raise ValueError(
                f"no sentence vector as the author of this model made it: {self.refusal}. Choose a "
                f"pooling yourself for vectors of your own, or use sentence-transformers"
            )

    def require_context(self, direction: Direction) -> None:
        """Raises ValueError for a vector that one token alone of the text has a part in."""
        for pooling, told in _BLIND.get(direction, {}).items():
            if pooling in self.pooling:
                raise ValueError(f"the {told} but itself: choose mean or max as pooling")

    def lost_by(self, pooling: object) -> str:
        """What a chosen pooling leaves out of the author's vectors; empty for nothing."""
        if not pooling or self.dense is None:
            return ""
        return (
            f"with a pooling of your own vectors are made without {self.dense}, which belongs to "
            f"the model's own pooling, {' and '.join(self.pooling)}"
        )

    def overruled(self, pooling: Pooling | None, is_normalized: bool | None) -> SentenceConfig:
        """The same with what a person chose instead; None is no choice.

        A pooling that is chosen is of the hidden states alone: the dense layer belongs to the
        author's own. Raises ValueError for no choice of a pooling where the author's vectors cannot
        be made.
        """
        if pooling is None:
            self.require()
            if is_normalized is None:
                return self
        return replace(
            self,
            refusal="",
            pooling=self.pooling if pooling is None else (pooling,),
            dense=self.dense if pooling is None else None,
            is_normalized=self.is_normalized if is_normalized is None else is_normalized,
        )
