"""One benchmark by two commits' code in turn: is a change faster, and by how much?

    python -m benchmarks.before_after HEAD~3 -- benchmarks.pretraining --size mini --rounds 5
    python -m benchmarks.before_after HEAD~3 --after HEAD -- benchmarks.inference --size base

For `benchmarks.pretraining`, `benchmarks.finetuning.speed` and `benchmarks.inference`; files are
named by absolute paths. The code before is unpacked from git into a temporary folder; the code
after is this working tree, or is unpacked too. The benchmark runs as a whole, a program of its own
each time: `--pairs` times with either code, which take turns to be first (A B, B A, ...). Ours
alone is measured, unless the command names a `--system`. Two processes of the same code differ, by
where their memory lies, and a shared machine's minutes do: so each run is compared with its
neighbour in time, and told are the median of the ratios, the smallest and the largest. `HEAD`
beside a tree without changes shows how far luck alone goes.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import ROWS_VARIABLE, append_row, commit_here

ROOT = Path(__file__).parent.parent
OURS = "bertsmith"
POWERS = {"tokens_per_second": 1, "examples_per_second": 1, "median_ms": -1}
"""Figures by system that are compared; a time's inverse is a speed."""
_OF_ROW = ("size", "task", "length", "threads")
"""What names a row beside others of one run."""


@dataclass(frozen=True, kw_only=True)
class Code:
    """One of both."""

    commit: str
    folder: Path


Speeds = dict[str, float]
"""By what is measured."""


def main() -> None:
    """Measures, prints a table of ratios and appends a row."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        try:
            before = unpacked(ROOT, options.before, Path(folder, "before"))
            after = Code(commit=commit_here(), folder=ROOT)
            if options.after is not None:
                after = unpacked(ROOT, options.after, Path(folder, "after"))
            measured = in_turn(before, after, options.benchmark, options.pairs)
        except ValueError as error:
            print(error, file=sys.stderr)
            sys.exit(2)
    ratios = {name: [new / old for old, new in pairs] for name, pairs in measured.items()}
    print("\n".join(table(ratios)))
    append_row(
        "before_after",
        {
            "benchmark": options.benchmark,
            "before": before.commit,
            "after": after.commit,
            "speeds": measured,
            "ratios": {name: median(each) for name, each in ratios.items()},
        },
    )


def unpacked(root: Path, commit: str, folder: Path) -> Code:
    """A commit's files in `folder`. Raises ValueError where there is no such commit."""
    name = f"{commit}^{{commit}}"
    try:
        found = _git(root, "rev-parse", "--verify", "--short", name).decode().strip()
    except ValueError as error:
        raise ValueError(f"{commit!r} is no commit of {root}: {error}") from error
    with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", "--format=tar", found))) as archive:
        archive.extractall(folder, filter="data")
    return Code(commit=found, folder=folder)


def in_turn(
    before: Code, after: Code, benchmark: Sequence[str], pairs: int
) -> dict[str, list[tuple[float, float]]]:
    """By what is measured: the speeds of either code, a pair of neighbours each.

    Raises ValueError where the benchmark fails, or both do not measure the same.
    """
    measured: dict[str, list[tuple[float, float]]] = {}
    for number in range(pairs):
        speeds: dict[Path, Speeds] = {}
        for code in (before, after) if number % 2 == 0 else (after, before):
            speeds[code.folder] = run(code, benchmark)
        old, new = speeds[before.folder], speeds[after.folder]
        if old.keys() != new.keys():
            alone = ", ".join(sorted(old.keys() ^ new.keys()))
            raise ValueError(f"measured by one of both alone: {alone}; name what both know")
        for name in new:
            measured.setdefault(name, []).append((old[name], new[name]))
        print(f"pair {number + 1} of {pairs}: {_told(old, new)}", flush=True)
    return measured


def run(code: Code, benchmark: Sequence[str]) -> Speeds:
    """Runs the benchmark once by that code. Raises ValueError where it fails or tells no speed."""
    with tempfile.TemporaryDirectory() as rows:
        ran = subprocess.run(
            [sys.executable, "-m", *benchmark],
            cwd=code.folder,
            env={**os.environ, **_paths(code), ROWS_VARIABLE: rows},
            capture_output=True,
            text=True,
            check=False,
        )
        command = f"`python -m {' '.join(benchmark)}` of {code.commit}"
        if ran.returncode:
            raise ValueError(f"{command} failed:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        texts = [file.read_text(encoding="utf-8") for file in sorted(Path(rows).iterdir())]
    rows_made = [json.loads(line) for text in texts for line in text.splitlines()]
    found = [each for row in rows_made for each in speeds_of(row)]
    speeds = dict(found)
    if len(speeds) < len(found):
        raise ValueError(f"{command} measured one thing twice; name less")
    if not speeds:
        raise ValueError(f"{command} appended no row with one of {', '.join(POWERS)}")
    return speeds


def speeds_of(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Of our systems, at any depth of a row."""
    whole = [f"{key} {row[key]}" for key in _OF_ROW if row.get(key) is not None]
    for path, by_system, power in _figures(row):
        for system, value in by_system.items():
            if system.startswith(OURS):
                yield ", ".join([*whole, *path, system]), value**power


def _figures(
    row: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, float], int]]:
    for key, value in row.items():
        if key in POWERS:
            yield path, value, POWERS[key]
        elif isinstance(value, dict):
            yield from _figures(value, (*path, key))


def table(ratios: Mapping[str, Sequence[float]]) -> Iterable[str]:
    """The ratios as Markdown."""
    yield "| measured | after / before, median | smallest | largest |"
    yield "|---|---|---|---|"
    for name, each in ratios.items():
        yield f"| {name} | {median(each):.3f} | {min(each):.3f} | {max(each):.3f} |"


def _paths(code: Code) -> dict[str, str]:
    """Variables that name folders: the code's own first, and data from anywhere."""
    others = os.environ.get("PYTHONPATH", "")
    found = {"PYTHONPATH": os.pathsep.join(filter(None, [str(code.folder), others]))}
    if data := os.environ.get("BERTSMITH_DATA"):
        found["BERTSMITH_DATA"] = str(Path(data).resolve())
    return found


def _told(old: Speeds, new: Speeds) -> str:
    return ", ".join(f"{new[name] / old[name]:.3f}" for name in new)


def _git(root: Path, *words: str) -> bytes:
    ran = subprocess.run(["git", "-C", str(root), *words], capture_output=True, check=False)
    if ran.returncode:
        raise ValueError(f"git {' '.join(words)}: {ran.stderr.decode().strip()}")
    return ran.stdout


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", metavar="COMMIT")
    parser.add_argument("--after", metavar="COMMIT", help="default: this tree")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("benchmark", nargs="+", metavar="MODULE", help="and its options, behind --")
    options = parser.parse_args()
    if options.pairs < 1:
        parser.error(f"--pairs: {options.pairs}; at least one is needed")
    if not any(word.split("=")[0] == "--system" for word in options.benchmark):
        options.benchmark += ["--system", OURS]
    return options


if __name__ == "__main__":
    main()
