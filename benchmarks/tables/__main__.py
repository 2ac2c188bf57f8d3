"""Tables of docs/results.md, docs/answers.md: made of the rows in benchmarks/results they name.

    python -m benchmarks.tables

A table of pre-training or fine-tuning, and one of answers in short, has a second column, `rows`:
who adds a line writes its label and the numbers of its rows (a file's first line is row 1), and the
command makes the other cells. A table of all answers is made whole, of the rows that its first cell
names. Ratios are of figures as they were measured, not as they are shown. All else stays as it is.
"""

from __future__ import annotations

import argparse
import re
from itertools import groupby
from pathlib import Path

from benchmarks.tables import answers, summary, training
from benchmarks.tables.shown import line, rows_of

DOCUMENTS = tuple(
    Path(__file__).parents[2] / "docs" / name for name in ("results.md", "answers.md")
)


def rewritten(text: str) -> str:
    """A document with these tables made anew. Raises ValueError where a row is not there."""
    lines: list[str] = []
    for is_table, block in groupby(text.split("\n"), key=lambda each: each.startswith("|")):
        found = [*block]
        lines += _table(found) if is_table else found
    return "\n".join(lines)


def _table(lines: list[str]) -> list[str]:
    header, *others = ([cell.strip() for cell in each.split("|")[1:-1]] for each in lines)
    if named := re.fullmatch(r".+, rows? ([\d, ]+)", header[0]):
        header, *others = answers.table(header[0], rows_of("inference", named[1]))
    elif header[1:2] == ["rows"] and header[0].startswith("answers"):
        header, others = [*header[:2], *summary.HEADER], summary.summaries(others[1:])
    elif header[1:2] == ["rows"]:
        make = training.speeds if header[0].startswith("tokens") else training.fine_tuning
        others = make(others[1:])
    else:
        return lines
    rule = "|" + "---|" * len(header)
    return [line(header), rule, *(line(each) for each in others)]


def main() -> None:
    """Writes the documents' tables anew."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        document.write_text(rewritten(text), encoding="utf-8")


if __name__ == "__main__":
    main()
