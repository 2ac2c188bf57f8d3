"""Lines of tables with speeds of pre-training and of fine-tuning: label and rows -> all cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from benchmarks.tables.shown import OURS, Row, amount, bold, rows_of, times
from bertsmith.tasks.glue import task_named

BEST = ("transformers best", "transformers best, eager attention")
"""Of which the faster one counts."""
DEFAULT = "transformers default"
VARIANTS = {
    f"{OURS} without a compiler": "",
    f"{OURS}'s wheel without a compiler": "from a wheel ",
}
WIDTH = 11
"""Cells of a line of pre-training."""
SYSTEMS = (
    (OURS,),
    ("transformers, best", "transformers, best, compiled"),
    ("transformers, scripts' default",),
)
"""Of fine-tuning; of several the faster one counts."""
GLUE = {
    name: cast(int, task_named(name).num_train)
    for name in ("MNLI", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC", "RTE")
}
"""Examples of the official training sets."""

Speeds = Mapping[str, float]


def speeds(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """Of pre-training; a line that names no row is a heading.

    The matrix rate, ours and its share of that, each peer and how far it is behind, variants of
    ours and their share of it, and the most memory. Of several rows each has some of the systems.
    """
    made = []
    for label, rows, *_ in lines:
        cells = _pretraining(rows_of("pretraining", rows)) if rows else []
        made.append([label, rows, *cells, *[""] * (WIDTH - 2 - len(cells))])
    return made


def _pretraining(rows: Sequence[Row]) -> list[str]:
    found, memory = (_merged(rows, name) for name in ("tokens_per_second", "peak_bytes"))
    with_ours = [row for row in rows if OURS in row["tokens_per_second"]]
    if len(with_ours) != 1:
        raise ValueError(f"one row of a line is to hold {OURS}, and {len(with_ours)} of them do")
    own = with_ours[0]
    cells = [f"{own['matrix_flops_per_second'] / 1e12:.2f}", bold(amount(found[OURS]))]
    cells.append(f"{own['fraction_of_matrix_rate'][OURS]:.0%}")
    best = max((name for name in BEST if name in found), key=lambda name: found[name], default="")
    for peer in (best, DEFAULT):
        is_there = peer in found
        cells += [amount(found[peer]), times(found[OURS], found[peer])] if is_there else ["", ""]
    variants = (
        f"{told}{amount(found[name])}, {found[name] / found[OURS]:.0%}"
        for name, told in VARIANTS.items()
        if name in found
    )
    held = ", ".join(
        f"{memory[name] / 1e9:.1f}" for name in (OURS, best, DEFAULT) if name in memory
    )
    return [*cells, "; ".join(variants), f"{held} GB" if held else ""]


def _merged(rows: Sequence[Row], name: str) -> dict[str, float]:
    return {system: value for row in rows for system, value in row.get(name, {}).items()}


def fine_tuning(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """A line a set: the first row that it names whole, and the ratios of the others.

    A line that names none is an epoch of all sets of GLUE above it, as far as the first rows,
    the second ones and so on have all.
    """
    runs: list[dict[str, Speeds]] = []
    made = []
    for label, numbers, *_ in lines:
        if numbers:
            rows = rows_of("finetuning_speed", numbers)
            found = [_speeds(row) for row in rows]
            runs += [{} for _ in found[len(runs) :]]
            for run, row, each in zip(runs, rows, found, strict=False):
                run[row["task"]] = each
            shown = [amount(speed) for speed in found[0].values()]
            tokens = f"{rows[0]['mean_tokens']:.0f}"
        else:
            found = [_epochs(run) for run in runs if run.keys() >= GLUE.keys()]
            if not found:
                raise ValueError(f"{label} needs lines of all sets of GLUE above it")
            shown = [f"{1 / speed / 60:,.0f} minutes" for speed in found[0].values()]
            tokens = ""
        ours, best, default = found[0].values()
        cells = [bold(shown[0]), shown[1], times(ours, best), shown[2], times(ours, default)]
        made.append([label, numbers, tokens, *cells, "; ".join(map(_ratios, found[1:]))])
    return made


def _speeds(row: Row) -> Speeds:
    """Examples a second of each system."""
    found = row["examples_per_second"]
    return {names[0]: max(found[name] for name in names if name in found) for names in SYSTEMS}


def _epochs(run: Mapping[str, Speeds]) -> Speeds:
    """Epochs of GLUE a second of each system."""
    names = [name for name, *_ in SYSTEMS]
    return {name: 1 / sum(GLUE[task] / run[task][name] for task in GLUE) for name in names}


def _ratios(found: Speeds) -> str:
    ours, *peers = found.values()
    return ", ".join(amount(ours / peer) for peer in peers)
