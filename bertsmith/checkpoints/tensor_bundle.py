"""TensorFlow's tensor bundle <-> named arrays, without TensorFlow.

    PREFIX.index                  a sorted table: name -> type, shape, data file, place, checksum
    PREFIX.data-00000-of-00002    the arrays' bytes, one after another

Opening reads the index alone and checks that every data file is there and as long as the index
says; an array's bytes are read, and their checksum verified, when it is asked for. No length is
trusted: memory is taken only for bytes that a file has. This file does not know what names mean.

Source: TensorFlow, core/util/tensor_bundle/tensor_bundle.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from bertsmith.checkpoints.bundle_index import LAYOUTS, Entry, read_index, write_index
from bertsmith.checkpoints.sorted_table import COPY_AGAIN, crc32c, masked
from bertsmith.files import atomic_file

Array = npt.NDArray[np.generic]

INDEX_SUFFIX = ".index"
_CHUNK_BYTES = 1 << 20
_WRITTEN = [dtype for dtype in LAYOUTS if dtype != "bfloat16"]  # which numpy does not have


@dataclass(frozen=True, kw_only=True)
class TensorBundle:
    """A bundle that was opened: what it holds, and a way to read each array of it."""

    entries: Mapping[str, Entry]
    """By name, in the order of the names; the pieces of partitioned variables left out."""
    shards: tuple[Path, ...]
    """The data files."""

    @staticmethod
    def open(prefix: Path) -> TensorBundle:
        """Reads and verifies `prefix`.index, and the sizes of its data files.

        Raises FileNotFoundError for a missing file; ValueError with file and offset for a damaged
        index, another byte order or version, or a data file that is too short.
        """
        index = index_of(prefix)
        num_shards, entries = read_index(index)
        for number in range(num_shards):
            shard = shard_of(prefix, number, num_shards)
            if not shard.is_file():
                raise FileNotFoundError(
                    f"{shard} is missing, one of the {num_shards} data files that {index} names: "
                    f"{COPY_AGAIN}"
                )
        shards = tuple(shard_of(prefix, number, num_shards) for number in range(num_shards))
        sizes = [shard.stat().st_size for shard in shards]
        for entry in entries:
            end = entry.offset + entry.size
            if not entry.num_slices and end > sizes[entry.shard]:
                raise ValueError(
                    f"{shards[entry.shard]} ends at byte {sizes[entry.shard]:,}, expected "
                    f"{entry.name} up to byte {end:,}: it is truncated; {COPY_AGAIN}"
                )
        return TensorBundle(entries={entry.name: entry for entry in entries}, shards=shards)

    def read(self, name: str) -> Array:
        """The array of this name; bfloat16 comes widened to float32, which holds the same values.

        Raises KeyError for a name that `entries` does not hold; ValueError for damaged bytes, or
        for a variable that is no array of numbers in one piece.
        """
        entry = self.entries[name]
        shard = self.shards[entry.shard]
        if entry.num_slices:
            raise ValueError(
                f"{shard}: {name} is partitioned into {entry.num_slices} pieces, expected 1; save "
                f"the checkpoint again with its variables in one piece each"
            )
        if entry.dtype not in LAYOUTS:
            raise ValueError(
                f"{shard}, byte {entry.offset:,}: {name} holds {entry.dtype}, expected one of "
                f"{', '.join(LAYOUTS)}; save the checkpoint again without it"
            )
        values = _read_bytes(shard, entry).view(LAYOUTS[entry.dtype])
        if entry.dtype == "bfloat16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        return values.reshape(entry.shape)


def write(prefix: Path, tensors: Mapping[str, Array]) -> None:
    """Writes a bundle of one data file that TensorFlow reads, replacing one of the same name.

    Takes memory for one array at a time. Raises ValueError for an array of another type than
    numpy's integers, booleans and floats of up to 64 bits.
    """
    entries = []
    with atomic_file(shard_of(prefix, 0, 1)) as file:
        for name in sorted(tensors, key=str.encode):
            entries.append(_append(file, name, tensors[name]))
    write_index(index_of(prefix), entries)


def index_of(prefix: Path) -> Path:
    """The file that holds the names."""
    return prefix.with_name(prefix.name + INDEX_SUFFIX)


def shard_of(prefix: Path, number: int, count: int) -> Path:
    """One of the files that hold the values."""
    return prefix.with_name(f"{prefix.name}.data-{number:05d}-of-{count:05d}")


def _append(file: IO[bytes], name: str, array: Array) -> Entry:
    """Writes one array's bytes at the end of a data file."""
    dtype = array.dtype.name
    if dtype not in _WRITTEN:
        raise ValueError(
            f"{name} holds {dtype}, expected one of {', '.join(_WRITTEN)}: no other array can be "
            f"written into a TensorFlow checkpoint"
        )
    offset, checksum = file.tell(), 0
    stored = np.ascontiguousarray(array, dtype=LAYOUTS[dtype]).reshape(-1).view(np.uint8)
    for start in range(0, stored.size, _CHUNK_BYTES):
        chunk = stored[start : start + _CHUNK_BYTES].tobytes()
        checksum = crc32c(chunk, checksum)
        file.write(chunk)
    return Entry(
        name=name,
        dtype=dtype,
        shape=array.shape,
        shard=0,
        offset=offset,
        size=stored.size,
        checksum=masked(checksum),
    )


def _read_bytes(shard: Path, entry: Entry) -> npt.NDArray[np.uint8]:
    """An array's bytes, their checksum verified."""
    values = np.empty(entry.size, np.uint8)
    checksum = 0
    with shard.open("rb") as file:
        file.seek(entry.offset)
        for start in range(0, entry.size, _CHUNK_BYTES):
            expected = min(_CHUNK_BYTES, entry.size - start)
            chunk = file.read(expected)
            if len(chunk) < expected:
                raise ValueError(
                    f"{shard} ends inside {entry.name}, which was to take bytes {entry.offset:,} "
                    f"to {entry.offset + entry.size:,}: {COPY_AGAIN}"
                )
            checksum = crc32c(chunk, checksum)
            values[start : start + expected] = np.frombuffer(chunk, np.uint8)
    if masked(checksum) != entry.checksum:
        raise ValueError(
            f"{shard}, bytes {entry.offset:,} to {entry.offset + entry.size:,}: {entry.name} has "
            f"checksum {masked(checksum):#x}, expected {entry.checksum:#x}; the file is damaged: "
            f"{COPY_AGAIN}"
        )
    return values
