"""The golden files -> typed values, each file read once. It does not know what they mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from bertsmith.certificate import golden


@dataclass(frozen=True)
class Values:
    """A part of a golden file."""

    content: object

    def at(self, *path: str) -> Values:
        """The entry under these keys."""
        content = self.content
        for key in path:
            assert isinstance(content, dict)
            content = content[key]
        return Values(content)

    def numbers(self, *path: str) -> npt.NDArray[np.float64]:
        """Numbers as an array of whatever shape they have."""
        return np.asarray(self.at(*path).content, dtype=np.float64)

    def number(self, *path: str) -> float:
        """A single number."""
        return float(self.numbers(*path))

    def integers(self, *path: str) -> npt.NDArray[np.int64]:
        """Whole numbers as an array."""
        return np.asarray(self.at(*path).content, dtype=np.int64)

    def integer(self, *path: str) -> int:
        """A single whole number."""
        return int(self.integers(*path))

    def words(self, *path: str) -> list[str]:
        """A list of strings."""
        return [str(each.content) for each in self.at(*path).each()]

    def word(self, *path: str) -> str:
        """A single string."""
        return str(self.at(*path).content)

    def is_null(self, *path: str) -> bool:
        """Whether nothing stands there."""
        return self.at(*path).content is None

    def each(self, *path: str) -> Iterator[Values]:
        """The elements of a list."""
        content = self.at(*path).content
        assert isinstance(content, list)
        return map(Values, content)

    def items(self, *path: str) -> Iterator[tuple[str, Values]]:
        """The keys and entries of an object, in the file's order."""
        content = self.at(*path).content
        assert isinstance(content, dict)
        return ((str(key), Values(value)) for key, value in content.items())


@cache
def golden_values(name: str) -> Values:
    """The content of `golden/NAME.json`."""
    text = resources.files(golden).joinpath(f"{name}.json").read_text(encoding="ascii")
    return Values(json.loads(text))
