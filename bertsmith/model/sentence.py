"""How a model makes one vector of a text, as a frozen value.

It knows no tensors, so that a command line can be made of it; what it says is done in `pooling`.

Source: Reimers and Gurevych 2019, Sentence-BERT, section 3; the settings of sentence-transformers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from bertsmith.model.config import Direction

Pooling = Literal["cls", "mean", "max"]
Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]


@dataclass(frozen=True, kw_only=True)
class SentenceConfig:
    """How a sentence vector is made of hidden states."""

    pooling: tuple[Pooling, ...] = ("mean",)
    """`cls` (the first token), `mean` or `max` over all tokens; several are laid side by side."""
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
            raise ValueError(f"pooling must name one of cls, mean, max, or several; found {found}")
        if self.max_tokens is not None and self.max_tokens < 3:
            raise ValueError(f"max_tokens must leave room for a token, found {self.max_tokens}")

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
        """Raises ValueError for a vector that no token of the text but the first has a part in."""
        if direction == "left_to_right" and "cls" in self.pooling:
            raise ValueError(
                "the first token of a left-to-right model has seen nothing but itself: choose "
                "mean or max as pooling"
            )

    def overruled(self, pooling: Pooling | None, is_normalized: bool | None) -> SentenceConfig:
        """The same with what a person chose instead; None is no choice.

        Raises ValueError for no choice of a pooling where the author's vectors cannot be made.
        """
        if pooling is None:
            self.require()
        return replace(
            self,
            refusal="",
            pooling=self.pooling if pooling is None else (pooling,),
            is_normalized=self.is_normalized if is_normalized is None else is_normalized,
        )
