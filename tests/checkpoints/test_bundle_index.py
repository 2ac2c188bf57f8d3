import re

import pytest

from bertsmith.checkpoints.bundle_index import Entry, read_index, write_index
from bertsmith.checkpoints.protobuf import fixed_field, number_field, part_field
from bertsmith.checkpoints.sorted_table import write_table

HEADER = number_field(1, 1) + part_field(3, number_field(1, 1))
MINUS_ONE = (1 << 64) - 1


def shape(*axes):
    return part_field(2, b"".join(part_field(2, number_field(1, length)) for length in axes))


def index(path, *rows, header=HEADER):
    with path.open("wb") as file:
        write_table(file, [(b"", header), *rows])
    return path


def test_entries_survive_there_and_back_in_the_order_of_their_names(tmp_path):
    entries = [
        Entry(name="b", dtype="float32", shape=(2, 3), shard=0, offset=8, size=24, checksum=7),
        Entry(name="a", dtype="int64", shape=(), shard=0, offset=0, size=8, checksum=1 << 31),
        Entry(name="가", dtype="bool", shape=(0, 9), shard=0, offset=32, size=0, checksum=9),
    ]
    write_index(tmp_path / "t.index", entries)
    assert read_index(tmp_path / "t.index") == (1, [entries[1], entries[0], entries[2]])


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (number_field(1, 1) + number_field(2, 1), "byte order 1 (1 is big-endian), expected 0"),
        (
            number_field(1, 1) + part_field(3, number_field(2, 2)),
            "needs a reader of version 2, expected at most 1",
        ),
        (b"", "0 data files, expected 1 to 99,999"),
        (number_field(1, MINUS_ONE), "-1 data files, expected"),
        (number_field(1, 1 << 40), "1099511627776 data files, expected"),
        (b"\x1a\x7f", "the entry of b'': field 3 takes 127 bytes where 0 are left"),
        (part_field(3, b"\x10"), "the entry of b'': a number of variable length"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused(tmp_path, header, fault):
    path = index(tmp_path / "t.index", header=header)
    with pytest.raises(ValueError, match=re.escape(f"{path}, byte 0: {fault}")):
        read_index(path)


def test_a_table_without_the_header_is_no_checkpoint(tmp_path):
    with (tmp_path / "t.index").open("wb") as file:
        write_table(file, [(b"a", b"")])
    with pytest.raises(ValueError, match="begins with b'a', expected the header"):
        read_index(tmp_path / "t.index")


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (number_field(1, 1) + shape(2, 3) + number_field(5, 20), "takes 20 bytes, expected 24"),
        (number_field(1, 1) + shape(1 << 62, 4), "impossible shape (4611686018427387904, 4)"),
        (number_field(1, 1) + shape(1 << 31, 1 << 31, 0), "impossible shape"),
        (number_field(1, 1) + shape(*[1] * 33) + number_field(5, 4), "impossible shape"),
        (number_field(1, 1) + shape(MINUS_ONE), "impossible shape (-1,)"),
        (number_field(1, 1) + number_field(4, MINUS_ONE) + number_field(5, 4), "begins at -1"),
        (number_field(1, 1) + number_field(5, MINUS_ONE), "takes -1 bytes"),
        (
            number_field(1, 1) + number_field(3, 1) + number_field(5, 4),
            "data file 1, expected 0 to 0",
        ),
        (number_field(1, 1) + part_field(2, b"\x12"), "the entry of b'a/b'"),
        (b"\xff", "the entry of b'a/b'"),
    ],
)
def test_an_entry_that_contradicts_itself_is_named(tmp_path, value, fault):
    path = index(tmp_path / "t.index", (b"a/b", value))
    with pytest.raises(ValueError, match=re.escape(fault)) as caught:
        read_index(path)
    assert str(path) in str(caught.value)
    assert "a/b" in str(caught.value)
    assert "copy or download the checkpoint again" in str(caught.value)


def test_a_name_that_is_no_text_is_refused(tmp_path):
    path = index(tmp_path / "t.index", (b"\xff\xfe", number_field(1, 1)))
    with pytest.raises(ValueError, match="not UTF-8"):
        read_index(path)


def test_types_that_are_not_read_are_listed_by_name(tmp_path):
    rows = [(b"a", number_field(1, 7)), (b"b", number_field(1, 77) + number_field(5, 3))]
    _, entries = read_index(index(tmp_path / "t.index", *rows))
    assert [entry.dtype for entry in entries] == ["string", "TensorFlow's type 77"]


def test_the_pieces_of_a_partitioned_variable_are_left_out(tmp_path):
    whole = number_field(1, 1) + shape(4, 3) + part_field(7, b"") + part_field(7, b"")
    piece = number_field(1, 1) + shape(2, 3) + number_field(5, 24) + fixed_field(6, 1)
    path = index(tmp_path / "t.index", (b"\0\0\1a", piece), (b"a", whole))
    _, entries = read_index(path)
    assert [(entry.name, entry.shape, entry.num_slices) for entry in entries] == [("a", (4, 3), 2)]
