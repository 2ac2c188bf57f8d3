"""One Transformer layer: attention and feed-forward, each with dropout, residual and LayerNorm.

Post-LayerNorm, as in the original. The matrix multiplications run as they are; everything between
them is fused into one pass over memory. Where that is faster, all of it is one call: on a CPU
without gradients (`cpu_layer`) and where it learns (`cpu_training_layers`), and on a GPU
(`gpu_layer`). It does not know what the hidden states are for, nor the layers beside it.

Source: Devlin et al. 2018, section 3; google-research/bert, modeling.py, transformer_model.

Legend: T tokens, R rows asked for (all T if none are named), H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from torch import Tensor, nn

from bertsmith.model import cpu_layers, cpu_training_layers, gpu_layer
from bertsmith.model.attention import SelfAttention
from bertsmith.model.config import BertConfig
from bertsmith.model.cpu_layer import ReadyLayer, can_lay_out
from bertsmith.model.cpu_token_projections import TokenProjections
from bertsmith.model.embeddings import Embeddings
from bertsmith.model.feed_forward import FeedForward
from bertsmith.model.gpu_turns import Graphs
from bertsmith.model.layer_rules import LayerRules, LearningLayer, are_of_one_layer
from bertsmith.model.linear import PRODUCT_CHOICES, Linear, linears
from bertsmith.model.origins import Origins
from bertsmith.model.stream import Stream
from bertsmith.model.watched import is_watched


class Layer(nn.Module):
    """(T, H) hidden states -> (T, H) hidden states."""

    ready: ReadyLayer | None = None
    """All of it as one call, where nobody asks for a gradient."""
    _projections: TokenProjections | None = None
    """What ids bring to it, where it is the first."""
    graphs: Graphs | None = None
    """Of this layer and those that follow it, on a GPU."""

    def __init__(self, config: BertConfig, number: int) -> None:
        super().__init__()
        self.number = number
        self.attention = SelfAttention(config, number)
        self.feed_forward = FeedForward(config, number)

    def forward(self, hidden: Tensor, stream: Stream, rows: Tensor | None = None) -> Tensor:
        """Both sub-layers in turn; with `rows` (R,), what only other rows need is left out."""
        ready = self.ready
        if ready is not None and cpu_layers.suits([ready], hidden, stream, rows):
            return cpu_layers.through([ready], hidden, stream, rows)
        may_suit = cpu_training_layers.may_suit(hidden) or gpu_layer.may_suit(hidden)
        if may_suit and (whole := self.learning()):
            if gpu_layer.suits(hidden, whole.weights, whole.rules):
                return gpu_layer.through(hidden, stream, rows, whole.weights, whole.rules)
            if cpu_training_layers.suits([whole], hidden, stream, rows):
                return cpu_training_layers.through([whole], hidden, stream, rows)
        attended = self.attention(hidden, stream, rows)  # (R, H)
        output: Tensor = self.feed_forward(attended, stream.keys_of(rows))  # (R, H)
        return output

    def learning(self) -> LearningLayer | None:
        """As it is to learn in one call; None where somebody hooked into a part or changed it."""
        parts = self._own_parts()
        if parts is None:
            return None
        attention, feed_forward, maps, norms, weights = parts
        is_one = attention.dropout == feed_forward.dropout
        if not is_one or not attention.number == feed_forward.number == self.number:
            return None
        if is_watched(attention, feed_forward, *maps, *norms):
            return None
        if any(each.in_float16 for each in maps):  # these multiply by other products
            return None
        rules = LayerRules.of(
            self.number,
            attention.rules,
            feed_forward.activation,
            feed_forward.dropout,
            (norms[0].eps, norms[1].eps),
        )
        return LearningLayer(weights=weights, rules=rules)

    def lay_out(self) -> None:
        """Lays the weights out for answers: for one call, or where that is not to be, map by map.

        They stand in memory twice then (in eight bits the levels too; the map to keys of a layer
        that a pooler reads once more), and in one call no hook of a part is called.
        """
        self.forget()
        for linear in linears(self):
            if linear.own_products is None:
                linear.forget()  # of other weights, which it would keep
        parts = self._own_parts()
        if (
            parts is None
            or not are_of_one_layer(parts.weights)
            or not can_lay_out(parts.maps, parts.attention.rules.num_heads)
        ):
            for linear in linears(self):
                linear.lay_out()
            return
        attention, feed_forward, maps, norms, _ = parts
        origins = Origins(
            [(part, name) for part in (*maps, *norms) for name in ("weight", "bias")],
            wholes=(self, attention, feed_forward),
            settings=[
                (attention, "rules"),
                (feed_forward, "activation"),
                *((norm, "eps") for norm in norms),
                *((each, name) for each in maps for name in PRODUCT_CHOICES),
            ],
        )
        self.ready = ReadyLayer(maps, norms, attention.rules, feed_forward.activation, origins)

    def _own_parts(self) -> _Parts | None:
        """None where one was replaced by one of another kind, or has no weight or bias."""
        attention, feed_forward = _children(self, "attention", "feed_forward")
        if type(attention) is not SelfAttention or type(feed_forward) is not FeedForward:
            return None
        qkv, output, first_norm = _children(attention, "qkv", "output", "norm")
        up, down, second_norm = _children(feed_forward, "up", "down", "norm")
        maps, norms = (qkv, output, up, down), (first_norm, second_norm)
        if {*map(type, maps)} != {Linear} or {*map(type, norms)} != {nn.LayerNorm}:
            return None
        found = _weights((*maps, *norms))
        weights = [each for each in found if each is not None]
        if len(weights) < len(found):
            return None
        return _Parts(attention, feed_forward, maps, norms, weights)

    def projections(self, embeddings: Embeddings) -> TokenProjections | None:
        """What ids bring to it as it was laid out; None where the tables cannot be read.

        Made when first asked for, by one thread, for which others wait.
        """
        ready = self.ready
        if ready is None:
            return None
        with ready.lock:
            there = self._projections
            if there is None or not there.are_of(embeddings, ready):
                self._projections = None  # not two at a time
                self._projections = there = TokenProjections.made(embeddings, ready)
            return there

    def forget(self) -> None:
        """Takes the weights as they are again."""
        self.ready = self._projections = self.graphs = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves or casts it; graphs, which would look for it where it was, leave memory first."""
        self.graphs = None
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Without what was laid out and captured, which can be neither copied nor pickled."""
        own = ("ready", "_projections", "graphs")
        return {name: value for name, value in vars(self).items() if name not in own}


class _Parts(NamedTuple):
    """What a layer consists of."""

    attention: SelfAttention
    feed_forward: FeedForward
    maps: tuple[Linear, Linear, Linear, Linear]
    """To queries, keys and values, from contexts, up and down."""
    norms: tuple[nn.LayerNorm, nn.LayerNorm]
    weights: list[Tensor]
    """Weight and bias of all maps, then of both norms."""


def _weights(parts: Sequence[nn.Module]) -> list[Tensor | None]:
    """Weight and bias of each; None where there is none."""
    found: list[Tensor | None] = []
    for part in parts:
        own = part._parameters
        for name in ("weight", "bias"):
            each = own.get(name)
            # Who prunes or normalises a weight keeps it as a plain attribute of that name.
            found.append(getattr(part, name) if each is None else each)
    return found


def _children(module: nn.Module, *names: str) -> list[Any]:
    """Its modules of these names, None where there is none.

    Looked up as attributes each takes six times as long.
    """
    own = module._modules
    return [own.get(name) for name in names]
