"""Rows of `bertsmith reproduce` and the paper's figures -> docs/paper.md, "The tables, row by row".

    python -m benchmarks.paper_tables                  # writes the section
    python -m benchmarks.paper_tables --print          # shows it
    python -m benchmarks.paper_tables --draw figure5   # docs/figure5.png, as `reproduce` draws it

A row a cell: ours of scale `mini`, mean, deviation and half the 95% interval, and the paper's.
Below each table stand the paper's claims with their verdicts. The rows are
`results/reproduce-mini.jsonl`, which `--found` reads; a line's title says which cell it is, and
cells that share their runs share it. Neither text nor labelled sets are read.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS
from bertsmith.files import write_text
from bertsmith.recipes.experiments.experiment import (
    Average,
    Experiment,
    Perplexity,
    Place,
    Row,
    Score,
    models_of,
)
from bertsmith.recipes.experiments.scales import SCALES
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from bertsmith.runs.experiments import pictures, verdicts
from bertsmith.runs.experiments.elsewhere import HandedOn, handed_on
from bertsmith.runs.experiments.found import Finding, Findings, findings
from bertsmith.runs.experiments.places import Site

DOCUMENT = Path(__file__).parent.parent / "docs" / "paper.md"
HEADING = "## The tables, row by row"
_ABOUT = (
    "Made by `python -m benchmarks.paper_tables` from "
    "`benchmarks/results/reproduce-{scale}.jsonl`, of scale `{scale}`: {described}\n"
    "A row a cell: ours, on Dev, is the mean +- deviation over so many seeds of fine-tuning, "
    "then half the mean's 95% interval (Student), as in `47.4 +- 0.9 (3 seeds), 95%: 2.3`; a "
    "seed is guessing where it is no better than one answer to all (of SQuAD the words at one "
    "place of every passage: F1 9.7, exact match 1.7), or than frequencies. A perplexity is "
    "of one run. A difference always has its sign, and after it +- is half its own 95% "
    "interval, as in `+0.8 +- 1.9`. A cell's runs begin with one pre-trained model; cells of "
    "a row that were made on other machines begin with one made there by the same recipe, "
    "whose perplexity moved by up to 4%: no interval knows that, so a verdict is of these "
    "models.\n"
    '"-" is what is not ours, or what the paper has not; "not yet" is not measured, its set '
    "perhaps not at hand. **MNLI, QQP, QNLI and SQuAD's Dev are not the official sets here** "
    '(docs/models.md, "The paper\'s tables at the small scales").\n'
    "The sizes of Table 6 and the steps of Figure 5 are ours, in the place of the paper's; of "
    "four layers, Table 7's weighted sums are the same. Below each table stand the paper's "
    "claims, with what becomes of them at this scale: a claim of several comparisons is not "
    "reproduced where one of these is not by an interval that holds for all at once "
    "(Bonferroni)."
)
_HEAD = "| row | column | ours, {scale} | the paper |\n|---|---|---|---|"
_GUESSES = {
    ("MRPC", "accuracy"): 279 / 408,
    ("SQuAD 1.1", ""): 9.6608,  # percent: words 9 to 24 of every passage
    ("SQuAD 1.1", "exact"): 1.6768,  # the last two
}
"""What one answer to all of Dev reaches, MRPC's the official one, SQuAD's the 7,753 questions at
hand: where lines do not say so, or of another metric than the one that chooses."""
_NOWHERE = Path("nowhere")


class TitledSite(Site):
    """A place where nothing lies, whose sets are known by their names alone."""

    def hash_of(self, exam: str) -> str:
        """The name in place of the bytes."""
        return exam


def main() -> None:
    """Writes the section into the document, or shows it, or draws a part of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", help="show the section, write nothing")
    parser.add_argument("--draw", choices=EXPERIMENTS, help="draw this one, write nothing else")
    options = parser.parse_args()
    if options.draw:
        path = DOCUMENT.with_name(f"{options.draw}.png")
        draw(options.draw, "mini", path)
        print(f"wrote {path}")
        return
    text = section("mini", rows_of("mini"))
    if options.print:
        print(text)
        return
    write_text(DOCUMENT, with_section(DOCUMENT.read_text("utf-8"), text))
    print(f"wrote {DOCUMENT}")


def draw(name: str, scale: str, path: Path) -> None:
    """Writes an experiment's picture, a PNG, as `reproduce` draws it."""
    experiment, site = EXPERIMENTS[name](SCALES[scale]()), located(scale, rows_of(scale))
    pictures.draw(experiment, findings(experiment, site, {}, _reached_by_guessing), path)


