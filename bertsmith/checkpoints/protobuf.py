"""Protocol-buffer messages <-> their fields, and the variable-length numbers they are made of.

Only the wire format: a message is a run of (field number, value), and what a field means is the
reader's business. Every length is checked against the bytes that are there.

Source: protobuf.dev, "Encoding"; proto3, where a field that is absent is 0 or empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_NUMBER, _EIGHT_BYTES, _PART, _FOUR_BYTES = 0, 1, 2, 5
_FIXED_BYTES = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}


@dataclass(frozen=True, kw_only=True)
class Message:
    """The fields of one message, by field number, in the order they stood in."""

    numbers: Mapping[int, list[int]] = field(default_factory=dict)
    """Numbers of variable and of fixed length, as signed 64 bits."""
    parts: Mapping[int, list[bytes]] = field(default_factory=dict)
    """Texts and messages inside this one."""

    @staticmethod
    def parse(content: bytes) -> Message:
        """Raises ValueError where `content` is no message."""
        numbers: dict[int, list[int]] = {}
        parts: dict[int, list[bytes]] = {}
        position = 0
        while position < len(content):
            tag, position = read_number(content, position)
            name, kind = tag >> 3, tag & 7
            if kind == _NUMBER:
                value, position = read_number(content, position)
                numbers.setdefault(name, []).append(_signed(value))
                continue
            length = _FIXED_BYTES.get(kind, 0)
            if kind == _PART:
                length, position = read_number(content, position)
            elif not length:
                raise ValueError(f"field {name} is of an unknown kind, {kind}")
            if length > len(content) - position:
                raise ValueError(
                    f"field {name} takes {length} bytes where {len(content) - position} are left"
                )
            value_bytes = content[position : position + length]
            position += length
            if kind == _PART:
                parts.setdefault(name, []).append(value_bytes)
            else:
                numbers.setdefault(name, []).append(int.from_bytes(value_bytes, "little"))
        return Message(numbers=numbers, parts=parts)

    def number(self, name: int) -> int:
        """The number in a field; 0 where it is absent."""
        return self.numbers.get(name, [0])[-1]


def read_number(content: bytes, position: int) -> tuple[int, int]:
    """The number of variable length at `position`, below 2^64, and the position after it."""
    value = 0
    for index, byte in enumerate(content[position : position + 10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, position + index + 1
    raise ValueError("a number of variable length does not end")


def write_number(value: int) -> bytes:
    """A number of at least 0 and below 2^64, seven bits a byte, the lowest first."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def number_field(name: int, value: int) -> bytes:
    """A field that holds a number; nothing for 0, as proto3 writes it."""
    return write_number(name << 3 | _NUMBER) + write_number(value) if value else b""


def fixed_field(name: int, value: int) -> bytes:
    """A field that holds a number of four bytes; nothing for 0."""
    return write_number(name << 3 | _FOUR_BYTES) + value.to_bytes(4, "little") if value else b""


def part_field(name: int, content: bytes) -> bytes:
    """A field that holds a message or a text; written even when it is empty."""
    return write_number(name << 3 | _PART) + write_number(len(content)) + content


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
