"""JSONL and Parquet -> one text a record, streaming. It knows nothing about what the text holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from bertsmith.reading.parquet import parquet_file

LONGEST_LINE = 1 << 26
"""Characters; a JSON line must be held whole, so this bounds the memory."""
NULLS = "records whose text is null"

_ROWS_AT_ONCE = 256


def jsonl_texts(
    blocks: Iterable[str], name: str, text_field: str, skipped: Counter[str]
) -> Iterator[str]:
    """Yields the text of each line's object; blank lines are passed over.

    Raises ValueError with file and line for a line that is not JSON, not an object, lacks the field
    or holds something else than a string (null is counted), and for one over 64 Mi characters.
    """
    number, rest = 0, ""
    for block in chain(blocks, ["\n"]):
        *lines, rest = (rest + block).split("\n")
        for line in lines:
            number += 1
            text = text_of_record(line, f"{name}:{number}", text_field) if line.strip() else ""
            if text is None:
                skipped[NULLS] += 1
            elif line.strip():
                yield text
        if len(rest) > LONGEST_LINE:
            raise ValueError(
                f"{name}:{number + 1}: a line of over {LONGEST_LINE:,} characters, expected one "
                f"JSON object a line"
            )


def text_of_record(line: str, where: str, text_field: str) -> str | None:
    """The text of one JSON line; None where the field is null. Raises ValueError naming `where`."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{where}: not JSON ({error.msg} at column {error.colno}), expected one object a line"
        ) from error
    except (ValueError, RecursionError) as error:  # too many digits, too many brackets
        raise ValueError(f"{where}: not JSON ({error}), expected one object a line") from error
    if not isinstance(record, dict):
        raise ValueError(f"{where}: expected a JSON object, found {type(record).__name__}")
    if text_field not in record:
        raise ValueError(f"{where}: {_missing(text_field, list(record))}")
    text = record[text_field]
    if text is not None and not isinstance(text, str):
        raise ValueError(
            f"{where}: field {text_field!r} must hold a string, found {type(text).__name__}"
        )
    return text


def check_first_record(start: str, name: str, text_field: str) -> None:
    """Raises ValueError where the first line of a JSONL file is not an object with the field."""
    stripped = start.lstrip()
    first, line_end, _ = stripped.partition("\n")
    if line_end and first:
        number = 1 + start[: len(start) - len(stripped)].count("\n")
        text_of_record(first, f"{name}:{number}", text_field)


def check_parquet(path: Path, text_field: str) -> None:
    """Raises ValueError where the file is damaged, empty or has no such column of strings."""
    import pyarrow as pa

    with parquet_file(path) as file:
        schema = file.schema_arrow
        if text_field not in schema.names:
            raise ValueError(f"{path}: {_missing(text_field, schema.names)}")
        kind = schema.field(text_field).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise ValueError(f"{path}: column {text_field!r} must hold strings, found {kind}")
        if file.metadata.num_rows == 0:
            raise ValueError(f"{path}: the file has no rows")


def parquet_texts(path: Path, text_field: str, skipped: Counter[str]) -> Iterator[str]:
    """Yields the column's texts, a few hundred rows in memory at a time; nulls are counted.

    Raises ValueError, with the file, for one that is damaged behind its beginning.
    """
    import pyarrow as pa

    with parquet_file(path) as file:
        try:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[text_field]):
                for text in batch.column(0).to_pylist():
                    if text is None:
                        skipped[NULLS] += 1
                    else:
                        yield text
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(f"{path}: not a whole Parquet file ({error})") from error


def _missing(text_field: str, fields: list[str]) -> str:
    found = ", ".join(map(repr, fields))
    return f"no text field {text_field!r}, found {found}; name the right one with --text-field"
