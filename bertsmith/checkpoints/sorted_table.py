"""A file of sorted keys, each with its bytes <-> rows: LevelDB's table, as TensorFlow writes it.

    block ... block  [meta-index block]  [index block]  footer

A block is rows, then the positions of those that spell their key in full, then one byte for the
compression and the checksum of all that. A row shares the beginning of its key with the row before.
A row of the index block leads to one block: (a key not below the block's last, its place). The
footer leads to the index. This file does not know what the rows mean.

Source: LevelDB, doc/table_format.md; TensorFlow, core/lib/io/table_builder.cc and format.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from bertsmith.checkpoints.protobuf import read_number, write_number

COPY_AGAIN = "copy or download the checkpoint again"

_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
_MOST_BYTES = 1 << 26
"""64 MiB of rows: a hundred times BERT LARGE's with an optimizer. Keys share their beginnings, so a
small file could otherwise ask for any amount of memory."""
_BLOCK_BYTES = 1 << 18
_RESTART_INTERVAL = 16


class Row(NamedTuple):
    """One key of a table with its value."""

    key: bytes
    value: bytes
    offset: int
    """Where it stands in the file."""


def crc32c(content: bytes, before: int = 0) -> int:
    """The CRC-32C of some bytes, behind those whose checksum is `before`."""
    import google_crc32c  # here: every model is loaded by way of this file, few are TensorFlow's

    checksum: int = google_crc32c.extend(before, content)
    return checksum


def masked(checksum: int) -> int:
    """A CRC-32C as these files store it, so that a checksum of checksums is no constant."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read_table(path: Path) -> list[Row]:
    """Every row, in order, each block's checksum verified.

    Raises ValueError, with file and offset, for whatever is no whole and uncompressed table;
    FileNotFoundError where there is none.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {COPY_AGAIN}")
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(
            f"{path} has {path.stat().st_size:,} bytes; the index of a BERT has fewer than "
            f"{_MOST_BYTES:,}: choose the .index file of a checkpoint"
        )
    table = _Table(path=path, content=path.read_bytes())
    rows: list[Row] = []
    held = 0
    meta_index, index = table.footer()
    table.block(*meta_index)
    for last_key, place, offset in table.rows(*index):
        for row in table.rows(*table.place(place, 0, offset)[0]):
            if rows and row.key <= rows[-1].key:
                raise table.damaged(row.offset, f"{row.key!r} comes after {rows[-1].key!r}")
            if row.key > last_key:
                raise table.damaged(row.offset, f"{row.key!r} is beyond its block's {last_key!r}")
            held += len(row.key)
            if held > _MOST_BYTES:
                raise table.damaged(row.offset, f"its names take more than {_MOST_BYTES:,} bytes")
            rows.append(row)
    return rows


def write_table(
    file: IO[bytes], rows: Iterable[tuple[bytes, bytes]], block_bytes: int = _BLOCK_BYTES
) -> None:
    """Writes rows, at least one, whose keys ascend, in blocks of about `block_bytes`.

    Nothing is compressed. Rows that fit one block give the same bytes as TensorFlow's own writer.
    """
    index: list[tuple[bytes, bytes]] = []
    waiting: list[tuple[bytes, bytes]] = []
    waiting_bytes = 0
    for key, value in rows:
        if waiting_bytes >= block_bytes:
            index.append((_between(waiting[-1][0], key), _write_block(file, waiting)))
            waiting, waiting_bytes = [], 0
        waiting.append((key, value))
        waiting_bytes += len(key) + len(value)
    index.append((_after(waiting[-1][0]), _write_block(file, waiting)))
    places = _write_block(file, []) + _write_block(file, index, interval=1)
    file.write(places.ljust(_FOOTER_BYTES - len(_MAGIC), b"\0") + _MAGIC)


@dataclass(frozen=True, kw_only=True)
class _Table:
    """A table's bytes, and the file that its faults are told of."""

    path: Path
    content: bytes

    def damaged(self, offset: int, fault: str) -> ValueError:
        return ValueError(f"{self.path}, byte {offset}: {fault}; the file is damaged: {COPY_AGAIN}")

    def footer(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The places (offset, bytes) of the meta-index block and of the index block."""
        size = len(self.content)
        magic = self.content[-len(_MAGIC) :]
        if size < _FOOTER_BYTES or magic != _MAGIC:
            raise ValueError(
                f"{self.path} ({size:,} bytes) is no whole index of a TensorFlow checkpoint: it "
                f"ends with {magic.hex() or 'nothing'}, expected {_MAGIC.hex()}; {COPY_AGAIN}"
            )
        offset = size - _FOOTER_BYTES
        places = self.content[offset : size - len(_MAGIC)]
        meta_index, position = self.place(places, 0, offset)
        return meta_index, self.place(places, position, offset)[0]

    def place(self, content: bytes, position: int, offset: int) -> tuple[tuple[int, int], int]:
        """A block's (offset, bytes), written at `position` of `content`; the position after it."""
        try:
            start, position = read_number(content, position)
            size, position = read_number(content, position)
        except ValueError as error:
            raise self.damaged(offset, f"the place of a block: {error}") from error
        room = len(self.content) - _FOOTER_BYTES - _TRAILER_BYTES
        if start + size > room:
            raise self.damaged(
                offset, f"a block is said to end at byte {start + size:,}, past the last, {room:,}"
            )
        return (start, size), position

    def block(self, offset: int, size: int) -> bytes:
        """The bytes of a block, their checksum verified."""
        end = offset + size
        compression = self.content[end]
        expected = int.from_bytes(self.content[end + 1 : end + _TRAILER_BYTES], "little")
        found = masked(crc32c(self.content[offset : end + 1]))
        if found != expected:
            raise self.damaged(
                offset, f"a block of {size:,} bytes has checksum {found:#x}, expected {expected:#x}"
            )
        if compression:
            name = "Snappy" if compression == 1 else f"method {compression}"
            raise ValueError(
                f"{self.path}, byte {end}: a block is compressed with {name}, expected none; "
                f"save the checkpoint again with TensorFlow's own Saver"
            )
        return self.content[offset:end]

    def rows(self, offset: int, size: int) -> Iterator[Row]:
        """The rows of a block."""
        block = self.block(offset, size)
        restarts = int.from_bytes(block[-4:], "little")
        end = size - 4 * (restarts + 1)
        if end < 0:
            raise self.damaged(offset, f"a block of {size} bytes cannot hold {restarts} restarts")
        key, position = b"", 0
        while position < end:
            start = position
            try:
                shared, position = read_number(block, position)
                own, position = read_number(block, position)
                length, position = read_number(block, position)
            except ValueError as error:
                raise self.damaged(offset + start, f"a row's lengths: {error}") from error
            if shared > len(key) or position + own + length > end:
                raise self.damaged(offset + start, "a row is longer than its block")
            key = key[:shared] + block[position : position + own]
            position += own + length
            yield Row(key, block[position - length : position], offset + start)


def _write_block(
    file: IO[bytes], rows: list[tuple[bytes, bytes]], interval: int = _RESTART_INTERVAL
) -> bytes:
    """Appends a block; returns its place as the index and the footer hold it."""
    content = bytearray()
    restarts = [0]
    before = b""
    for number, (key, value) in enumerate(rows):
        if number and number % interval == 0:
            restarts.append(len(content))
            before = b""
        shared = _shared(before, key)
        lengths = (shared, len(key) - shared, len(value))
        content += b"".join(map(write_number, lengths)) + key[shared:] + value
        before = key
    for number in (*restarts, len(restarts)):
        content += number.to_bytes(4, "little")
    place = write_number(file.tell()) + write_number(len(content))
    content.append(0)  # not compressed
    file.write(content + masked(crc32c(bytes(content))).to_bytes(4, "little"))
    return place


def _shared(first: bytes, second: bytes) -> int:
    """How many bytes two keys begin with in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(first), len(second)))


def _between(key: bytes, following: bytes) -> bytes:
    """A short key, not below `key` and below the one that follows it."""
    shared = _shared(key, following)
    if shared < min(len(key), len(following)) and key[shared] + 1 < following[shared]:
        return key[:shared] + bytes([key[shared] + 1])
    return key


def _after(key: bytes) -> bytes:
    """A short key, not below `key`."""
    for index, byte in enumerate(key):
        if byte != 0xFF:
            return key[:index] + bytes([byte + 1])
    return key
