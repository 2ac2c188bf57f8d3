"""Vectors of texts -> a file, in the format that its name says.

Every format appears whole under its name or not at all, takes texts as they come, and holds no more
of them than it is given at once. Parquet holds texts and ids too, a row a text; the other two hold
arrays, whose order is the input's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from bertsmith.features import arrays, parquet
from bertsmith.features.plan import FeaturePlan
from bertsmith.features.vectors import Layout, TextVectors


class Writer(Protocol):
    """A file that grows."""

    def write(self, texts: Sequence[TextVectors]) -> None:
        """Appends texts, in the order given."""


_WRITERS: dict[str, Callable[[Path, Layout], AbstractContextManager[Writer]]] = {
    ".parquet": parquet.writer,
    ".npz": arrays.npz_writer,
    ".safetensors": arrays.safetensors_writer,
}


def check_format(path: Path, plan: FeaturePlan, *, has_ids: bool) -> None:
    """Raises ValueError for a name that says no format, and for what the format cannot hold."""
    suffix = path.suffix
    if suffix not in _WRITERS:
        raise ValueError(
            f"{path}: vectors are written as {', '.join(_WRITERS)}, found the extension "
            f"{suffix!r}: name the file by one of these"
        )
    if plan.dtype == "bfloat16" and suffix != ".safetensors":
        raise ValueError(
            f"{path}: {suffix} has no bfloat16: choose float16, or name the file .safetensors"
        )
    if has_ids and suffix != ".parquet":
        raise ValueError(
            f"{path}: {suffix} holds arrays in the order of the input and no ids: leave the id "
            f"field out, or name the file .parquet"
        )


def open_writer(path: Path, layout: Layout) -> AbstractContextManager[Writer]:
    """A writer whose file takes its place at `path` when the block ends without an error."""
    return _WRITERS[path.suffix](path, layout)
