"""What is wrong with a row that nobody is told of: an error that names file and line."""

from __future__ import annotations


def refuse(fault: str, advice: str = "mend the row") -> None:
    """What is done with a malformed row that nobody is told of: raises ValueError."""
    raise ValueError(f"{fault}; {advice}")
