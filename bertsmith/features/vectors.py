"""What is known of one text after its extraction, and how a file of such texts is laid out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertsmith.batch import IntArray
from bertsmith.features.plan import DType, Per


@dataclass(frozen=True, kw_only=True)
class Text:
    """One text of the input."""

    id: str
    """As the input calls it, or its number, counted from 0."""
    text: str
    """As it was given."""
    bytes_read: int = 0
    """Bytes of the input consumed when it was read, for a progress bar."""


@dataclass(frozen=True, kw_only=True)
class TextVectors:
    """A text and its vectors: n of them, for its tokens or words, or one."""

    text: Text
    """What was read."""
    vectors: npt.NDArray[np.generic]
    """(n, W) in the layout's dtype; bfloat16, which numpy lacks, as its bits in uint16."""
    pieces: tuple[str, ...]
    """(n,) tokens as the vocabulary writes them, or words as they stand in the text."""
    token_ids: IntArray
    """(n,) rows of the vocabulary; (0,) for words and whole texts."""
    spans: IntArray
    """(n, 2) first and past-the-last character in the text; (0, 0) for special tokens."""
    num_tokens: int
    """Tokens of the text that were read, special ones not counted."""
    num_unread: int
    """Tokens at its end that were not."""
    num_windows: int
    """In how many pieces it was read."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What is the same for every text of a file."""

    per: Per
    """What a vector stands for."""
    width: int
    """W: numbers a vector has."""
    dtype: DType
    """How they are written."""
    metadata: Mapping[str, str]
    """How they were made, for whoever finds the file."""
