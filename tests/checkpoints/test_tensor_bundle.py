import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from bertsmith.checkpoints import tensor_bundle
from bertsmith.checkpoints.sorted_table import write_table
from bertsmith.checkpoints.tensor_bundle import TensorBundle
from tests.checkpoints.golden.make_tensorflow import (
    GOOGLE,
    TYPES,
    google_arrays,
    type_arrays,
    values,
)

SMALL = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b/c": np.array([1, -1], np.int64)}
WRITABLE = [
    np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64,
    np.uint8, np.uint16, np.uint32, np.uint64, np.bool_,
]  # fmt: skip


@pytest.fixture
def small(tmp_path):
    tensor_bundle.write(tmp_path / "small.ckpt", SMALL)
    return tmp_path / "small.ckpt"


def test_tensorflows_own_bundle_is_read_to_the_bit():
    bundle = TensorBundle.open(GOOGLE)
    expected = google_arrays()
    assert list(bundle.entries) == sorted(expected)
    for name, array in expected.items():
        read = bundle.read(name)
        assert (read.dtype, read.shape) == (array.dtype, array.shape)
        assert np.array_equal(read, array)


def test_every_type_is_read_from_two_data_files():
    bundle = TensorBundle.open(TYPES)
    assert len(bundle.shards) == 2
    assert {bundle.entries[name].shard for name in type_arrays()} == {0, 1}
    for name, array in type_arrays().items():
        read = bundle.read(name)
        assert (name, read.dtype, read.shape) == (name, array.dtype, array.shape)
        assert np.array_equal(read, array)
    assert bundle.entries["types/bfloat16"].dtype == "bfloat16"


def test_a_partitioned_variable_is_listed_once_and_refused():
    bundle = TensorBundle.open(TYPES)
    entry = bundle.entries["types/partitioned"]
    assert (entry.shape, entry.num_slices) == ((4, 3), 2)
    with pytest.raises(ValueError, match="types/partitioned is partitioned into 2 pieces"):
        bundle.read("types/partitioned")


@pytest.mark.parametrize("kind", ["string", "complex64"])
def test_what_holds_no_real_numbers_is_refused_by_its_type(kind):
    with pytest.raises(ValueError, match=rf"types/{kind} holds {kind}, expected one of float32"):
        TensorBundle.open(TYPES).read(f"types/{kind}")


def test_a_bundle_of_tensorflow_is_written_again_to_the_byte(tmp_path):
    tensor_bundle.write(tmp_path / GOOGLE.name, google_arrays())
    for suffix in (".index", ".data-00000-of-00001"):
        name = GOOGLE.name + suffix
        assert (tmp_path / name).read_bytes() == (GOOGLE.parent / name).read_bytes()


@settings(max_examples=25)  # each writes two files to the disk
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name[0] != "\0"),
        st.sampled_from(WRITABLE).flatmap(
            lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, min_side=0))
        ),
    )
)
def test_any_arrays_survive_there_and_back(tmp_path_factory, tensors):
    prefix = tmp_path_factory.mktemp("bundle") / "any.ckpt"
    tensor_bundle.write(prefix, tensors)
    bundle = TensorBundle.open(prefix)
    assert bundle.entries.keys() == tensors.keys()
    for name, array in tensors.items():
        read = bundle.read(name)
        assert (read.dtype, read.shape) == (array.dtype, array.shape)
        assert read.tobytes() == array.tobytes()


def test_strided_and_big_endian_arrays_are_written_by_their_values(tmp_path):
    whole = values("whole", (6, 8))
    tensors = {"turned": whole.T, "every other": whole[::2, ::3], "big": whole.astype(">f4")}
    tensor_bundle.write(tmp_path / "t.ckpt", tensors)
    bundle = TensorBundle.open(tmp_path / "t.ckpt")
    assert all(np.array_equal(bundle.read(name), array) for name, array in tensors.items())


def test_an_array_longer_than_one_read_is_checked_as_a_whole(tmp_path):
    long = np.arange(600_000, dtype=np.int32)
    prefix = tmp_path / "t.ckpt"
    tensor_bundle.write(prefix, {"long": long})
    assert np.array_equal(TensorBundle.open(prefix).read("long"), long)
    shard = tensor_bundle.shard_of(prefix, 0, 1)
    content = bytearray(shard.read_bytes())
    content[-1] ^= 0x80
    shard.write_bytes(content)
    with pytest.raises(ValueError, match="long has checksum"):
        TensorBundle.open(prefix).read("long")


def test_an_array_of_another_type_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="words holds str32, expected one of float32"):
        tensor_bundle.write(tmp_path / "t.ckpt", {"words": np.array(["a"])})
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_not_there_is_a_key_error(small):
    with pytest.raises(KeyError, match="d"):
        TensorBundle.open(small).read("d")


def test_opening_and_reading_take_memory_for_the_array_asked_for_alone(tmp_path):
    tensors = {name: np.zeros(1 << 22, np.float32) for name in "abcd"}
    tensor_bundle.write(tmp_path / "t.ckpt", tensors)
    tracemalloc.start()
    TensorBundle.open(tmp_path / "t.ckpt").read("b")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (1 << 24) + (4 << 20)


@pytest.mark.parity
def test_tensorflow_reads_what_is_written(tmp_path):
    tf = pytest.importorskip("tensorflow")
    tensors = google_arrays() | {
        name: array for name, array in type_arrays().items() if name != "types/bfloat16"
    }
    tensor_bundle.write(tmp_path / "t.ckpt", tensors)
    reader = tf.train.load_checkpoint(str(tmp_path / "t.ckpt"))
    assert reader.get_variable_to_shape_map() == {
        name: list(array.shape) for name, array in tensors.items()
    }
    for name, array in tensors.items():
        assert np.array_equal(reader.get_tensor(name), array)
        assert np.asarray(reader.get_tensor(name)).dtype == array.dtype


@pytest.mark.parity
def test_tensorflow_reads_an_index_of_many_blocks_and_we_read_its(tmp_path, monkeypatch):
    tf = pytest.importorskip("tensorflow")
    names = [
        f"a variable with a rather long name, and so on {number:05d}/kernel"
        for number in range(5000)
    ]
    tensors = {name: np.array(number, np.int32) for number, name in enumerate(names)}
    ours, theirs = tmp_path / "ours.ckpt", tmp_path / "theirs.ckpt"
    monkeypatch.setattr(write_table, "__defaults__", (4096,))
    tensor_bundle.write(ours, tensors)
    reader = tf.train.load_checkpoint(str(ours))
    assert all(reader.get_tensor(name) == tensors[name] for name in names)
    tf.raw_ops.SaveV2(
        prefix=str(theirs),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=list(tensors.values()),
    )
    bundle = TensorBundle.open(theirs)
    assert list(bundle.entries) == sorted(names)
    assert all(bundle.read(name) == tensors[name] for name in names)