def rows_of(scale: str) -> list[Mapping[str, Any]]:
    """The committed lines of a scale."""
    text = (RESULTS / f"reproduce-{scale}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def with_section(document: str, text: str) -> str:
    """The document with the section in its place. Raises ValueError where it has none."""
    before, heading, rest = document.partition(f"{HEADING}\n")
    if not heading:
        raise ValueError(f"{DOCUMENT} has no line {HEADING!r}: put it where the tables belong")
    _, end, after = rest.partition("\n## ")
    return f"{before}{heading}\n{text}{end}{after}"


def section(scale: str, rows: list[Mapping[str, Any]]) -> str:
    """All experiments, one below the other."""
    site, made = located(scale, rows), SCALES[scale]()
    told = "".join(
        f"{part}\n" for make in EXPERIMENTS.values() for part in _told(make(made), site, scale)
    )
    return f"{_ABOUT.format(scale=scale, described=made.described())}\n\n{told}"


def located(scale: str, rows: list[Mapping[str, Any]]) -> TitledSite:
    """A site that knows the lines, by the cell that each one's title names.

    Raises ValueError for a title that is no cell's.
    """
    site = TitledSite(directory=_NOWHERE, data=_NOWHERE, corpora={False: "uncased", True: "cased"})
    names, found = dict(_names(scale, site)), dict[str, HandedOn]()
    for row in rows:
        if row["title"] not in names:
            raise ValueError(f"reproduce-{scale}.jsonl: no cell is called {row['title']!r}")
        also = {exam: {**each, "examples": exam} for exam, each in row.get("also", {}).items()}
        found[names[row["title"]]] = handed_on({**row, **({"also": also} if also else {})})
    return TitledSite(
        directory=site.directory, data=site.data, corpora=site.corpora, elsewhere=found
    )


def _names(scale: str, site: Site) -> Iterator[tuple[str, str]]:
    """Titles of lines -> names of cells, as `reproduce` titles its parts."""
    for make in EXPERIMENTS.values():
        experiment = make(SCALES[scale]())
        for row, column, cell in experiment.cells():
            if isinstance(cell, Perplexity):
                yield f"pre-training {cell.model.run.name}", site.name_of(cell.model)
            elif isinstance(cell, Score):
                yield f"{experiment.name}: {row.title}, {column}", site.name_of(cell)


def _told(experiment: Experiment, site: Site, scale: str) -> Iterator[str]:
    """One experiment: its cells and its claims."""
    found = findings(experiment, site, {}, _reached_by_guessing)
    yield f"### {experiment.source}: {experiment.title}\n"
    yield _HEAD.format(scale=scale)
    for row in experiment.rows:
        yield from _lines(experiment, row, found)
    if experiment.claims:
        yield ""
    for claim in experiment.claims:
        yield f"- {verdicts.sentence(experiment, claim, found)}"
    if experiment.notes:
        yield f"\n{' '.join(experiment.notes)}"
    yield ""


def _lines(experiment: Experiment, row: Row, found: Findings) -> Iterator[str]:
    """A line for each cell that is ours or the paper's."""
    for column, cell in zip(experiment.columns, row.cells, strict=True):
        figure = experiment.figure_of_paper(Place(row=row.title, column=column))
        if cell is None and figure is None:
            continue
        finding = found.get(Place(row=row.title, column=column))
        ours = "-" if finding is None else _ours(finding, experiment, column)
        yield f"| {row.title} | {column} | {ours} | {'-' if figure is None else figure} |"


def _ours(finding: Finding, experiment: Experiment, column: str) -> str:
    """`44.6 +- 0.5 (3 seeds, 1 guessing), 95%: 1.2`."""
    if not finding.values:
        return "not yet"
    digits = 2 if column in experiment.lower_is_better else 1
    told, half_width = f"{finding.mean:.{digits}f}", finding.half_width
    if len(finding.values) > 1:
        guess = f", {finding.num_guessing} guessing" if finding.num_guessing else ""
        lost = f", {finding.num_lost} more without a number" if finding.num_lost else ""
        told += f" +- {finding.deviation:.{digits}f} ({len(finding.values)} seeds{guess}{lost})"
    return told if math.isnan(half_width) else f"{told}, 95%: {half_width:.{digits}f}"


def _reached_by_guessing(score: Score) -> float | None:
    return _GUESSES.get((score.exam, score.metric))


def seconds_of(name: str, scale: str) -> tuple[float, int, int]:
    """Of an experiment's lines: their training time, how many of its cells they are, and of all."""
    site, experiment = located(scale, rows_of(scale)), EXPERIMENTS[name](SCALES[scale]())
    names = set()
    for _, _, cell in experiment.cells():
        if isinstance(cell, Score):
            names.add(site.name_of(cell))
        if not isinstance(cell, Average):
            names |= {site.name_of(model) for model in models_of(cell)}
    there = names & site.elsewhere.keys()
    return sum(site.elsewhere[each].seconds for each in there), len(there), len(names)


if __name__ == "__main__":
    main()
