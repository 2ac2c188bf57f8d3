"""Scores and what is known of the answers -> tables to print, a README with pictures, worst.md.

The same for a run's Dev examples and for any others that a model is evaluated on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bertsmith.files import write_text
from bertsmith.runs.finetune_pictures import Row, can_draw, draw_answers, draw_curves
from bertsmith.runs.finetune_report import Scores
from bertsmith.tasks import metrics
from bertsmith.tasks.judged import Groups, Judged, Mistake
from bertsmith.tasks.metrics import Interval

README, WORST, CURVES = "README.md", "worst.md", "curves.png"
_MARK = "<!-- bertsmith wrote this report, and replaces it where it is asked for again -->"
_MOST_ROWS = 20
"""Of a table on the console; the README has them all."""
_NO_PICTURES = "no pictures: matplotlib is not installed (pip install matplotlib)"


@dataclass(frozen=True, kw_only=True)
class Described:
    """What the numbers in a report are of."""

    title: str
    examples: str
    """What was answered: `Dev of RTE`."""
    before: tuple[str, ...] = ()
    """Lines of Markdown above the results."""
    after: tuple[str, ...] = ()
    """And below them."""
    metrics_rows: tuple[Row, ...] = ()
    """The run's metrics, for its learning curves."""


def require_place(directory: Path) -> None:
    """Raises ValueError where a report would stand among files that are none of one."""
    if directory.is_file():
        raise ValueError(f"{directory} is a file; a report is a folder: name another one")
    names = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    is_ours = _is_report(directory / README)
    others = [
        name
        for name in names
        if not is_ours or (name not in (README, WORST) and not name.endswith(".png"))
    ]
    if others:
        raise ValueError(
            f"{directory} holds other files, {others[0]} among them, and what a report is called "
            f"would be replaced there: name a new folder, or one that holds a report alone"
        )


def _is_report(readme: Path) -> bool:
    return readme.is_file() and _MARK in readme.read_text(encoding="utf-8", errors="replace")


def told(judged: Judged) -> list[str]:
    """The tables as a console shows them, how far probabilities can be believed, what is wrong."""
    lines = [line for groups in judged.groups for line in _table(groups)]
    if certainty := judged.certainty:
        error = metrics.calibration_error(certainty.probabilities, certainty.is_right)
        lines.append(
            f"  calibration error (ECE) {error:.3f}: how far the probabilities of "
            f"{len(certainty.is_right):,} answers are from the share that is right, in the mean"
        )
    return lines


def write_report(
    directory: Path, described: Described, scores: Scores, judged: Judged
) -> list[str]:
    """Writes README.md, worst.md and the pictures; returns what to say of them, line by line."""
    pictures: list[Path] = []
    if can_draw():
        pictures = draw_answers(judged, directory)
        if described.metrics_rows:
            curves = [(described.title, described.metrics_rows)]
            pictures.insert(0, draw_curves(curves, directory / CURVES))
    text = "\n".join(_readme(described, scores, judged, pictures)) + "\n"
    lines = [] if can_draw() else [_NO_PICTURES]
    (directory / WORST).unlink(missing_ok=True)  # of an earlier report, perhaps
    if judged.mistakes:
        write_text(directory / WORST, "\n".join(_worst(described, scores, judged)) + "\n")
        lines.append(f"the worst answers, to read: {directory / WORST}")
    write_text(directory / README, text)
    return [*lines, f"results and pictures: {directory / README}"]


def _table(groups: Groups) -> list[str]:
    """Columns of equal width: the part, how many there are, its scores."""
    rows = [
        [part, f"{count:,}", *(f"{value:.4g}" for value in values)]
        for part, count, values in groups.rows
    ]
    more = len(rows) - _MOST_ROWS
    shown = [[groups.name, "count", *groups.metrics], *rows[:_MOST_ROWS]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = [
        "  " + "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in shown
    ]
    return [*lines, *([f"  and {more:,} more"] if more > 0 else [])]


def _readme(
    described: Described, scores: Scores, judged: Judged, pictures: Sequence[Path]
) -> list[str]:
    rows = [
        (name, f"{value:.4g}", _between(scores.intervals.get(name)))
        for name, value in scores.values.items()
    ]
    if certainty := judged.certainty:
        error = metrics.calibration_error(certainty.probabilities, certainty.is_right)
        rows.append(("calibration error (ECE)", f"{error:.3f}", ""))
    lines = [f"# {described.title}", "", *described.before, "## Results", ""]
    lines += [f"On {scores.num_examples:,} examples, {described.examples}:", ""]
    lines += [*_markdown(("", "score", "95% interval"), rows), ""]
    for remark in scores.remarks:
        lines += [f"{remark}.", ""]
    for picture in pictures:
        lines += [f"![{picture.stem.replace('-', ' ')}]({picture.name})", ""]
    for groups in judged.groups:
        parts = [
            (part, f"{count:,}", *(f"{value:.4g}" for value in values))
            for part, count, values in groups.rows
        ]
        lines += [*_markdown((groups.name, "count", *groups.metrics), parts), ""]
    if judged.mistakes:
        lines += [f"The worst answers, to read: [{WORST}]({WORST}).", ""]
    return [*lines, *described.after, _MARK]


def _between(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:.4g} to {interval.high:.4g}"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in cells]


def _worst(described: Described, scores: Scores, judged: Judged) -> list[str]:
    first, num_shown = judged.mistakes[0], len(judged.mistakes)
    how = f"the surest {num_shown:,} of {judged.num_mistakes:,} wrong answers"
    if first.probability is None:
        how = f"the {num_shown:,} of {judged.num_mistakes:,} answers that are farthest off"
    lines = [f"# {described.title}: the worst answers", ""]
    lines += [f"On {scores.num_examples:,} examples, {described.examples}: {how}.", ""]
    for number, mistake in enumerate(judged.mistakes, 1):
        lines += [*_entry(number, mistake), ""]
    return lines


def _entry(number: int, mistake: Mistake) -> list[str]:
    """Texts stand as code, so that no character of them is taken for Markdown."""
    sure = "" if mistake.probability is None else f", sure by {mistake.probability:.1%}"
    shown = {"asked": mistake.asked, "right": mistake.right, "answer": mistake.answer}
    return [
        f"{number}. {mistake.place}{sure}",
        "",
        *(f"       {name}: {' '.join(text.split())}" for name, text in shown.items()),
    ]
