"""Hidden states through layers of a GPU: by CUDA graphs where that is faster, else layer by layer.

A step of few tokens waits for Python and launches, not for the GPU: BASE has some 450 of them,
there and back, of ten microseconds each. So what the layers do to batches of a size is captured
once and replayed (`gpu_turns`). Layer by layer go float32, whoever has what the way back asks for
computed anew, and large batches, whose kernels take longer than their launches, but those that
would not have to be filled up.

Legend: T tokens, R rows asked for (all T if none are named), H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bertsmith.model import gpu_layer
from bertsmith.model.gpu_turns import Graphs
from bertsmith.model.layer_rules import LearningLayer
from bertsmith.model.stream import Stream, rounded

MOST_STATES = 2**25
"""Numbers of hidden states of a batch that graphs take, filled up to a round number of rows. Of
more kernels take longer than their launches, and the rows longer than what a graph saves."""
MOST_WHOLE_STATES = 2**26
"""The same of a batch of sequences of one length, as full ones are, whose rows are such a number:
BASE's step of 65,536 tokens took 74.4 ms in place of 75.7 on an H200."""
_HALF_BYTES = 2


def may_suit(hidden: Tensor) -> bool:
    """Whether it is worth asking for several layers."""
    return (
        gpu_layer.may_suit(hidden)
        and hidden.element_size() == _HALF_BYTES
        and not torch.cuda.is_current_stream_capturing()  # by somebody else
    )


def are_few(hidden: Tensor, stream: Stream) -> bool:
    """Whether graphs take a batch so large."""
    is_whole = len(hidden) == rounded(len(hidden)) and stream.is_one_rectangle
    return hidden.numel() <= (MOST_WHOLE_STATES if is_whole else MOST_STATES)


def suits(layers: Sequence[LearningLayer], hidden: Tensor) -> bool:
    """Whether kernels are there for all of them."""
    return all(gpu_layer.suits(hidden, each.weights, each.rules) for each in layers)


def through(
    graphs: Graphs | None,
    layers: Sequence[LearningLayer],
    hidden: Tensor,
    stream: Stream,
    rows: Tensor | None,
) -> tuple[Tensor, Graphs | None]:
    """(T, H) hidden states -> (T, H), or of (R,) `rows` of the last layer alone, (R, H).

    And the graphs of these layers, for the next time; `graphs` are those of the last.
    """
    if graphs is not None and not graphs.are_of(layers):
        graphs = None
    is_large = not are_few(hidden, stream)
    if is_large and graphs is not None:
        graphs.give_way()
    if is_large or (torch.is_grad_enabled() and _is_kept_otherwise()):
        return layer_by_layer(layers, hidden, stream, rows), graphs
    graphs = graphs or Graphs(layers)
    states = graphs.through(hidden, stream, rows)
    if states is None:
        states = layer_by_layer(layers, hidden, stream, rows)
    return states, graphs


def layer_by_layer(
    layers: Sequence[LearningLayer], hidden: Tensor, stream: Stream, rows: Tensor | None
) -> Tensor:
    """The same without graphs."""
    for number, each in enumerate(layers, 1):
        asked = rows if number == len(layers) else None
        hidden = gpu_layer.through(hidden, stream, asked, each.weights, each.rules)
    return hidden


def _is_kept_otherwise() -> bool:
    """Whether somebody else keeps what the way back asks for, as who computes it anew does."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
