"""One Transformer layer: attention and feed-forward, each with dropout, residual and LayerNorm.

Post-LayerNorm, as in the original. The matrix multiplications run as they are; everything between
them is fused into one pass over memory. Where that is faster, all of it is one call: on a CPU
without gradients (`cpu_layer`) and where it learns (`cpu_training_layers`), and on a GPU
(`gpu_layer`). It does not know what the hidden states are for.

Source: Devlin et al. 2018, section 3; google-research/bert, modeling.py, transformer_model.

Legend: T tokens, R rows asked for (all T if none are named), H hidden size, F feed-forward size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from torch import Tensor, nn

from bertsmith.model import (
    cpu_layers,
    cpu_token_projections,
    cpu_training_layers,
    gpu_layer,
    gpu_layers,
)
from bertsmith.model.attention import SelfAttention
from bertsmith.model.config import BertConfig
from bertsmith.model.cpu_layer import ReadyLayer, can_lay_out
from bertsmith.model.cpu_token_projections import TokenProjections
from bertsmith.model.dropout import FEED_FORWARD_SITE, site_words
from bertsmith.model.embeddings import Embeddings
from bertsmith.model.gpu_turns import Graphs
from bertsmith.model.layer_rules import LayerRules, LearningLayer, are_of_one_layer
from bertsmith.model.linear import Linear, linears, project_and_norm
from bertsmith.model.origins import Origins
from bertsmith.model.stream import Stream
from bertsmith.model.watched import is_watched


class Layer(nn.Module):
    """(T, H) hidden states -> (T, H) hidden states."""

    _ready: ReadyLayer | None = None
    """All of it as one call, where nobody asks for a gradient."""
    _projections: TokenProjections | None = None
    """What ids bring to it, where it is the first."""
    _graphs: Graphs | None = None
    """Of this layer and those that follow it, on a GPU."""

    def __init__(self, config: BertConfig, number: int) -> None:
        super().__init__()
        self.number = number
        self.attention = SelfAttention(config, number)
        self.feed_forward = FeedForward(config, number)

    def forward(self, hidden: Tensor, stream: Stream, rows: Tensor | None = None) -> Tensor:
        """Both sub-layers in turn; with `rows` (R,), what only other rows need is left out."""
        ready = self._ready
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
        attention, feed_forward, maps, norms = parts
        is_one = attention.dropout == feed_forward.dropout
        if not is_one or not attention.number == feed_forward.number == self.number:
            return None
        if any(map(is_watched, (attention, feed_forward, *maps, *norms))):
            return None
        if any(each.in_float16 for each in maps):  # these multiply by other products
            return None
        rules = LayerRules(
            number=self.number,
            attention=attention.rules,
            activation=feed_forward.activation,
            probability=feed_forward.dropout,
            epsilons=(norms[0].eps, norms[1].eps),
        )
        return LearningLayer(weights=parts.weights, rules=rules)

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
        attention, feed_forward, maps, norms = parts
        origins = Origins(
            [(part, name) for part in (*maps, *norms) for name in ("weight", "bias")],
            wholes=(self, attention, feed_forward),
            settings=[
                (attention, "rules"),
                (feed_forward, "activation"),
                *((norm, "eps") for norm in norms),
            ],
        )
        self._ready = ReadyLayer(maps, norms, attention.rules, feed_forward.activation, origins)

    def _own_parts(self) -> _Parts | None:
        """None where one was replaced by one of another kind."""
        attention, feed_forward = self.attention, self.feed_forward
        if type(attention) is not SelfAttention or type(feed_forward) is not FeedForward:
            return None
        maps = (attention.qkv, attention.output, feed_forward.up, feed_forward.down)
        norms = (attention.norm, feed_forward.norm)
        if {*map(type, maps)} != {Linear} or {*map(type, norms)} != {nn.LayerNorm}:
            return None
        return _Parts(attention, feed_forward, maps, norms)

    def projections(self, embeddings: Embeddings) -> TokenProjections | None:
        """What ids bring to it as it was laid out; None where that is not to be had.

        Made when first asked for, by one thread, for which others wait.
        """
        ready = self._ready
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
        self._ready = self._projections = self._graphs = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves or casts it; graphs, which would look for it where it was, leave memory first."""
        self._graphs = None
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Without what was laid out and captured, which can be neither copied nor pickled."""
        own = ("_ready", "_projections", "_graphs")
        return {name: value for name, value in vars(self).items() if name not in own}


def from_ids(
    embeddings: nn.Module, layers: Sequence[nn.Module], stream: Stream, rows: Tensor | None = None
) -> tuple[Tensor, Tensor] | None:
    """The embeddings' hidden states of a stream, (T, H), and what `in_turn` makes of them.

    In one call; None where they were not laid out for it, and of some rows of a lone layer, which
    makes few queries.
    """
    if not cpu_token_projections.is_answering(embeddings):
        return None
    first = _first(embeddings, layers)
    if first is None or (len(layers) == 1 and rows is not None):
        return None
    laid_out = _laid_out(_as_made(layers))
    if len(laid_out) < len(layers):
        return None
    table = embeddings.token.weight
    hidden = table.new_empty(len(stream.token_ids), table.shape[1])  # (T, H)
    if not cpu_layers.suits(laid_out, hidden, stream, rows):
        return None
    projections = first.projections(embeddings)
    if projections is None or not projections.suit(stream):
        return None
    output = cpu_layers.from_ids(laid_out, projections, hidden, stream, rows)
    return None if output is None else (hidden, output)


def prepare(embeddings: nn.Module, layers: Sequence[nn.Module], *, is_pooled: bool) -> None:
    """Makes what `from_ids` looks up, if it does, and what a pooler needs of the last layer."""
    if is_pooled:
        for ready in _laid_out(_as_made(layers[-1:])):
            ready.structure_for_pooling()
    if cpu_token_projections.is_answering(embeddings):
        first = _first(embeddings, layers)
        if first is not None:
            first.projections(embeddings)


def _first(embeddings: Embeddings, layers: Sequence[nn.Module]) -> Layer | None:
    """The first layer, if it may look up what these embeddings bring: asked for every text."""
    first = layers[0] if layers else None
    if not isinstance(first, Layer) or first._ready is None:
        return None
    return first if cpu_token_projections.pay(embeddings, first._ready) else None


def in_turn(
    layers: Sequence[nn.Module], hidden: Tensor, stream: Stream, rows: Tensor | None = None
) -> Tensor:
    """Several layers in turn; with `rows` (R,), of the last one's states only these.

    In one call where all were laid out for it, in one function where all learn, and nobody hooked
    into one of them or changed what one does.
    """
    as_made = _as_made(layers)
    laid_out = _laid_out(as_made)
    if len(laid_out) == len(layers) and cpu_layers.suits(laid_out, hidden, stream, rows):
        return cpu_layers.through(laid_out, hidden, stream, rows)
    if len(as_made) == len(layers) and cpu_training_layers.may_suit(hidden, len(layers)):
        learning = [whole for each in as_made if (whole := each.learning()) is not None]
        are_all = len(learning) == len(layers)
        if are_all and cpu_training_layers.suits(learning, hidden, stream, rows):
            return cpu_training_layers.through(learning, hidden, stream, rows)
    if layers and gpu_layers.may_suit(hidden):
        learning = [whole for each in as_made if (whole := each.learning()) is not None]
        if len(learning) < len(layers):
            if isinstance(layers[0], Layer):
                layers[0]._graphs = None  # they hold memory, and somebody is watching now
        elif gpu_layers.suits(learning, hidden):
            first = as_made[0]
            found, first._graphs = gpu_layers.through(first._graphs, learning, hidden, stream, rows)
            return found
    *others, last = layers
    for layer in others:
        hidden = layer(hidden, stream)
    output: Tensor = last(hidden, stream, rows)
    return output


def _as_made(layers: Sequence[nn.Module]) -> list[Layer]:
    """Those that nobody hooked into or changed."""
    return [each for each in layers if type(each) is Layer and not is_watched(each)]


def _laid_out(layers: Sequence[Layer]) -> list[ReadyLayer]:
    return [each._ready for each in layers if each._ready is not None]


def lay_out(model: nn.Module) -> None:
    """Lays out the weights of every layer of a model that is to answer, and joins its embeddings.

    What is done in one call then calls no hook of a part. Changes in place through `.data`, a part
    of the same block put there, and changes of weights made in inference mode nobody can see: lay
    out anew after them. Blocks of weights that
    another `.data` took the place of stay in memory until then.
    """
    in_layers: set[int] = set()
    for module in model.modules():
        if isinstance(module, Embeddings):
            module.only_answers = True
        if isinstance(module, Layer):
            module.lay_out()
            in_layers.update(map(id, linears(module)))
    for linear in linears(model):
        if id(linear) not in in_layers:
            linear.lay_out()


def forget(model: nn.Module) -> None:
    """Undoes what `lay_out` did, and what rounded weights."""
    for module in model.modules():
        if isinstance(module, Embeddings):
            module.only_answers = False
        if isinstance(module, Layer | Linear):
            module.forget()


class _Parts(NamedTuple):
    """What a layer consists of."""

    attention: SelfAttention
    feed_forward: FeedForward
    maps: tuple[Linear, Linear, Linear, Linear]
    """To queries, keys and values, from contexts, up and down."""
    norms: tuple[nn.LayerNorm, nn.LayerNorm]

    @property
    def weights(self) -> list[Tensor]:
        """Weight and bias of all maps, then of both norms."""
        return [each for part in (*self.maps, *self.norms) for each in (part.weight, part.bias)]


class FeedForward(nn.Module):
    """The position-wise sub-layer, with its residual and norm."""

    def __init__(self, config: BertConfig, number: int) -> None:
        super().__init__()
        self.number = number
        self.activation = config.hidden_act
        self.dropout = config.hidden_dropout_prob
        self.up = Linear(config.hidden_size, config.intermediate_size)
        self.down = Linear(config.intermediate_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden: Tensor, row_keys: Tensor | None) -> Tensor:
        """(T, H) -> (T, H)."""
        inner = self.up.activated(hidden, self.activation)  # (T, F)
        words = site_words(row_keys, self.number, FEED_FORWARD_SITE)
        return project_and_norm(self.down, inner, hidden, words, self.dropout, self.norm)  # (T, H)
