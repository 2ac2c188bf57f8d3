"""Every way in which a bundle can be damaged: an error of one line, never other numbers."""

import random
import shutil
import tracemalloc

import google_crc32c
import numpy as np
import pytest

from bertsmith.checkpoints import tensor_bundle
from bertsmith.checkpoints.bundle_index import Entry, write_index
from bertsmith.checkpoints.protobuf import read_number
from bertsmith.checkpoints.sorted_table import masked
from bertsmith.checkpoints.tensor_bundle import TensorBundle
from tests.checkpoints.golden.make_tensorflow import GOOGLE, TYPES, type_arrays

SMALL = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b/c": np.array([1, -1], np.int64)}


@pytest.fixture
def small(tmp_path):
    tensor_bundle.write(tmp_path / "small.ckpt", SMALL)
    return tmp_path / "small.ckpt"


def test_a_missing_file_is_named(small):
    shard = tensor_bundle.shard_of(small, 0, 1)
    shard.unlink()
    with pytest.raises(FileNotFoundError, match=r"data-00000-of-00001 is missing, one of the 1"):
        TensorBundle.open(small)
    tensor_bundle.index_of(small).unlink()
    with pytest.raises(FileNotFoundError, match=r"small\.ckpt\.index is missing"):
        TensorBundle.open(small)


def test_one_of_two_data_files_missing_is_named(tmp_path):
    prefix = copied(TYPES, tmp_path)
    tensor_bundle.shard_of(prefix, 1, 2).unlink()
    with pytest.raises(FileNotFoundError, match=r"data-00001-of-00002 is missing, one of the 2"):
        TensorBundle.open(prefix)


def test_a_data_file_shorter_than_the_index_says_is_refused_before_anything_is_read(small):
    shard = tensor_bundle.shard_of(small, 0, 1)
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"ends at byte 39, expected b/c up to byte 40") as caught:
        TensorBundle.open(small)
    assert str(shard) in str(caught.value)


def test_a_data_file_that_shrinks_after_opening_is_refused(small):
    bundle = TensorBundle.open(small)
    tensor_bundle.shard_of(small, 0, 1).write_bytes(b"")
    with pytest.raises(ValueError, match=r"ends inside b/c, which was to take bytes 24 to 40"):
        bundle.read("b/c")


def test_wrong_bytes_are_told_with_file_place_and_both_checksums(small):
    shard = tensor_bundle.shard_of(small, 0, 1)
    content = bytearray(shard.read_bytes())
    content[30] ^= 1
    shard.write_bytes(content)
    bundle = TensorBundle.open(small)
    assert np.array_equal(bundle.read("a"), SMALL["a"])
    with pytest.raises(ValueError, match=r"bytes 24 to 40: b/c has checksum 0x[0-9a-f]+") as caught:
        bundle.read("b/c")
    assert str(shard) in str(caught.value)
    assert f"expected {bundle.entries['b/c'].checksum:#x}" in str(caught.value)


def test_a_claimed_size_takes_no_memory(small):
    size = 1 << 40
    write_index(
        tensor_bundle.index_of(small),
        [Entry(name="a", dtype="uint8", shape=(size,), shard=0, offset=0, size=size, checksum=0)],
    )
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"ends at byte 40, expected a up to byte 1,099,511,627"):
        TensorBundle.open(small)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00002", ".data-00001-of-00002"])
def test_no_byte_can_change_unnoticed(tmp_path, suffix):
    """Every byte of the small bundle, each with one bit drawn, is padding or an error."""
    prefix = copied(TYPES, tmp_path)
    expected = everything(prefix)
    path = prefix.with_name(prefix.name + suffix)
    intact = path.read_bytes()
    draw = random.Random(1)
    unnoticed = []
    for position in range(len(intact)):
        path.write_bytes(flipped(intact, position, draw.randrange(8)))
        if same(everything(prefix), expected):
            unnoticed.append(position)
    assert set(unnoticed) <= unread_bytes(prefix, suffix, intact)


def test_no_drawn_byte_of_a_real_layout_can_change_unnoticed(tmp_path):
    prefix = copied(GOOGLE, tmp_path)
    expected = everything(prefix)
    draw = random.Random(2)
    for suffix in (".index", ".data-00000-of-00001"):
        path = prefix.with_name(prefix.name + suffix)
        intact = path.read_bytes()
        for _ in range(30):
            position = draw.randrange(len(intact) - 48)
            path.write_bytes(flipped(intact, position, draw.randrange(8)))
            assert not same(everything(prefix), expected)
        path.write_bytes(intact)


def test_any_index_under_right_checksums_is_read_or_refused_in_one_line(tmp_path):
    """Whatever a hand that knows the format writes: no other error, no memory by a false length."""
    prefix = copied(TYPES, tmp_path)
    path = tensor_bundle.index_of(prefix)
    intact = path.read_bytes()
    places = blocks(intact)
    draw = random.Random(3)
    refused = 0
    for _ in range(600):
        content = bytearray(intact)
        start, size = draw.choice(places)
        for _ in range(draw.choice((1, 1, 2, 5))):
            content[start + draw.randrange(size)] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, 0x12))
        trailer = start + size
        checksum = masked(google_crc32c.value(bytes(content[start : trailer + 1])))
        content[trailer + 1 : trailer + 5] = checksum.to_bytes(4, "little")
        path.write_bytes(content)
        refused += "bundle" in everything(prefix)
    assert refused > 200


def copied(prefix, directory):
    """The same bundle in a directory of its own."""
    for file in prefix.parent.glob(f"{prefix.name}.*"):
        shutil.copy(file, directory / file.name)
    return directory / prefix.name


def everything(prefix):
    """Every array that can be read; for every other, and for the bundle, the line that says why."""
    faults, found = {}, {}
    try:
        bundle = TensorBundle.open(prefix)
    except (ValueError, FileNotFoundError) as error:
        faults["bundle"], bundle = str(error), None
    for name in bundle.entries if bundle else ():
        try:
            found[name] = bundle.read(name)
        except ValueError as error:
            faults[name] = str(error)
    for fault in faults.values():
        assert str(prefix) in fault
        assert "\n" not in fault
    return found | faults


def same(first, second):
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name]) for name in first
    )


def flipped(content, position, bit):
    changed = bytearray(content)
    changed[position] ^= 1 << bit
    return bytes(changed)


def blocks(index):
    """The places of an index's blocks, found from its end."""
    position = len(index) - 48
    handles = []
    for _ in range(2):
        start, position = read_number(index, position)
        size, position = read_number(index, position)
        handles.append((start, size))
    return [(0, handles[0][0] - 5), *handles]


def unread_bytes(prefix, suffix, content):
    """Positions whose bytes mean nothing, or belong to what is never read."""
    if suffix == ".index":
        end = len(content) - 48
        for _ in range(4):
            _, end = read_number(content, end)
        return set(range(end, len(content) - 8))
    shard = int(suffix[6:11])
    read = set()
    bundle = TensorBundle.open(prefix)
    for name in type_arrays():
        entry = bundle.entries[name]
        if entry.shard == shard:
            read |= set(range(entry.offset, entry.offset + entry.size))
    return set(range(len(content))) - read
