"""A folder -> the files under it, in one order on every machine. It knows no formats."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LOOPS = "links to folders that are read already, or that lie around the input"
NO_FILES = "broken links, and what is neither file nor folder"


def files_under(folder: Path, skipped: Counter[str]) -> list[Path]:
    """Files under a folder, sorted by their path's parts; hidden names are left out.

    Links are followed, but no folder is read twice, and none that the folder lies in: such links,
    and broken ones, are counted. Raises OSError for a folder that cannot be read.
    """
    root = folder.resolve()
    return list(_files_in(folder, {_identity(place) for place in (root, *root.parents)}, skipped))


def _files_in(folder: Path, seen: set[tuple[int, int]], skipped: Counter[str]) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
    for entry in sorted(visible, key=lambda entry: entry.name):
        path = folder / entry.name
        if entry.is_file():
            yield path
        elif not entry.is_dir():
            skipped[NO_FILES] += 1
        elif (identity := _identity(path)) in seen:
            skipped[LOOPS] += 1
        else:
            seen.add(identity)
            yield from _files_in(path, seen, skipped)


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino
