"""A path -> an open Parquet file, or one error that names it. It does not know its columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def parquet_file(path: Path) -> pq.ParquetFile:
    """Reads what the file says of itself; its rows stay on the disk.

    Raises ValueError for a damaged file, OSError for one that cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's, not the reader's
            raise
        raise ValueError(f"{path}: not a whole Parquet file ({error})") from error
