"""A two-way model's parameter names <-> those of the two models that it joins.

Each side is a model of its own under its direction's name: `left_to_right.bert.encoder...` on
disk, and inside, where they are joined part by part, `bert.layers.0.left_to_right...`.
"""

from __future__ import annotations

import re

from bertsmith.model.config import Direction

SIDES: tuple[Direction, ...] = ("left_to_right", "right_to_left")
_PART = r"bert\.(?:embeddings|layers\.\d+)"
_OF_ONE = re.compile(rf"({_PART})\.(.+)")
_OF_BOTH = re.compile(rf"({_PART})\.({'|'.join(SIDES)})\.(.+)")


def joined_name(side: Direction, native: str) -> str | None:
    """What a parameter of one side's encoder is called in the two-way one.

    None for what it has not: the pooler, and the heads.
    """
    found = _OF_ONE.fullmatch(native)
    return None if found is None else f"{found[1]}.{side}.{found[2]}"


def parted(native: str) -> tuple[str, str]:
    """What the side's names on disk begin with, and what the parameter is called in that side.

    Nothing and the name itself for a parameter of a model that is not joined.
    """
    found = _OF_BOTH.fullmatch(native)
    return ("", native) if found is None else (f"{found[2]}.", f"{found[1]}.{found[3]}")


def without_side(name: str) -> str:
    """A name on disk without its side's."""
    side, _, rest = name.partition(".")
    return rest if side in SIDES else name
