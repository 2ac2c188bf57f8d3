"""A folder -> the files under it, in one order on every machine. It knows no formats."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

LOOPS = "links to folders that are read already, or that lie around the input"
HIDDEN = "hidden files and folders"
NO_FILES = "broken links, and what is neither file nor folder"
_NAMED = 3


def files_under(folder: Path, skipped: Counter[str]) -> list[Path]:
    """Files under a folder, sorted by their path's parts, without the hidden ones.

    Links are followed, but no folder is read twice, and none that the folder lies in: such links,
    broken ones, and hidden files and folders are counted. Raises OSError for a folder that cannot
    be read.
    """
    root = folder.resolve()
    return list(_files_in(folder, {_identity(place) for place in (root, *root.parents)}, skipped))


def files_of_no_known_format(files: Sequence[Path]) -> str:
    """What is said of files that were passed over, with the names of the first."""
    names = [file.name for file in files[:_NAMED]] + ["..."] * (len(files) > _NAMED)
    return f"files of no known format ({', '.join(names)})"


def _files_in(folder: Path, seen: set[tuple[int, int]], skipped: Counter[str]) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        path = folder / entry.name
        if entry.name.startswith("."):
            skipped[HIDDEN] += 1
        elif entry.is_file():
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
