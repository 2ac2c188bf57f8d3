"""A file of rows -> rows of named columns, streamed: plain text, CSV, TSV, JSONL or Parquet.

The name says the format (`pairs.csv`, `pairs.tsv.gz`), and any but Parquet may be compressed. Names
are checked against the file's beginning before the first row is asked for; what is wrong with a
later row is told with its file and line. Nothing here knows what the columns mean.

    text      one text a line; its only column is `text`
    CSV       a field in double quotes may hold commas, line ends and doubled quotes
    TSV       a quote is an ordinary character; tabs separate, and no field can hold one
    JSONL     one object a line; a column is a field of the objects
    Parquet   its columns
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from bertsmith.reading.counted import counted
from bertsmith.reading.detect import suffix_of
from bertsmith.reading.faults import refuse
from bertsmith.reading.lines import (
    Numbered,
    comma_separated,
    json_objects,
    numbered_lines,
    tab_separated,
)
from bertsmith.reading.parquet import parquet_file

TableFormat = Literal["text", "csv", "tsv", "jsonl", "parquet"]

TEXT = "text"
"""The only column of plain text."""

_FORMATS: dict[str, TableFormat] = {
    "": "text",
    ".txt": "text",
    ".text": "text",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_SEPARATED: dict[TableFormat, Callable[[Path], Iterator[Numbered[list[str]]]]] = {
    "csv": comma_separated,
    "tsv": tab_separated,
}
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
_FIRST_OBJECTS = 100
_ROWS_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The values that were asked for, of one row."""

    place: str
    """`file:line` where the row begins; in Parquet `file: row 3`, counted from 1."""
    number: int
    """Among all rows of the file, from 0; those that are left out count."""
    values: Mapping[str, object]
    """By column: a str in plain text, CSV and TSV; in JSONL and Parquet whatever stands there."""
    bytes_read: int
    """Bytes of the file on disk consumed, for a progress bar; of Parquet by its share of rows."""
    num_lines: int = 1
    """Of the file; in CSV a field in quotes may go on over several."""

    def text(self, column: str) -> str:
        """The column's text, empty for null. Raises ValueError, with the place, for no text."""
        value = self.values[column]
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ValueError(
                f"{self.place}: column {column!r} must hold text, found {type(value).__name__} "
                f"{value!s:.40}"
            )
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{self.place}: column {column!r} holds half a character at position "
                f"{error.start} (\\u{ord(value[error.start]):04x}, a JSON escape without its pair)"
            ) from error
        return value


