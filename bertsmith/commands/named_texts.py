"""Paths of text that a person typed -> whether they are there, told before anything is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path


def require_typed(arguments: Sequence[str]) -> None:
    """`require_there` for the words before the first option, with no option read."""
    require_there(map(Path, takewhile(lambda word: not word.startswith("-"), arguments)))


def require_there(texts: Iterable[Path]) -> None:
    """Raises FileNotFoundError for the first path that names no file and no folder."""
    for path in texts:
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder")
