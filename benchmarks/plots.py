"""The newest benchmark rows -> the pictures of the documentation.

    python -m benchmarks.plots
    python -m benchmarks.plots --processor amx_bf16

`docs/speed.png`: pre-training tokens a second beside the peer, the newest row of every size, on
full sequences of 128 tokens, in turns of several steps where there are such.
`docs/loss_parity.png`: the newest comparison of losses.
`docs/inference.png`: texts a second and milliseconds for one text beside the peers, the newest row
of every size with most threads that has both, of real texts where there are such.
`docs/scaling.png`: seconds and memory against what grows, the newest row of every axis.
All are of CPUs as they are, or of those that --processor names. A picture without rows is left as
it is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.machine import RESULTS
from bertsmith.files import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

DOCS = Path(__file__).parent.parent / "docs"

Row = Mapping[str, Any]

_OURS, _THEIRS = "tab:blue", "tab:gray"
_MANY_TEXTS, _ONE_TEXT = "embed, mixed", "one text, 64 tokens"
_COLUMNS = 3
_LEAST = 1e-18  # a difference of zero has no place on a logarithmic axis


def main() -> None:
    """Draws every picture that has rows, and says which."""
    options = _options()
    drawn = (
        ("speed.png", draw_speed, rows_of_speed(options.processor)),
        ("loss_parity.png", _draw_last_parity, of_processor("loss_parity", options.processor)),
        ("inference.png", draw_inference, rows_of_answers(options.processor)),
        ("scaling.png", draw_scaling, rows_of_scaling(options.processor)),
    )
    for name, draw, rows in drawn:
        if rows:
            draw(rows, options.out / name)
            print(f"wrote {options.out / name}")


def rows_of_speed(processor: str) -> list[Row]:
    """Of pre-training: the newest of every size."""
    trained = beside_peers(usual(of_processor("pretraining", processor)))
    return newest(in_longer_turns(trained), by="size")


def rows_of_answers(processor: str) -> list[Row]:
    """Of answers to real texts, as far as there are such: the newest of every size."""
    return newest(
        of_real_text(with_most_threads(whole(usual(of_processor("inference", processor))))),
        by="size",
    )


def rows_of_scaling(processor: str) -> list[Row]:
    """Of what grows: the newest of every axis."""
    return newest(usual(of_processor("scaling", processor)), by="axis")


def of_processor(benchmark: str, processor: str) -> list[Row]:
    """The rows of a benchmark, oldest first, whose processor's description has these words."""
    rows = rows_of(RESULTS / f"{benchmark}.jsonl")
    return [row for row in rows if processor in row.get("processor", "")]


