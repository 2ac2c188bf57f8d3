import re

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.checkpoints import sorted_table
from bertsmith.checkpoints.protobuf import write_number
from bertsmith.checkpoints.sorted_table import masked, read_table, write_table
from tests.checkpoints.golden.make_tensorflow import GOOGLE

ROWS = [
    (f"name/{number:04d}".encode(), bytes([number % 256]) * (number % 7)) for number in range(99)
]


def written(path, rows, **options):
    with path.open("wb") as file:
        write_table(file, rows, **options)
    return path


def block(content, compression=0):
    """A block's bytes as they stand in a file."""
    content = content + bytes([compression])
    return content + masked(google_crc32c.value(content)).to_bytes(4, "little")


def rows_of(*rows, restarts=1):
    """Rows that share nothing, as a block holds them, with the restarts at its end."""
    content = b"".join(
        b"\0" + write_number(len(key)) + write_number(len(value)) + key + value
        for key, value in rows
    )
    return content + bytes(4 * restarts) + restarts.to_bytes(4, "little")


def table(*data_blocks, compression=0, index_rows=None):
    """A whole file of these data blocks."""
    content, places = b"", []
    for data in data_blocks:
        places.append((b"\xff", write_number(len(content)) + write_number(len(data))))
        content += block(data, compression)
    for data in (rows_of(), rows_of(*(index_rows or places))):
        places.append((b"", write_number(len(content)) + write_number(len(data))))
        content += block(data)
    footer = places[-2][1] + places[-1][1]
    return content + footer.ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")


def test_the_checksum_is_crc32c_masked():
    assert google_crc32c.value(b"123456789") == 0xE3069283  # RFC 3720's check value
    assert masked(0) == 0xA282EAD8
    assert masked(1 << 15) == 0xA282EAD9
    assert masked(1) == (0xA282EAD8 + (1 << 17)) & 0xFFFFFFFF


@pytest.mark.parametrize("block_bytes", [1, 50, 500, 1 << 18])
def test_rows_survive_there_and_back_in_any_number_of_blocks(tmp_path, block_bytes):
    path = written(tmp_path / "t.index", ROWS, block_bytes=block_bytes)
    assert [(row.key, row.value) for row in read_table(path)] == ROWS


@given(
    rows=st.dictionaries(st.binary(max_size=6), st.binary(max_size=6), min_size=1),
    size=st.integers(1, 60),
)
def test_any_keys_survive(tmp_path_factory, rows, size):
    path = tmp_path_factory.mktemp("table") / "t.index"
    written(path, sorted(rows.items()), block_bytes=size)
    assert [(row.key, row.value) for row in read_table(path)] == sorted(rows.items())


def test_a_rows_offset_is_where_its_lengths_stand(tmp_path):
    path = written(tmp_path / "t.index", ROWS)
    content = path.read_bytes()
    for row in read_table(path):
        assert content[row.offset + 2] == len(row.value)


def test_a_table_by_tensorflow_is_written_again_to_the_byte(tmp_path):
    path = GOOGLE.with_name("bert_model.ckpt.index")
    rows = [(row.key, row.value) for row in read_table(path)]
    assert written(tmp_path / "t.index", rows).read_bytes() == path.read_bytes()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"t\.index is missing: copy or download"):
        read_table(tmp_path / "t.index")


@pytest.mark.parametrize("kept", [0, 7, 47, 48, 500])
def test_a_truncated_file_does_not_end_as_it_should(tmp_path, kept):
    path = written(tmp_path / "t.index", ROWS)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"t\.index \([\d,]+ bytes\) is no whole index") as caught:
        read_table(path)
    assert "expected 57fb808b247547db" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "faults"),
    [
        (table(rows_of((b"b", b""), (b"a", b""))), ["byte 4: b'a' comes after b'b'"]),
        (table(rows_of((b"a", b""), (b"a", b""))), ["byte 4: b'a' comes after b'a'"]),
        (
            table(rows_of((b"a", b"")), index_rows=[(b"A", write_number(0) + write_number(12))]),
            ["byte 0: b'a' is beyond its block's b'A'"],
        ),
        (
            table(
                rows_of((b"a", b"")), index_rows=[(b"z", write_number(0) + write_number(1 << 60))]
            ),
            ["a block is said to end at byte 1,152,921,504,606,846,976, past the last"],
        ),
        (table(rows_of((b"a", b"")), index_rows=[(b"z", b"\xff")]), ["the place of a block"]),
        (table(b"\0\x7f\0a" + rows_of()), ["byte 0: a row is longer than its block"]),
        (table(b"\x05\x01\0a" + rows_of()), ["byte 0: a row is longer than its block"]),
        (table(b"\xff" * 12 + rows_of()), ["a row's lengths"]),
        (table(b"\xff\xff\xff\xff"), ["cannot hold 4294967295 restarts"]),
        (table(b"a"), ["a block of 1 bytes cannot hold"]),
        (table(rows_of((b"a", b"")), compression=1), ["compressed with Snappy", "Saver"]),
        (table(rows_of((b"a", b"")), compression=4), ["compressed with method 4"]),
    ],
)
def test_a_block_that_contradicts_itself_is_refused_under_a_right_checksum(
    tmp_path, content, faults
):
    path = tmp_path / "t.index"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        read_table(path)
    for fault in faults:
        assert fault in str(caught.value)


def test_a_wrong_checksum_is_told_with_place_and_both_values(tmp_path):
    content = bytearray(table(rows_of((b"a", b"value"))))
    content[5] ^= 1
    (tmp_path / "t.index").write_bytes(content)
    with pytest.raises(ValueError, match=r"byte 0: a block of \d+ bytes has checksum 0x") as caught:
        read_table(tmp_path / "t.index")
    assert "expected 0x" in str(caught.value)


def test_neither_a_large_file_nor_names_that_grow_take_memory_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(sorted_table, "_MOST_BYTES", 2000)
    growing = [(b"a" * length, b"") for length in range(1, 80)]
    path = written(tmp_path / "t.index", growing)
    assert path.stat().st_size < 2000 < sum(len(key) for key, _ in growing)
    with pytest.raises(ValueError, match="its names take more than 2,000 bytes"):
        read_table(path)
    path = written(tmp_path / "t.index", [(b"a", bytes(3000))])
    with pytest.raises(ValueError, match="the index of a BERT has fewer than 2,000"):
        read_table(path)
