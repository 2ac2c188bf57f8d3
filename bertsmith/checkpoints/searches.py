"""The directory of a search without a chosen run -> one line on why, and which of its runs to name.

It reads the search's files as JSON values and knows nothing else of searches.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertsmith.files import read_json

SEARCH = "search.json"
"""What a search has in place of run.json; its runs lie in directories of it."""
RESULTS = "results.json"
"""A row for every run of a search that has ended."""


def told_without_choice(directory: Path, runs: Sequence[Path]) -> str:
    """What the search has come to; `runs` are those of its directories that hold a model.

    Raises ValueError for files that are damaged.
    """
    ended = _ended(directory)
    failed = sum(bool(row["failure"]) for row in ended)
    total = _num_runs(directory)
    if failed == total:
        told = f"{failed} of {total} runs failed; none was chosen"
    else:
        go_on = f"bertsmith search --resume {shlex.quote(str(directory))}"
        told = f"{len(ended)} of {total} runs have ended; none is chosen yet: `{go_on}` goes on"
    if not runs:
        return f"{directory} is a search in which {told}, and none of its runs holds a model"
    join = ":" if failed == total else ", or"
    return f"{directory} is a search in which {told}{join} name one of its runs, such as {runs[0]}"


def _ended(directory: Path) -> Sequence[Mapping[str, Any]]:
    if not (directory / RESULTS).is_file():
        return []
    content: dict[str, Any] = read_json(directory / RESULTS)
    rows: Sequence[Mapping[str, Any]] = content["runs"]
    return rows


def _num_runs(directory: Path) -> int:
    content: dict[str, Any] = read_json(directory / SEARCH)
    return math.prod(map(len, content["grid"].values())) * int(content["restarts"])
