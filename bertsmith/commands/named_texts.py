"""Paths that a person typed -> whether they are there, or stand for text, told before the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
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


def refuse_files(texts: Iterable[str], advice: Callable[[str], str]) -> None:
    """Raises ValueError for a text that is a file's name, with advice on what to do with it."""
    for text in texts:
        if os.path.isfile(text):  # any text may be asked: pathlib raises for a long one
            raise ValueError(f"{text} is a file: {advice(text)}")
