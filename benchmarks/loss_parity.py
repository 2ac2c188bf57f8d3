"""The loss beside `transformers`', on equal batches and weights, dropout off.

    python -m benchmarks.loss_parity --corpus CORPUS --plot
    python -m benchmarks.loss_parity --report

Two claims are measured. In float64, at Tiny size, the two losses differ by at most 1e-6 at every
step. In float32, at Mini size, they differ by at most 1e-5 at the first step; later rounding grows
in any implementation, so the yardstick is the peer itself: runs of it with other numbers of
threads. Their band, at a step, is the widest gap between them so far (at least two units in the
last place of a float32 of the loss's size, one for each of two rounded numbers), and our loss is
inside when it is that near to one of them. Beside it stand what stricter yardsticks would count,
and what they count of the peer itself, in one more run of it with our number of threads. Where the
number of threads hardly changes what the peer computes, its runs share their rounding and the band
has no width; so every float32 curve also stands beside the peer's own float64 curve of the same
training: how far rounding alone takes each of them. `--report` runs nothing and prints the newest
row again.

Every run has a process of its own and the same optimizer (`loss_curves`). `--steps`, `--batch`
and the two sizes make it cheap; without `--corpus` batches are drawn tokens of mixed lengths.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import torch

from benchmarks.loss_curves import System, Trial, losses
from benchmarks.loss_yardsticks import (
    FIRST_STEP_BOUND,
    FLOAT64_BOUND,
    Band,
    Exact,
    Rounding,
    StricterCounts,
    compare_exactly,
    compare_with_band,
    rounding,
    stricter_counts,
)
from benchmarks.machine import RESULTS, append_row
from benchmarks.plots import DOCS, Row, draw_loss_parity, rows_of
from bertsmith.model.config import SIZES

_THIRD = "a third run of the peer"
SYSTEMS: tuple[System, ...] = ("bertsmith", "transformers")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One system's training."""

    system: System
    threads: int
    losses: list[float]
    seconds: float
    """With the process's start and, for our own model, the compilation of its kernels."""


def main() -> None:
    """Runs both comparisons, prints them, appends one row, and draws it where asked to."""
    options = _options()
    if options.report:
        print(_report(rows_of(RESULTS / "loss_parity.jsonl")))
        return
    float64 = Trial(
        model=SIZES[options.float64_size],
        dtype="float64",
        steps=options.steps,
        batch_size=options.batch,
        learning_rate=options.rate,
        sequence_length=options.length,
        corpus=options.corpus,
    )
    float32 = replace(float64, model=SIZES[options.float32_size], dtype="float32")
    pair = [in_own_process(system, float64, options.threads) for system in SYSTEMS]
    exact = compare_exactly(pair[0].losses, pair[1].losses)
    print(_exact_line(exact, options.steps))
    ours = in_own_process("bertsmith", float32, options.threads)
    peers = [in_own_process("transformers", float32, count) for count in options.peer_threads]
    third = in_own_process("transformers", float32, options.threads)
    unrounded = in_own_process("transformers", replace(float32, dtype="float64"), options.threads)
    band = compare_with_band(ours.losses, [run.losses for run in peers])
    stricter = stricter_counts(ours.losses, [run.losses for run in peers])
    print(_band_line(band, options.peer_threads))
    print(_stricter_line("ours", stricter, options.steps))
    print(
        _stricter_line(
            _THIRD, stricter_counts(third.losses, [run.losses for run in peers]), options.steps
        )
    )
    row: Row = {
        "corpus": options.corpus.resolve().name if options.corpus else "drawn tokens",
        "steps": options.steps,
        "batch": options.batch,
        "length": options.length,
        "learning_rate": options.rate,
        "float64": {**_size(float64), **asdict(exact), "runs": [asdict(run) for run in pair]},
        "float32": {
            **_size(float32),
            **asdict(band),
            **asdict(stricter),
            "runs": [asdict(run) for run in (ours, *peers)],
            "third_run": asdict(third),
            "float64_run": asdict(unrounded),
        },
    }
    print(_rounding_line(row))
    append_row("loss_parity", row)
    if options.plot:
        draw_loss_parity(row, DOCS / "loss_parity.png")


def in_own_process(system: System, trial: Trial, threads: int) -> Run:
    """One training, in a new process that computes with so many threads."""
    began = time.perf_counter()
    with ProcessPoolExecutor(
        max_workers=1,
        # Spawned: the number of threads must be set before anything is computed.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_compute_with,
        initargs=(threads,),
    ) as executor:
        curve = executor.submit(losses, system, trial).result()
    seconds = round(time.perf_counter() - began, 1)
    return Run(system=system, threads=threads, losses=curve, seconds=seconds)


