"""A checkpoint that a run would go on from, and that is damaged -> the error that says what to do.

It looks for the checkpoint before it, and neither reads nor deletes one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bertsmith.checkpoints.places import checkpoints_of
from bertsmith.files import DamagedError


@contextlib.contextmanager
def told_with_remedy(checkpoint: Path | None) -> Iterator[None]:
    """Says of a file that is damaged or missing where the run goes on without its checkpoint.

    `checkpoint` is the newest of the run that it lies in; None where it has none yet. Raises
    DamagedError in place of DamagedError and FileNotFoundError.
    """
    try:
        yield
    except (DamagedError, FileNotFoundError) as error:
        if checkpoint is None:
            raise
        run = checkpoint.parent.parent
        before = [each for each in checkpoints_of(run) if each != checkpoint][-1:]
        goes_on = f"goes on from {before[0].name}" if before else "begins again from its first step"
        raise DamagedError(f"{error}; once {checkpoint} is deleted, the run {goes_on}") from error
