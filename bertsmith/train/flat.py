"""Parameters -> flat buffers: weights, moments and half-precision copies, each in one stretch.

One stretch a group makes an optimizer step one pass over memory instead of hundreds of small ones.
The parameters become views of the buffers, so the model sees every update at once. It does not know
how weights are updated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from bertsmith.memory import ask_for_large_pages
from bertsmith.train.cpu_updates import Sleepers
from bertsmith.train.gradient import Gradient, plain
from bertsmith.train.updates import Flat

ALIGNED_ELEMENTS = 64
LARGE_ELEMENTS = 2**19
"""A parameter this large is a group of its own, but not on a GPU."""


@dataclass
class Piece:
    """One parameter's place in its group."""

    name: str
    parameter: nn.Parameter
    start: int
    end: int
    updates: int = 0
    """Updates this parameter has had: the t of bias correction, 1-based at its first."""


@dataclass
class Run:
    """Consecutive pieces of a group that take the same update, with their gradients."""

    group: Group
    pieces: list[Piece]
    gradient: Gradient

    @property
    def is_all(self) -> bool:
        """Whether it is the whole group."""
        return len(self.pieces) == len(self.group.pieces)

    @property
    def flat(self) -> Flat:
        """The run's stretch of the group's buffers."""
        if self.is_all:
            return self.group.whole
        return self.group.stretch(self.pieces[0].start, self.pieces[-1].end)

    @property
    def sleepers(self) -> Sleepers | None:
        """Which blocks of the run have had a gradient; None where nobody counts them."""
        return self.group.sleepers if self.is_all else None


class Group:
    """Parameters of one type and device that all decay, or all do not."""

    def __init__(self, named_parameters: list[tuple[str, nn.Parameter]], *, decays: bool) -> None:
        self.decays = decays
        self.pieces = list(_lay(named_parameters))
        first, size = self.pieces[0].parameter, self.pieces[-1].end
        wide = torch.promote_types(first.dtype, torch.float32)
        self.weight = _room(size, wide, first.device)
        self.exp_avg, self.exp_avg_sq = (_room(size, wide, first.device).zero_() for _ in range(2))
        is_half = first.dtype != wide
        self.copy = _room(size, first.dtype, first.device) if is_half else None
        self.whole = self.stretch(0, size)
        """Every buffer."""
        seen = self.weight if self.copy is None else self.copy
        for piece in self.pieces:
            values, shape = piece.parameter.detach(), piece.parameter.shape
            self.weight[piece.start : piece.end] = values.reshape(-1)
            piece.parameter.data = seen[piece.start : piece.end].view(shape)
        # Of a large parameter, such as an embedding, most may never have a gradient.
        is_alone = len(self.pieces) == 1 and size >= LARGE_ELEMENTS
        self.sleepers = Sleepers(size) if is_alone and first.device.type == "cpu" else None
        self.refresh()

    def settle(self) -> None:
        """Gives weights what they have yet to take, before anybody sees or sets them."""
        if self.sleepers is not None:
            self.sleepers.settle(self.whole)

    def refresh(self) -> None:
        """Makes what follows from weights and moments: the rounded copy, and who is awake.

        Parameters count as changed.
        """
        if self.copy is not None:
            self.copy.copy_(self.weight)
        count_as_changed(self.pieces)
        if self.sleepers is not None:
            self.sleepers.wake_by(self.exp_avg, self.exp_avg_sq)

    def stretch(self, start: int, end: int) -> Flat:
        """Elements [start, end) of every buffer."""
        rows = slice(start, end)
        return Flat(
            plain(self.weight[rows]),
            plain(self.exp_avg[rows]),
            plain(self.exp_avg_sq[rows]),
            None if self.copy is None else plain(self.copy[rows]),
        )

    def runs(self) -> Iterator[Run]:
        """Cuts the pieces that have gradients into as few runs as can be.

        A run ends before a piece without a gradient, with another gradient type, or with another
        count of updates.
        """
        seen = self.weight if self.copy is None else self.copy
        first, size = seen.data_ptr(), seen.element_size()
        pieces: list[Piece] = []
        gradients: list[Tensor] = []
        run_kind: tuple[torch.dtype, int] | None = None  # of its gradients; updates so far
        for piece in self.pieces:
            parameter = piece.parameter
            gradient = parameter.grad
            if parameter.data_ptr() != first + piece.start * size:
                raise ValueError(
                    f"parameter {piece.name} was moved or replaced after the optimizer was made; "
                    f"move, cast and load the model first, then make the optimizer"
                )
            kind = None if gradient is None else (gradient.dtype, piece.updates)
            if kind != run_kind:
                if pieces:
                    yield Run(self, pieces, Gradient(gradients))
                pieces, gradients, run_kind = [], [], kind
            if gradient is not None:
                pieces.append(piece)
                gradients.append(gradient)
        if pieces:
            yield Run(self, pieces, Gradient(gradients))


def count_as_changed(pieces: Iterable[Piece]) -> None:
    """Tells torch what it does not see: their memory was written to by way of the buffers.

    So who goes back through weights that have changed since hears of it, and what was laid out of
    them for answers is not taken any more.
    """
    increment_version([piece.parameter for piece in pieces])


def grouped(named_parameters: Iterable[tuple[str, nn.Parameter]]) -> list[Group]:
    """Lays out every trainable parameter once; tensors of fewer than two dimensions do not decay.

    That rule names exactly LayerNorm and biases; embeddings and matrices decay. A large parameter
    is a group of its own, but not on a GPU: there a call takes longer than to lay gradients end to
    end. Raises ValueError for two parameters of one name, for one made in inference mode, or none
    at all.
    """
    kinds: dict[tuple[object, ...], list[tuple[str, nn.Parameter]]] = {}
    names: set[str] = set()
    seen: set[int] = set()
    for name, parameter in named_parameters:
        if not parameter.requires_grad or id(parameter) in seen:
            continue
        if name in names:
            raise ValueError(f"two different parameters are named {name!r}")
        if parameter.is_inference():
            raise ValueError(
                f"parameter {name} was made in inference mode, where nobody counts changes: make "
                f"or load the model outside it"
            )
        seen.add(id(parameter))
        names.add(name)
        is_alone = parameter.numel() >= LARGE_ELEMENTS and parameter.device.type != "cuda"
        alone = name if is_alone else ""
        kind = (parameter.device, parameter.dtype, parameter.dim() >= 2, alone)
        kinds.setdefault(kind, []).append((name, parameter))
    if not kinds:
        raise ValueError("the optimizer was given no parameter that requires a gradient")
    return [Group(members, decays=members[0][1].dim() >= 2) for members in kinds.values()]


def _room(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(E,) to be written, of a CPU's memory in large pages where the system has them."""
    room = torch.empty(size, dtype=dtype, device=device)
    if room.is_cpu:
        ask_for_large_pages(room.data_ptr(), size * room.element_size())
    return room


def _lay(named_parameters: list[tuple[str, nn.Parameter]]) -> Iterator[Piece]:
    # Sizes that break the alignment come last, so that the others all start on a cache line.
    start = 0
    for name, parameter in sorted(
        named_parameters, key=lambda item: item[1].numel() % ALIGNED_ELEMENTS != 0
    ):
        end = start + parameter.numel()
        yield Piece(name, parameter, start, end)
        start = end
