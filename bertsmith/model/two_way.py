"""Two models that read in opposite directions -> one, their hidden states side by side.

The shallow concatenation of ELMo: no state of one side is ever seen by the other, so a token's two
halves know its left and its right, and nothing knows both (paper, Figure 3). The two are joined
layer by layer, so what reads an encoder's states finds layers as it knows them, twice as wide. In
training both sides drop alike.

Source: Peters et al. 2018, sections 3.1 and 3.2; Devlin et al. 2018, section 2.1 and Figure 3.

Legend: T tokens, R rows asked for (all T if none are named), H hidden size, half of it each side's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertsmith.model.stream import Stream


class TwoWayEmbeddings(nn.Module):
    """The embeddings of both sides: a stream -> (T, H)."""

    def __init__(self, left_to_right: nn.Module, right_to_left: nn.Module) -> None:
        super().__init__()
        self.left_to_right, self.right_to_left = left_to_right, right_to_left

    def forward(self, stream: Stream) -> Tensor:
        """The first hidden states of every token of the stream."""
        return torch.cat([self.left_to_right(stream), self.right_to_left(stream)], dim=1)  # (T, H)


class TwoWayLayer(nn.Module):
    """A layer of each side: (T, H) hidden states -> (T, H) hidden states."""

    def __init__(self, left_to_right: nn.Module, right_to_left: nn.Module) -> None:
        super().__init__()
        self.left_to_right, self.right_to_left = left_to_right, right_to_left

    def forward(self, hidden: Tensor, stream: Stream, rows: Tensor | None = None) -> Tensor:
        """Each side on its half; with `rows` (R,), what only other rows need is left out."""
        left, right = (half.contiguous() for half in hidden.chunk(2, dim=1))  # (T, H/2)
        sides = [self.left_to_right(left, stream, rows), self.right_to_left(right, stream, rows)]
        return torch.cat(sides, dim=1)  # (R, H)
