"""docs/paper.md names only files and tests that exist, and every test of this folder."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks.paper_tables import HEADING

PROJECT = Path(__file__).parents[2]
COLUMNS = ["claim", "file", "test", "ours", "paper"]


@dataclass(frozen=True, kw_only=True)
class Row:
    line: int
    cells: dict[str, str]

    def names(self, column: str) -> list[str]:
        return re.findall(r"`([^`]+)`", self.cells[column])


def table_rows() -> list[Row]:
    """The rows of every table of claims, which all have the same columns; those of cells are made
    by a command."""
    rows = []
    lines = (PROJECT / "docs" / "paper.md").read_text(encoding="utf-8").splitlines()
    is_of_claims = True
    for number, line in enumerate(lines, start=1):
        if line.startswith("## "):
            is_of_claims = line != HEADING
        if not (line.startswith("|") and is_of_claims):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == len(COLUMNS), f"docs/paper.md:{number} has {len(cells)} cells"
        if cells != COLUMNS and set("".join(cells)) != {"-"}:
            rows.append(Row(line=number, cells=dict(zip(COLUMNS, cells, strict=True))))
    return rows


def claims_in(path: Path) -> set[str]:
    """The test functions of a file, read and not run."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {function.name for function in functions if function.name.startswith("test_")}


def test_every_file_and_every_test_of_a_row_exists() -> None:
    faults = []
    rows = table_rows()
    assert len(rows) > 50
    for row in rows:
        files, tests = row.names("file"), row.names("test")
        if not files or not tests:
            faults.append(f"line {row.line}: no file or no test")
        faults += [
            f"line {row.line}: no file bertsmith/{name}"
            for name in files
            if not (PROJECT / "bertsmith" / name).is_file()
        ]
        for name in tests:
            path, _, function = name.partition("::")
            file = PROJECT / "tests" / path
            if not file.is_file() or function not in claims_in(file):
                faults.append(f"line {row.line}: no test tests/{name}")
    assert not faults, "docs/paper.md:\n" + "\n".join(faults)


def test_no_cell_of_a_row_is_empty() -> None:
    assert not [row.line for row in table_rows() if not all(row.cells.values())]


def test_every_claim_tested_in_this_folder_has_its_row() -> None:
    named = {name for row in table_rows() for name in row.names("test")}
    folder = Path(__file__).parent
    missing = {
        f"paper/{path.name}::{name}"
        for path in folder.glob("test_*_claims.py")
        for name in claims_in(path)
    } - named
    assert not missing
