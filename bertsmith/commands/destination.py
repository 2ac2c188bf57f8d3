"""Where a command may write: not over a file, and not inside the text that it reads.

What is written inside the text would be read as text the next time. It makes no directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def require_destination(out: Path, inputs: Sequence[Path], whose: str) -> None:
    """Raises ValueError where `out` cannot be a directory, or lies inside an input.

    `whose` says what the directory is for: `the corpus's`.
    """
    resolved = out.resolve()
    place = next(path for path in (resolved, *resolved.parents) if path.exists())
    if not place.is_dir():
        raise ValueError(
            f"{whose} directory {out} cannot be made, since {place} is a file; name another one "
            f"with --out"
        )
    for path in inputs:
        if resolved.is_relative_to(path.resolve()):
            raise ValueError(
                f"{whose} directory {out} lies inside the input {path}, and would be read as text "
                f"the next time; name one outside of it with --out"
            )