def stricter_counts_of(row: Row) -> dict[str, StricterCounts]:
    """The stricter counts of a stored row, of ours and of the peer's third run where it has one."""
    ours, *runs = row["float32"]["runs"]
    assert ours["system"] == "bertsmith"
    peers = [run["losses"] for run in runs]
    counts = {"ours": stricter_counts(ours["losses"], peers)}
    if third := row["float32"].get("third_run"):
        counts[_THIRD] = stricter_counts(third["losses"], peers)
    return counts


def roundings_of(row: Row) -> dict[str, Rounding]:
    """Each float32 run of a stored row beside the float64 run; none in rows that lack this one."""
    exact = row["float32"].get("float64_run")
    if exact is None:
        return {}
    runs = [*row["float32"]["runs"], row["float32"]["third_run"]]
    return {
        f"{run['system']} with {run['threads']}": rounding(run["losses"], exact["losses"])
        for run in runs
    }


def _report(rows: Sequence[Row]) -> str:
    """The newest row in words."""
    if not rows:
        return "no row is stored: run `python -m benchmarks.loss_parity` without --report first"
    row = rows[-1]
    exact = Exact(**{field.name: row["float64"][field.name] for field in fields(Exact)})
    band = Band(**{field.name: row["float32"][field.name] for field in fields(Band)})
    threads = [run["threads"] for run in row["float32"]["runs"] if run["system"] != "bertsmith"]
    lines = (
        f"{row['time']}, commit {row['commit']}, {row['corpus']}, batches of {row['batch']}",
        _exact_line(exact, row["steps"]),
        _band_line(band, threads),
        *(
            _stricter_line(whose, counts, row["steps"])
            for whose, counts in stricter_counts_of(row).items()
        ),
        _rounding_line(row),
    )
    return "\n".join(line for line in lines if line)


def _compute_with(threads: int) -> None:
    torch.set_num_threads(threads)


def _size(trial: Trial) -> dict[str, int]:
    return {"layers": trial.model.num_hidden_layers, "hidden_size": trial.model.hidden_size}


def _exact_line(exact: Exact, steps: int) -> str:
    return (
        f"float64: over {steps} steps the losses differ by at most {exact.largest_difference:.1e} "
        f"(at step {exact.at_step}); bound {FLOAT64_BOUND:.0e}: {_verdict(exact.holds)}"
    )


def _band_line(band: Band, threads: Sequence[int]) -> str:
    return (
        f"float32: first step {band.first_difference:.1e} (bound {FIRST_STEP_BOUND:.0e}); then at "
        f"most {max(band.differences):.1e} from the nearest of the peer's runs with "
        f"{', '.join(map(str, threads))} threads, which part by {band.widths[-1]:.1e}; inside at "
        f"{band.steps_inside} of {len(band.widths)} steps: {_verdict(band.holds)}"
    )


def _stricter_line(whose: str, stricter: StricterCounts, steps: int) -> str:
    return (
        f"of {steps} steps {whose} is strictly between the two at {stricter.steps_between}, "
        f"within their gap of the same step at {stricter.steps_in_own_gap}, within their widest "
        f"gap so far, without the floor, at {stricter.steps_in_running_gap}"
    )


def _rounding_line(row: Row) -> str:
    found = [
        f"{run} threads {each.mean:.1e} on average and {each.largest:.1e} at most"
        for run, each in roundings_of(row).items()
    ]
    return f"from the float64 curve: {'; '.join(found)}" if found else ""


def _verdict(holds: bool) -> str:
    return "holds" if holds else "DOES NOT HOLD"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, help="a corpus of build-corpus")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rate", type=float, default=1e-3, help="peak of the learning rate")
    parser.add_argument("--float64-size", choices=sorted(SIZES), default="tiny")
    parser.add_argument("--float32-size", choices=sorted(SIZES), default="mini")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--peer-threads", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--plot", action="store_true", help="draw docs/loss_parity.png")
    parser.add_argument("--report", action="store_true", help="print the newest stored row again")
    options = parser.parse_args()
    if len(options.peer_threads) < 2:
        parser.error("--peer-threads needs two numbers or more: their runs are the band")
    return options


if __name__ == "__main__":
    main()
