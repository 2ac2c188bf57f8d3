"""The gradients of parameters that lie side by side -> one, laid end to end where it must be.

Whoever takes each where it lies (`cpu_updates`) spares that copy. It knows no weights.

Legend: E elements of them all, R rows of a table, U of them that have a gradient, H wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor


class Gradient:
    """Of one parameter or several, in their order and of one type.

    That of one alone may be sparse: rows of a table, in one sparse dimension of two. All other rows
    have none.
    """

    def __init__(self, parts: Sequence[Tensor]) -> None:
        """Raises IndexError for a sparse one of rows that its table does not have."""
        is_sparse = len(parts) == 1 and parts[0].is_sparse
        self.table = _coalesced(parts[0]) if is_sparse else None
        """(R, H) with U rows, each once and in their order; None where none is sparse."""
        self.rows = None if self.table is None else self.table.indices()[0].contiguous()
        """Which of the table's, (U,) int64 that lie one behind the other."""
        self.numbers = [
            _dense(self.table.values() if self.table is not None else each) for each in parts
        ]
        """What each holds, one number behind the other; of a sparse one (U, H)."""

    @cached_property
    def whole(self) -> Tensor:
        """(E,)."""
        if self.table is not None:
            return self.table.to_dense().reshape(-1)
        flat = [plain(each.reshape(-1)) for each in self.numbers]
        return flat[0] if len(flat) == 1 else torch.cat(flat)


def plain(tensor: Tensor) -> Tensor:
    """The same memory as a tensor of its own, not a view.

    For a view torch.compile makes another kernel, and one more for each kind of tensor it is of.
    """
    return tensor.data


def _dense(gradient: Tensor) -> Tensor:
    if gradient.is_sparse:
        return (_coalesced(gradient) if gradient.sparse_dim() == 1 else gradient).to_dense()
    return gradient.contiguous()


def _coalesced(gradient: Tensor) -> Tensor:
    """Each row once, in order. Autograd forgets that they are, and sorting them takes long."""
    (rows,) = gradient._indices()
    is_so = bool((rows[1:] > rows[:-1]).all())
    if len(rows):  # with others torch, and whoever makes it dense, writes where nothing is its own
        lowest, highest = (rows[0], rows[-1]) if is_so else rows.aminmax()
        if lowest < 0 or highest >= len(gradient):
            raise IndexError(
                f"a table has rows 0 to {len(gradient) - 1}, and a gradient rows {int(lowest)} to "
                f"{int(highest)}"
            )
    return gradient._coalesced_(True) if is_so else gradient.coalesce()
