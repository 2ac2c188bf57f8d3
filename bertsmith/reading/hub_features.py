"""A Parquet file of the Hub -> the names that it gives to the numbers of a column.

The `datasets` library writes class labels as numbers and their names into the file's metadata.

Source: Hugging Face datasets, `Features` and `ClassLabel`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_METADATA = b"huggingface"


def class_names(path: Path, column: str) -> tuple[str, ...]:
    """The names of the numbers 0, 1, ...; none where the file, or its metadata, names none.

    Of a column of lists they are those of the lists' elements.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path, memory_map=True).metadata or {}
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: not a whole Parquet file ({error})") from error
    try:
        content = json.loads(metadata.get(_METADATA, b"{}"))
    except ValueError:
        return ()
    feature: object = content
    for name in ("info", "features", column):
        feature = feature.get(name) if isinstance(feature, Mapping) else None
    if isinstance(feature, list) and len(feature) == 1:
        feature = feature[0]
    while isinstance(feature, Mapping) and isinstance(feature.get("feature"), Mapping):
        feature = feature["feature"]
    names = feature.get("names") if isinstance(feature, Mapping) else None
    return tuple(map(str, names)) if isinstance(names, list) else ()
