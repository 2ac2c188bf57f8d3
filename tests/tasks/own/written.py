"""Small files of every format, for the tests beside this one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def lines_at(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def rows_at(path: Path, *rows: Mapping[str, object]) -> Path:
    """JSONL or Parquet, as the name says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
        return path
    return lines_at(path, *(json.dumps(row, ensure_ascii=False) for row in rows))


def hub_parquet_at(path: Path, features: object, rows: Sequence[Mapping[str, object]]) -> Path:
    """With the metadata that the `datasets` library writes."""
    table = pa.Table.from_pylist([dict(row) for row in rows])
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return path


def real(name: str) -> Path:
    """A file of the real data, for tests marked `data`."""
    return Path(os.environ["BERTSMITH_DATA"]) / name
