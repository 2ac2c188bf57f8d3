"""Several Transformer layers in turn, in one call where that is faster; and all of a model at once.

Where they were laid out for answers (`cpu_layers`), where they learn on a CPU
(`cpu_training_layers`), and as CUDA graphs on a GPU (`gpu_layers`); everywhere else one layer
after the other. What a layer does stands in `layer`.

Legend: T tokens, R rows asked for (all T if none are named), H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from bertsmith.model import cpu_layers, cpu_token_projections, cpu_training_layers, gpu_layers
from bertsmith.model.cpu_layer import ReadyLayer
from bertsmith.model.cpu_sources import of_answers
from bertsmith.model.embeddings import Embeddings
from bertsmith.model.layer import Layer
from bertsmith.model.linear import Linear, linears
from bertsmith.model.stream import Stream
from bertsmith.model.watched import is_watched
from bertsmith.native import build_together


def from_ids(
    embeddings: nn.Module, layers: Sequence[nn.Module], stream: Stream, rows: Tensor | None = None
) -> tuple[Tensor, Tensor] | None:
    """The embeddings' hidden states of a stream, (T, H), and what `in_turn` makes of them.

    In one call; None where they were not laid out for it, and of some rows of a lone layer, which
    makes few queries.
    """
    if not cpu_token_projections.is_answering(embeddings):
        return None
    as_made = _as_made(layers)
    laid_out = _laid_out(as_made)
    if not layers or len(laid_out) < len(layers) or (len(layers) == 1 and rows is not None):
        return None
    table = embeddings.token.weight
    hidden = table.new_empty(stream.token_ids.shape[0], table.shape[1])  # (T, H)
    if not cpu_layers.suits(laid_out, hidden, stream, rows):
        return None
    projections = as_made[0].projections(embeddings)
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
        for first in _as_made(layers[:1]):
            first.projections(embeddings)


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
                layers[0].graphs = None  # they hold memory, and somebody is watching now
        elif gpu_layers.suits(learning, hidden):
            first = as_made[0]
            found, first.graphs = gpu_layers.through(first.graphs, learning, hidden, stream, rows)
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
    return [each.ready for each in layers if each.ready is not None]


def lay_out(model: nn.Module) -> None:
    """Lays out the weights of every layer of a model that is to answer, and joins its embeddings.

    What is done in one call then calls no hook of a part. Changes in place through `.data`, a part
    of the same block put there, and changes of weights made in inference mode nobody can see: lay
    out anew after them. Blocks of weights that another `.data` took the place of stay in memory
    until then.
    """
    build_together(of_answers(linears(model)))
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
