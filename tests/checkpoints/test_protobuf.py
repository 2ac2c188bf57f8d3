import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.checkpoints.protobuf import (
    Message,
    fixed_field,
    number_field,
    part_field,
    read_number,
    write_number,
)


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=3))
def test_a_number_survives_there_and_back_before_other_bytes(value, rest):
    encoded = write_number(value)
    assert read_number(b"x" + encoded + rest, 1) == (value, 1 + len(encoded))


def test_the_encodings_are_those_of_the_specification():
    assert write_number(150) == b"\x96\x01"
    assert number_field(1, 150) == b"\x08\x96\x01"
    assert part_field(2, b"testing") == b"\x12\x07testing"
    assert fixed_field(6, 0x01020304) == b"\x35\x04\x03\x02\x01"


def test_fields_come_back_by_number_in_their_order():
    message = Message.parse(
        number_field(1, 3) + part_field(2, b"a") + fixed_field(6, 9) + part_field(2, b"")
    )
    assert (message.number(1), message.number(6), message.number(5)) == (3, 9, 0)
    assert message.parts == {2: [b"a", b""]}


def test_a_negative_number_is_the_high_half_of_64_bits():
    assert Message.parse(b"\x08" + write_number((1 << 64) - 1)).number(1) == -1


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"\x08\x96", "does not end"),
        (b"\x08" + b"\xff" * 10, "does not end"),
        (b"\x12\x07test", "field 2 takes 7 bytes where 4 are left"),
        (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "where 0 are left"),
        (b"\x35\x01\x02", "field 6 takes 4 bytes where 2 are left"),
        (b"\x0b", "field 1 is of an unknown kind, 3"),
    ],
)
def test_what_is_no_message_is_refused(content, fault):
    with pytest.raises(ValueError, match=fault):
        Message.parse(content)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_a_value_error(content):
    try:
        message = Message.parse(content)
    except ValueError:
        return
    assert sum(map(len, message.numbers.values())) + sum(map(len, message.parts.values())) <= 40
