"""The index of a TensorFlow tensor bundle <-> what it says of each array.

The index is a sorted table; the arrays stand in other files. Its first row, with the empty name, is
the header: how many data files there are, their byte order, the format's version. Every other row
is one array's entry.

Source: TensorFlow, core/protobuf/tensor_bundle.proto, core/framework/types.proto and
tensor_shape.proto.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertsmith.checkpoints.protobuf import Message, fixed_field, number_field, part_field
from bertsmith.checkpoints.sorted_table import COPY_AGAIN, Row, read_table, write_table
from bertsmith.files import atomic_file

_STORED: dict[int, tuple[str, str]] = {
    1: ("float32", "<f4"), 2: ("float64", "<f8"), 3: ("int32", "<i4"), 4: ("uint8", "|u1"),
    5: ("int16", "<i2"), 6: ("int8", "|i1"), 9: ("int64", "<i8"), 10: ("bool", "|b1"),
    14: ("bfloat16", "<u2"), 17: ("uint16", "<u2"), 19: ("float16", "<f2"), 22: ("uint32", "<u4"),
    23: ("uint64", "<u8"),
}  # fmt: skip
_NOT_READ = {7: "string", 8: "complex64", 18: "complex128", 20: "resource", 21: "variant"}
_NUMBERS = {name: number for number, (name, _) in _STORED.items()}

LAYOUTS: dict[str, np.dtype[np.generic]] = {
    name: np.dtype(layout) for name, layout in _STORED.values()
}
"""The types that are read, and how their bytes lie; numpy has no bfloat16, so it is two bytes."""

_VERSION = 1
_LITTLE_ENDIAN = 0
_MOST_SHARDS = 99_999
_MOST_AXES = 32
_PIECE = b"\0"
"""What the name of a partitioned variable's piece begins with."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What the index says of one array."""

    name: str
    """In TensorFlow's spelling, such as bert/pooler/dense/kernel."""
    dtype: str
    """A name of LAYOUTS, or that of a type that is not read, such as string."""
    shape: tuple[int, ...]
    """Length of every axis."""
    shard: int
    """Which data file holds it."""
    offset: int
    """Where it begins there."""
    size: int
    """How many bytes it takes there."""
    checksum: int
    """Masked CRC-32C of these bytes."""
    num_slices: int = 0
    """Above 0 for a variable that was saved in pieces, which has no bytes of its own."""


def read_index(path: Path) -> tuple[int, list[Entry]]:
    """How many data files there are, and every array in the order of the names.

    The pieces of partitioned variables are left out. Raises FileNotFoundError for a missing file;
    ValueError with file and offset for a damaged one, another byte order or another version.
    """
    rows = read_table(path)
    if not rows or rows[0].key:
        raise ValueError(
            f"{path} begins with {rows[0].key if rows else b''!r}, expected the header of a "
            f"TensorFlow checkpoint: choose the .index file of a checkpoint"
        )
    num_shards = _num_shards(path, rows[0])
    entries = [_entry(path, row) for row in rows[1:] if not row.key.startswith(_PIECE)]
    for entry in entries:
        if entry.shard >= num_shards and not entry.num_slices:
            raise ValueError(
                f"{path}: {entry.name} is said to be in data file {entry.shard}, expected 0 to "
                f"{num_shards - 1}; the file is damaged: {COPY_AGAIN}"
            )
    return num_shards, entries


def write_index(path: Path, entries: Iterable[Entry]) -> None:
    """Writes the index of arrays that stand in one data file. Raises nothing of its own."""
    header = number_field(1, 1) + part_field(3, number_field(1, _VERSION))
    rows = [(b"", header)]
    for entry in sorted(entries, key=lambda entry: entry.name.encode()):
        axes = b"".join(part_field(2, number_field(1, length)) for length in entry.shape)
        fields = (
            number_field(1, _NUMBERS[entry.dtype]), part_field(2, axes),
            number_field(4, entry.offset), number_field(5, entry.size),
            fixed_field(6, entry.checksum),
        )  # fmt: skip
        rows.append((entry.name.encode(), b"".join(fields)))
    with atomic_file(path) as file:
        write_table(file, rows)


def _num_shards(path: Path, row: Row) -> int:
    """What the header says of the data files, if they can be read here at all."""
    header = _parsed(path, row, row.value)
    versions = [_parsed(path, row, part) for part in header.parts.get(3, [])]
    oldest_reader = max((version.number(2) for version in versions), default=0)
    if header.number(2) != _LITTLE_ENDIAN:
        raise ValueError(
            f"{path}, byte {row.offset}: byte order {header.number(2)} (1 is big-endian), expected "
            f"{_LITTLE_ENDIAN} (little-endian); save the checkpoint on a little-endian machine"
        )
    if oldest_reader > _VERSION:
        raise ValueError(
            f"{path}, byte {row.offset}: needs a reader of version {oldest_reader}, expected at "
            f"most {_VERSION}; save the checkpoint with an older TensorFlow"
        )
    if not 1 <= header.number(1) <= _MOST_SHARDS:
        raise _damaged(path, row, f"{header.number(1)} data files, expected 1 to {_MOST_SHARDS:,}")
    return header.number(1)


def _entry(path: Path, row: Row) -> Entry:
    try:
        name = row.key.decode()
    except UnicodeDecodeError as error:
        raise _damaged(path, row, f"the name {row.key!r} is not UTF-8") from error
    content = _parsed(path, row, row.value)
    axes = [
        _parsed(path, row, axis)
        for shape in content.parts.get(2, [])[-1:]
        for axis in _parsed(path, row, shape).parts.get(2, [])
    ]
    number = content.number(1)
    unread = _NOT_READ.get(number, f"TensorFlow's type {number}")
    entry = Entry(
        name=name, dtype=_STORED[number][0] if number in _STORED else unread,
        shape=tuple(axis.number(1) for axis in axes), shard=content.number(3),
        offset=content.number(4), size=content.number(5), checksum=content.number(6),
        num_slices=len(content.parts.get(7, [])),
    )  # fmt: skip
    _check_size(path, row, entry)
    return entry


def _check_size(path: Path, row: Row, entry: Entry) -> None:
    """Refuses an entry whose numbers contradict each other."""
    shape, name = entry.shape, entry.name
    # numpy's limit on an empty array counts its axes that are not empty.
    largest = 8 * math.prod(max(1, length) for length in shape)
    if min(shape, default=0) < 0 or len(shape) > _MOST_AXES or largest >= 1 << 63:
        raise _damaged(path, row, f"{name} has the impossible shape {shape}")
    if min(entry.shard, entry.offset, entry.size) < 0:
        raise _damaged(path, row, f"{name} begins at {entry.offset} and takes {entry.size} bytes")
    if entry.dtype not in LAYOUTS or entry.num_slices:
        return
    expected = math.prod(shape) * LAYOUTS[entry.dtype].itemsize
    if entry.size != expected:
        what = f"{name} ({entry.dtype}, shape {shape}) takes {entry.size:,} bytes"
        raise _damaged(path, row, f"{what}, expected {expected:,}")


def _parsed(path: Path, row: Row, content: bytes) -> Message:
    try:
        return Message.parse(content)
    except ValueError as error:
        raise _damaged(path, row, f"the entry of {row.key!r}: {error}") from error


def _damaged(path: Path, row: Row, fault: str) -> ValueError:
    return ValueError(f"{path}, byte {row.offset}: {fault}; the file is damaged: {COPY_AGAIN}")
