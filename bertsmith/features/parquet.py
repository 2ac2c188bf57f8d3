"""Vectors of texts -> Parquet: a row a text.

    id, text, num_unread       of every text
    vector                     of a whole text; or lists, an entry a token or word:
    pieces, starts, ends       what it is, and its characters in the text
    vectors                    its vector

How the vectors were made stands in the schema's metadata.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertsmith.features.vectors import Layout, TextVectors
from bertsmith.files import atomic_file

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


class ParquetWriter:
    """A Parquet file that grows, a row group a call."""

    def __init__(self, file: pq.ParquetWriter, schema: pa.Schema, layout: Layout) -> None:
        self._file, self._schema, self._layout = file, schema, layout

    def write(self, texts: Sequence[TextVectors]) -> None:
        """Appends a row a text."""
        import pyarrow as pa

        columns = _columns(texts, self._layout)
        self._file.write_batch(pa.record_batch(columns, schema=self._schema))


@contextlib.contextmanager
def writer(path: Path, layout: Layout) -> Iterator[ParquetWriter]:
    """Streams into a file that takes its place at `path` when the block ends without an error."""
    import pyarrow.parquet as pq

    schema = _schema(layout)
    with (
        atomic_file(path) as file,
        pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            # Of a vector's numbers nearly all are different; their bytes, sorted by place, are not.
            use_dictionary=["pieces.list.element"],
            use_byte_stream_split=["vector.list.element", "vectors.list.element.list.element"],
            write_statistics=["id", "num_unread"],
        ) as parquet,
    ):
        yield ParquetWriter(parquet, schema, layout)


def _schema(layout: Layout) -> pa.Schema:
    import pyarrow as pa

    vector = pa.list_(pa.float16() if layout.dtype == "float16" else pa.float32(), layout.width)
    fields = [("id", pa.string()), ("text", pa.string()), ("num_unread", pa.int32())]
    if layout.per == "text":
        fields += [("vector", vector)]
    else:
        fields += [
            ("pieces", pa.list_(pa.string())),
            ("starts", pa.list_(pa.int32())),
            ("ends", pa.list_(pa.int32())),
            ("vectors", pa.list_(vector)),
        ]
    return pa.schema(fields, metadata=dict(layout.metadata))


def _columns(texts: Sequence[TextVectors], layout: Layout) -> list[pa.Array]:
    """In the schema's order."""
    import pyarrow as pa

    columns = [
        pa.array([text.text.id for text in texts], pa.string()),
        pa.array([text.text.text for text in texts], pa.string()),
        pa.array([text.num_unread for text in texts], pa.int32()),
    ]
    numbers = np.concatenate([text.vectors for text in texts]).reshape(-1)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), layout.width)
    if layout.per == "text":
        return [*columns, vectors]
    offsets = np.cumsum([0, *(len(text.pieces) for text in texts)], dtype=np.int32)
    spans = np.concatenate([text.spans for text in texts])
    lists = [
        pa.array([piece for text in texts for piece in text.pieces], pa.string()),
        pa.array(spans[:, 0], pa.int32()),
        pa.array(spans[:, 1], pa.int32()),
        vectors,
    ]
    return [*columns, *(pa.ListArray.from_arrays(pa.array(offsets), each) for each in lists)]
