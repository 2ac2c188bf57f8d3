"""`bertsmith verify MODEL`: does this model, here, compute what BERT is defined to compute?

    bertsmith verify mini-en
    bertsmith verify ./my-model --profile huggingface --jsonl

Every row names what was checked, what was found, what it was held against, and where the paper or
the original says so. The exit status is 0 for a certified model and 1 for one that is not.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertsmith.certificate.rows import Row, Status, profiles_without_failure
from bertsmith.commands.json_lines import print_json
from bertsmith.commands.verify_options import Verify
from bertsmith.reading.counted import counted

EXIT_NOT_CERTIFIED = 1
_STYLES: dict[Status, str] = {
    "passed": "green", "failed": "bold red", "known difference": "yellow", "skipped": "dim",
}  # fmt: skip


_PLURALS: dict[Status, str] = {
    "passed": "passed", "failed": "failed", "known difference": "known differences",
    "skipped": "skipped",
}  # fmt: skip


def verify(options: Verify) -> None:
    """Prints the certificate; leaves with status 1 where a check failed.

    Raises FileNotFoundError or ValueError for what is no model.
    """
    # Torch takes seconds to import: only now, when the options are known to be sound.
    from bertsmith.certificate.checks import certify

    start = time.monotonic()
    rows: list[Row] = []
    console = Console()
    with console.status("reading the model") as status:
        for row in certify(options.model, options.profile):
            rows.append(row)
            status.update(f"{row.section}: {row.name}")
    seconds = time.monotonic() - start
    if options.jsonl:
        _print_jsonl(rows, options, seconds)
    elif console.is_terminal:
        _print_table(console, rows)
        print(verdict(rows, options, seconds))
    else:
        _print_lines(rows)
        print(verdict(rows, options, seconds))
    if _failed(rows):
        raise SystemExit(EXIT_NOT_CERTIFIED)


def verdict(rows: Sequence[Row], options: Verify, seconds: float) -> str:
    """The last line: certified, or what failed."""
    counts = Counter(row.status for row in rows)
    said = [counted(counts[kind], kind, many) for kind, many in _PLURALS.items() if counts[kind]]
    failed = _failed(rows)
    if not failed:
        return (
            f"CERTIFIED under the profile {options.profile}: {options.model}: "
            f"{', '.join(said)}, in {seconds:.1f} s"
        )
    others = profiles_without_failure(failed)
    known = "this is a known difference" if len(failed) == 1 else "these are known differences"
    hint = f"; under --profile {others[0]} {known}" if others else ""
    names = ", ".join(f"{row.name} ({row.section})" for row in failed)
    return (
        f"NOT CERTIFIED under the profile {options.profile}: {options.model}: {', '.join(said)}, "
        f"in {seconds:.1f} s. Failed: {names}{hint}"
    )


def _failed(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.status == "failed"]


def _print_table(console: Console, rows: Sequence[Row]) -> None:
    section = ""
    table = Table()
    for row in rows:
        if row.section != section:
            if section:
                console.print(table)
            section = row.section
            table = Table(box=box.SIMPLE_HEAD, title=section, title_justify="left")
            for name in ("check", "", "found", "expected", "reference"):
                table.add_column(name, overflow="fold")
        status = Text(row.status, style=_STYLES[row.status])
        table.add_row(Text(row.name), status, *map(Text, (row.found, row.expected, row.reference)))
    console.print(table)


def _print_lines(rows: Sequence[Row]) -> None:
    """A line a check, its parts between tabs: for a file, or another program."""
    for row in rows:
        parts = (row.status, row.section, row.name, row.found, row.expected, row.reference)
        print("\t".join(parts))


def _print_jsonl(rows: Sequence[Row], options: Verify, seconds: float) -> None:
    last = {
        "certified": not _failed(rows),
        "model": options.model,
        "profile": options.profile,
        "seconds": round(seconds, 1),
    }
    for content in (*map(asdict, rows), last):
        print_json(content)
