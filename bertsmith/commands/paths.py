"""Which paths a command takes: text to read, and a directory to write that is nobody else's.

What is written inside the text would be read as text the next time; so would a corpus, whose
vocabulary is a file of words. It makes no directory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from bertsmith.corpus.manifest import FILE_NAME as MANIFEST
from bertsmith.corpus.store import COUNTS_FILE

_OF_A_RUN = (
    *("README.md", "config.json", "scores.json", "results.json", "metrics.jsonl", "worst.md"),
    *("best", "checkpoints", "first-vectors.npy", "curves.png", "confusion.png"),
    *("calibration.png", "numbers.png", "by-*.png"),
)
"""Patterns of what a run or a search writes after it has begun."""


def require_destination(out: Path, inputs: Sequence[Path], whose: str) -> None:
    """Raises ValueError where `out` cannot be a directory or written to, or lies inside an input.

    `whose` says what the directory is for: `the corpus's`.
    """
    resolved = out.resolve()
    place = next(path for path in (resolved, *resolved.parents) if path.exists())
    if not place.is_dir():
        raise ValueError(
            f"{whose} directory {out} cannot be made, since {place} is a file; name another one "
            f"with --out"
        )
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise ValueError(
            f"{whose} directory {out} cannot be written to ({place}: {error.strerror}); name "
            f"another one with --out"
        ) from error
    for path in inputs:
        if resolved.is_relative_to(path.resolve()):
            raise ValueError(
                f"{whose} directory {out} lies inside the input {path}, and would be read as text "
                f"the next time; name one outside of it with --out"
            )


def require_no_others(out: Path, record: str) -> None:
    """Raises ValueError where a run that has not begun would replace files that others put there.

    One that has begun has a file named `record`. What a run prepares before it begins, a vocabulary
    or a corpus, is looked at where it is made.
    """
    if (out / record).is_file() or not out.is_dir():
        return
    names = sorted(path.name for path in out.iterdir())
    others = [name for name in names if any(fnmatchcase(name, each) for each in _OF_A_RUN)]
    if others:
        raise ValueError(
            f"{out} holds {', '.join(others)}, but no run ({record}): a run would replace what is "
            f"called so; name another directory with --out, or move them away"
        )


def require_text(inputs: Sequence[Path], instead: str) -> None:
    """Raises ValueError where an input is a finished corpus or holds one.

    `instead` says what to do: `name the text that it was built from`.
    """
    corpora = [
        manifest.parent
        for path in inputs
        for manifest in sorted(path.rglob(MANIFEST))
        if (manifest.parent / COUNTS_FILE).is_file()
    ]
    if corpora:
        raise ValueError(
            f"{', '.join(map(str, corpora))}: made by build-corpus, token ids and no text; "
            f"{instead}"
        )