def rows_of(path: Path) -> list[Row]:
    """The rows of a results file, oldest first; none where there is no file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def newest(rows: Sequence[Row], by: str) -> list[Row]:
    """The last row of every value of `by`, in the order in which the values first appear."""
    return list({row[by]: row for row in rows}.values())


def usual(rows: Sequence[Row]) -> list[Row]:
    """The rows of a CPU as it is, on full sequences of 128 tokens where they have a length."""
    return [
        row
        for row in rows
        if row.get("device", "cpu") == "cpu"
        and not row.get("instructions")
        and not row.get("corpus")
        and row.get("length", 128) == 128
    ]


def beside_peers(rows: Sequence[Row]) -> list[Row]:
    """The rows of training in which somebody else stands beside us."""
    return [
        row
        for row in rows
        if "bertsmith" in row["tokens_per_second"]
        and any(not name.startswith("bertsmith") for name in row["tokens_per_second"])
    ]


def in_longer_turns(rows: Sequence[Row]) -> list[Row]:
    """The rows whose turns are of several steps, as in a training; of a size without such, all."""
    longer = [row for row in rows if row.get("steps_a_turn", 1) > 1]
    sizes = {row["size"] for row in longer}
    return [row for row in rows if row in longer or row["size"] not in sizes]


def whole(rows: Sequence[Row]) -> list[Row]:
    """The rows of answers that tell both of many texts and of one alone."""
    return [row for row in rows if {_MANY_TEXTS, _ONE_TEXT} <= row["settings"].keys()]


def of_real_text(rows: Sequence[Row]) -> list[Row]:
    """The rows of real texts; of a size without such, all."""
    real = [row for row in rows if row.get("is_real_text", True)]
    sizes = {row["size"] for row in real}
    return [row for row in rows if row in real or row["size"] not in sizes]


def with_most_threads(rows: Sequence[Row]) -> list[Row]:
    """The rows of the largest number of threads among them."""
    most = max((row["threads"] for row in rows), default=0)
    return [row for row in rows if row["threads"] == most]


def draw_speed(rows: Sequence[Row], path: Path) -> None:
    """Writes bars of real tokens a second, one panel a size, our factor behind each peer."""
    figure = _figure(width=7, height=0.4 + 1.9 * len(rows))
    for axes, row in zip(figure.subplots(len(rows), squeeze=False).flat, rows, strict=True):
        _draw_size(axes, row)
    machines = {f"{row['processor']}, {row['threads']} threads" for row in rows}
    where = " and ".join(sorted(machines))
    figure.supxlabel(f"real tokens a second; {where}", fontsize="small")
    _write(figure, path)


def _draw_last_parity(rows: Sequence[Row], path: Path) -> None:
    draw_loss_parity(rows[-1], path)


def draw_loss_parity(row: Row, path: Path) -> None:
    """Writes both comparisons: the curves above, how far they are apart below."""
    figure = _figure(width=10, height=6)
    panels = figure.subplots(2, 2, sharex=True)
    for column, name in zip(panels.T, ("float64", "float32"), strict=True):
        part = row[name]
        size = f"{part['layers']} layers, {part['hidden_size']} wide"
        column[0].set_title(f"{name}, {size}: loss (nats)", fontsize="medium")
        for run in part["runs"]:
            is_ours = run["system"] == "bertsmith"
            column[0].plot(
                _steps(run["losses"]), run["losses"], label=_name(run),
                color=_OURS if is_ours else _THEIRS, linestyle="-" if is_ours else "--",
                linewidth=2.4 if is_ours else 1.2, alpha=0.6 if is_ours else 1.0,
            )  # fmt: skip
        column[0].legend(fontsize="small")
        column[1].set_title("difference (nats)", fontsize="medium")
        column[1].set_yscale("log")
        column[1].set_xlabel("step")
    _draw_exact(panels[1, 0], row["float64"])
    _draw_band(panels[1, 1], row["float32"])
    for axes in panels.flat:
        axes.grid(alpha=0.3)
    _write(figure, path)


def draw_inference(rows: Sequence[Row], path: Path) -> None:
    """Writes bars: texts a second on the left, milliseconds for one text on the right."""
    figure = _figure(width=11, height=0.5 + 2.4 * len(rows))
    for row, panels in zip(rows, figure.subplots(len(rows), 2, squeeze=False), strict=True):
        texts = row["settings"].get(_MANY_TEXTS, {}).get("texts_per_second", {})
        alone = row["settings"].get(_ONE_TEXT, {}).get("median_ms", {})
        _draw_bars(panels[0], texts, f"{row['size']}, {_MANY_TEXTS}: texts a second")
        _draw_bars(panels[1], alone, f"{row['size']}, {_ONE_TEXT}: milliseconds", is_time=True)
    machines = {f"{row['processor']}, {row['threads']} threads" for row in rows}
    figure.supxlabel(" and ".join(sorted(machines)), fontsize="small")
    _write(figure, path)


def draw_scaling(rows: Sequence[Row], path: Path) -> None:
    """Writes a panel an axis: seconds on the left, by their logarithm, gigabytes on the right."""
    num_lines = -(-len(rows) // _COLUMNS)
    figure = _figure(width=12, height=0.5 + 2.8 * num_lines)
    panels = list(figure.subplots(num_lines, _COLUMNS, squeeze=False).flat)
    for axes in panels[len(rows) :]:
        axes.set_axis_off()
    for axes, row in zip(panels[: len(rows)], rows, strict=True):
        values = [point["value"] for point in row["points"]]
        axes.set_title(f"{row['axis']} ({row['start']})", fontsize="small", loc="left")
        axes.set_xlabel(row["unit"], fontsize="small")
        sides = (("seconds", 1.0, axes, _OURS), ("peak_bytes", 1e-9, axes.twinx(), _THEIRS))
        for cost, scale, side, color in sides:
            exponent = row["exponents"][cost]
            name = "seconds" if cost == "seconds" else "gigabytes"
            told = name if exponent is None else f"{name}, exponent {exponent:.2f}"
            side.plot(values, [scale * p[cost] for p in row["points"]], color=color, marker="o")
            side.set(xscale="log", yscale="log" if cost == "seconds" else "linear")
            side.set_ylabel(told, fontsize="small", color=color)
            side.yaxis.set_major_formatter("{x:g}")
            side.yaxis.set_minor_formatter("{x:g}")
            side.tick_params(which="both", labelsize="x-small")
            if cost != "seconds":
                side.set_ylim(bottom=0)
        axes.set_xticks(values, [f"{value:,.0f}" for value in values])
        axes.minorticks_off()
        axes.yaxis.set_minor_locator(_sparse())
    machines = {f"{row['processor']}, {row['threads']} threads" for row in rows}
    figure.supxlabel(" and ".join(sorted(machines)), fontsize="small")
    _write(figure, path)


def _sparse() -> LogLocator:
    """Ticks at 2 and 5 of every power of ten."""
    from matplotlib.ticker import LogLocator

    return LogLocator(subs=(2.0, 5.0))


def _draw_bars(
    axes: Axes, values: Mapping[str, float], title: str, *, is_time: bool = False
) -> None:
    """One bar a system, the best on top, behind it how many times better our best is."""
    axes.set_title(title, fontsize="medium", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if not values:
        return
    names = sorted(values, key=values.__getitem__, reverse=is_time)
    ours = [value for name, value in values.items() if name.startswith("bertsmith")]
    best = (min if is_time else max)(ours or values.values())
    factors = {name: value / best if is_time else best / value for name, value in values.items()}
    colors = [_OURS if name.startswith("bertsmith") else _THEIRS for name in names]
    bars = axes.barh(names, [values[name] for name in names], color=colors)
    labels = [
        f"{values[name]:,.1f}" + ("" if values[name] == best else f"  (1/{factors[name]:.2f})")
        for name in names
    ]
    axes.bar_label(bars, labels, padding=3, fontsize="small")
    axes.set_xlim(right=1.3 * max(values.values()))


def _draw_size(axes: Axes, row: Row) -> None:
    speed = row["tokens_per_second"]
    names = sorted(speed, key=speed.__getitem__)
    ours = speed["bertsmith"]
    colors = [_OURS if name.startswith("bertsmith") else _THEIRS for name in names]
    bars = axes.barh(names, [speed[name] for name in names], color=colors)
    labels = [
        f"{speed[name]:,.0f}" + ("" if name == "bertsmith" else f"  (1/{ours / speed[name]:.1f})")
        for name in names
    ]
    axes.bar_label(bars, labels, padding=3, fontsize="small")
    axes.set_xlim(right=1.25 * max(speed.values()))
    title = f"{row['size']}, steps of {row['batch']} x {row['length']} tokens"
    axes.set_title(title, fontsize="medium", loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_exact(axes: Axes, part: Row) -> None:
    ours, theirs = (np.asarray(run["losses"]) for run in part["runs"])
    differences = np.maximum(np.abs(ours - theirs), _LEAST)
    axes.plot(_steps(differences), differences, color=_OURS, label="bertsmith from transformers")
    axes.axhline(1e-6, color="tab:red", linestyle=":", label="bound")
    axes.legend(fontsize="small")


def _draw_band(axes: Axes, part: Row) -> None:
    steps = _steps(part["widths"])
    widths = np.maximum(part["widths"], _LEAST)
    differences = np.maximum(part["differences"], _LEAST)
    label = "transformers from itself, widest so far"
    floor = min(float(widths.min()), float(differences.min()))
    axes.fill_between(steps, floor, widths, color=_THEIRS, alpha=0.4, label=label)
    axes.plot(steps, differences, color=_OURS, label="bertsmith from the nearest run")
    axes.plot(steps[:1], [1e-5], color="tab:red", marker="_", linestyle="", label="first bound")
    axes.legend(fontsize="small")


def _steps(values: Sequence[float] | np.ndarray[Any, Any]) -> list[int]:
    return list(range(1, len(values) + 1))


def _name(run: Row) -> str:
    return f"{run['system']}, {run['threads']} thread" + ("s" if run["threads"] > 1 else "")


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _write(figure: Figure, path: Path) -> None:
    with atomic_file(path) as file:
        figure.savefig(file, format=path.suffix.removeprefix("."), dpi=110)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=DOCS, help="the folder of the pictures")
    parser.add_argument(
        "--processor", default="", metavar="WORDS", help="rows of processors named so: amx_bf16"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
