"""The stack of hidden states -> one vector a token: the rows of Table 7, and any others.

Pure functions; nothing is learned here (weights that are learned stand in `layer_mix`). State 0 is
what the embeddings give, after their LayerNorm; state n is what layer n gives.

Source: Devlin et al. 2018, section 5.3 and Table 7; google-research/bert, extract_features.py
(--layers) and modeling.py (get_embedding_output, get_all_encoder_layers).

Legend: T tokens, H hidden size, L layers, S states chosen.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_ALL, _LAST_FOUR = slice(None), slice(-4, None)
_NAMED: dict[str, slice] = {
    "embeddings": slice(0, 1),
    "second-to-last": slice(-2, -1),
    "last": slice(-1, None),
    "sum-last-four": _LAST_FOUR,
    "weighted-sum-last-four": _LAST_FOUR,
    "concat-last-four": _LAST_FOUR,
    "weighted-sum-all": slice(1, None),  # Table 7: "all 12 layers", the embeddings not among them
    "weighted-sum-with-embeddings": _ALL,  # ELMo's: its token layer is among them
    "all": _ALL,
}
"""Which of the L + 1 states a name means."""


@dataclass(frozen=True, kw_only=True)
class LayerChoice:
    """Which hidden states make a vector, and how they are joined."""

    name: str = "last"
    """A name of `_NAMED`, or numbers such as `0,11,12`: 0 the embeddings, -1 the last layer.

    Of several, a name's lowest comes first, and numbers keep their order.
    """
    weights: tuple[float, ...] = ()
    """Of a weighted sum, the lowest layer's first; without any they are equal and sum to 1."""

    def __post_init__(self) -> None:
        """Refuses what no model has."""
        if self.name not in _NAMED and not re.fullmatch(r"-?\d+(,-?\d+)*", self.name):
            near = difflib.get_close_matches(self.name, _NAMED, n=1)
            told = f"did you mean {near[0]!r}?" if near else f"the names are {', '.join(_NAMED)}"
            raise ValueError(
                f"there are no layers {self.name!r}; {told} (numbers are parted by commas: 0,11,12)"
            )
        if self.weights and not self.is_weighted:
            raise ValueError(f"layers {self.name!r} take no weights; those of a weighted sum do")
        if self.name == "weighted-sum-last-four" and len(self.weights) not in (0, 4):
            raise ValueError(f"four layers need four weights, found {len(self.weights)}")

    @property
    def is_sum(self) -> bool:
        """Whether the states are added; if not, they stand side by side."""
        return "sum" in self.name

    @property
    def is_weighted(self) -> bool:
        """Whether each state has a weight, which may be learned."""
        return self.name.startswith("weighted-sum")

    def numbers(self, num_layers: int) -> tuple[int, ...]:
        """The states' numbers, 0 to L, in the order in which they are joined.

        Raises ValueError for a model of too few layers, or other weights than it has layers.
        """
        states = range(num_layers + 1)
        if self.name not in _NAMED:
            asked = [int(number) for number in self.name.split(",")]
            if outside := [number for number in asked if not -len(states) <= number <= num_layers]:
                raise ValueError(
                    f"there is no layer {outside[0]}: the model has {num_layers}, 0 being its "
                    f"embeddings and -1 its last"
                )
            return tuple(states[number] for number in asked)
        wanted = _NAMED[self.name]
        needed = -(wanted.start or 0)
        if needed > num_layers:
            raise ValueError(
                f"{self.name!r} needs a model of at least {needed} layers, this one has "
                f"{num_layers}: name its layers by number"
            )
        if self.weights and len(self.weights) != len(states[wanted]):
            raise ValueError(
                f"{len(states[wanted])} layers need as many weights, found {len(self.weights)}"
            )
        return tuple(states[wanted])

    def width(self, num_layers: int, hidden_size: int) -> int:
        """How many numbers a vector has."""
        return hidden_size * (1 if self.is_sum else len(self.numbers(num_layers)))

    def joined(self, states: Sequence[Tensor]) -> Tensor:
        """L + 1 hidden states of (T, H) -> (T, H) or, side by side, (T, S * H), float32."""
        return self.joined_chosen([states[number] for number in self.numbers(len(states) - 1)])

    def joined_chosen(self, chosen: Sequence[Tensor]) -> Tensor:
        """As `joined`, of the S states alone that `numbers` names."""
        # The rest of this file is asked by a command line that must answer at once.
        from bertsmith.model.layer_mix import side_by_side, weighted_sum

        if not self.is_sum:
            return side_by_side(chosen)
        equal = 1.0 if self.name.startswith("sum") else 1.0 / len(chosen)
        return weighted_sum(chosen, self.weights or [equal] * len(chosen))