def table_format(path: Path) -> TableFormat:
    """What the name says. Raises FileNotFoundError, or ValueError for what holds no table."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if not path.is_file():
        raise ValueError(f"{path} is no plain file: rows are read from one file on disk")
    suffix = suffix_of(path.name)
    require_no_spreadsheet(path)
    if suffix == ".json":
        raise ValueError(
            f"{path}: rows are read from JSONL, not from JSON in one piece: write an object a "
            f"line, and name the file .jsonl"
        )
    if suffix not in _FORMATS:
        raise ValueError(
            f"{path}: unknown extension {suffix!r}, expected .txt (one text a line), .csv, .tsv, "
            f".jsonl or .parquet, all but the last compressed or not: rename the file"
        )
    return _FORMATS[suffix]


def require_no_spreadsheet(path: Path) -> None:
    """Raises ValueError for a file that only a spreadsheet program opens, by its name."""
    if (suffix := suffix_of(path.name)) in _SPREADSHEETS:
        raise ValueError(
            f"{path}: a spreadsheet ({suffix}) is not read: export the sheet as CSV in UTF-8 from "
            f"the program that opens it, and name that file"
        )


def columns(path: Path, *, has_header: bool = True) -> tuple[str, ...]:
    """The names of the file's columns, in its order.

    Those of JSONL are the fields of its first hundred objects. Without a header the columns of CSV
    and TSV are numbered: "1", "2", ... Raises as `rows` does.
    """
    format = table_format(path)
    if format == "text":
        return (TEXT,)
    if format == "parquet":
        with parquet_file(path) as file:
            return tuple(file.schema_arrow.names)
    if format == "jsonl":
        names = _fields(path)
    else:
        _, _, fields = next(_SEPARATED[format](path), (0, 0, []))
        names = _names(fields, has_header)
    if not names:
        raise ValueError(f"{path}: the file has no rows")
    return names


def rows(
    path: Path,
    names: Sequence[str],
    *,
    optional: Sequence[str] = (),
    has_header: bool = True,
    on_malformed: Callable[[str], None] | None = None,
) -> Iterator[Row]:
    """Every row's values of the columns `names`, in the file's order, in bounded memory.

    `optional` columns of the file are read too: None where a JSONL object lacks the field.

    A row of another width, a line that is no JSON object, or an object that lacks a field, is left
    out and told to `on_malformed`, where there is one.

    Raises at once FileNotFoundError or ValueError for a file that is missing, of no known format,
    damaged at its beginning or without rows, and for a name that it has not, suggesting the
    nearest; later ValueError, with file and line, for a malformed row that nobody is told of, and
    for bytes that are no text.
    """
    on_malformed = on_malformed or refuse
    format = table_format(path)
    found = columns(path, has_header=has_header)
    wanted = [*names, *optional]
    for name in wanted:
        require_column(path, name, found)
    if format == "parquet":
        read = _parquet_rows(path, wanted)
    elif format == "jsonl":
        read = _jsonl_rows(path, names, optional, on_malformed)
    elif format == "text":
        read = _text_rows(path)
    else:
        records = _SEPARATED[format](path)
        read = _separated_rows(path, wanted, records, found, has_header, on_malformed)
    first = next(read, None)
    if first is None:
        raise ValueError(f"{path}: the file has no rows")
    return chain([first], read)


def _fields(path: Path) -> tuple[str, ...]:
    """Those of the first objects. Raises ValueError where no line is one."""
    faults: list[str] = []
    names: dict[str, None] = {}
    for _, _, record in islice(json_objects(path, faults.append), _FIRST_OBJECTS):
        names |= dict.fromkeys(record or ())
    if faults and not names:
        refuse(faults[0])
    return tuple(names)


def require_column(path: Path, name: str, found: Sequence[str], advice: str = "") -> None:
    """Raises ValueError for a name that the file's columns `found` lack or have twice.

    It suggests the nearest; `advice` says how another one is chosen.
    """
    if name not in found:
        near = difflib.get_close_matches(name, found, n=1)
        told = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(
            f"{path}: no column {name!r}; {told}the columns are {', '.join(map(repr, found))}"
            f"{advice and f': {advice}'}{misread(path, found, name)}"
        )
    if found.count(name) > 1:
        raise ValueError(f"{path}: {found.count(name)} columns are named {name!r}: rename one")


def misread(path: Path, found: Sequence[str], name: str) -> str:
    """Advice on a name that is not among those found; empty where none is at hand.

    Where the only column's name holds what separates columns elsewhere, and where a number was
    asked for of a file whose first row is taken for names.
    """
    others = {";": "semicolons: export it with commas", "\t": "tabs: name it .tsv"}
    told = [advice for mark, advice in others.items() if len(found) == 1 and mark in found[0]]
    if told:
        return f" (its columns seem to be separated by {told[0]})"
    if name.isdigit() and has_named_columns(path) and "1" not in found:
        return " (its first row is taken for names: where it is none say --no-header)"
    return ""


def has_named_columns(path: Path) -> bool:
    """Whether it is for the first row to name the columns, as of CSV and TSV."""
    return table_format(path) in _SEPARATED


def _text_rows(path: Path) -> Iterator[Row]:
    for number, (line, position, text) in enumerate(numbered_lines(path)):
        yield Row(place=f"{path}:{line}", number=number, values={TEXT: text}, bytes_read=position)


def _separated_rows(
    path: Path,
    names: Sequence[str],
    records: Iterator[Numbered[list[str]]],
    header: tuple[str, ...],
    has_header: bool,
    on_malformed: Callable[[str], None],
) -> Iterator[Row]:
    places = {name: header.index(name) for name in names}
    for number, record in enumerate(islice(records, int(has_header), None)):
        line, position, fields = record
        if len(fields) != len(header):
            on_malformed(
                f"{path}:{line}: {counted(len(fields), 'column')}, expected {len(header)} as in "
                f"the first row ({', '.join(header):.100})"
            )
            continue
        yield Row(
            place=f"{path}:{line}",
            number=number,
            values={name: fields[place] for name, place in places.items()},
            bytes_read=position,
            num_lines=1 + sum(field.count("\n") for field in fields),
        )


def _jsonl_rows(
    path: Path,
    names: Sequence[str],
    optional: Sequence[str],
    on_malformed: Callable[[str], None],
) -> Iterator[Row]:
    for number, (line, position, record) in enumerate(json_objects(path, on_malformed)):
        if record is None:
            continue
        if missing := [name for name in names if name not in record]:
            found = ", ".join(map(repr, record))
            on_malformed(f"{path}:{line}: no field {missing[0]!r}, found {found}")
            continue
        values = {name: record.get(name) for name in (*names, *optional)}
        yield Row(place=f"{path}:{line}", number=number, values=values, bytes_read=position)


def _parquet_rows(path: Path, names: Sequence[str]) -> Iterator[Row]:
    import pyarrow as pa

    number = 0
    with parquet_file(path) as file:
        bytes_a_row = path.stat().st_size / max(1, file.metadata.num_rows)
        try:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=list(names)):
                lists = (batch.column(name).to_pylist() for name in names)
                for values in zip(*lists, strict=True):
                    number += 1
                    yield Row(
                        place=f"{path}: row {number}",
                        number=number - 1,
                        values=dict(zip(names, values, strict=True)),
                        bytes_read=int(number * bytes_a_row),
                    )
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(f"{path}: damaged Parquet behind row {number} ({error})") from error


def _names(first: Sequence[str], has_header: bool) -> tuple[str, ...]:
    return tuple(first) if has_header else tuple(str(n) for n in range(1, len(first) + 1))
