"""What every format holds, read back by its own library."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors
import torch
from safetensors.torch import load_file

from bertsmith.features import arrays
from bertsmith.features.plan import FeaturePlan
from bertsmith.features.vectors import Layout, Text, TextVectors
from bertsmith.features.writers import check_format, open_writer

WIDTH = 3
METADATA = {"model": "미니", "layers": "last"}
SIZES = {"token": (4, 0, 2), "word": (2, 0, 1), "text": (1, 1, 1)}
NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}


def texts_of(per, dtype="float32"):
    """Three texts, the second without tokens or words."""
    draw = np.random.default_rng(1)
    texts = []
    for number, size in enumerate(SIZES[per]):
        pieces = () if per == "text" else tuple(f"조각{n}" for n in range(size))
        values = torch.from_numpy(draw.normal(size=(size, WIDTH)).astype(np.float32))
        values = values.to(getattr(torch, dtype))
        bits = values.view(torch.int16).numpy().view(NUMPY[dtype]) if dtype != "float32" else None
        texts.append(
            TextVectors(
                text=Text(id=f"id-{number}", text=f"글 {number}"),
                vectors=values.numpy() if bits is None else bits,
                pieces=pieces,
                token_ids=np.arange(size if per == "token" else 0, dtype=np.int32),
                spans=draw.integers(0, 99, (len(pieces), 2), dtype=np.int32),
                num_tokens=size,
                num_unread=number,
                num_windows=1,
            )
        )
    return texts


def written(path, per, dtype="float32"):
    layout = Layout(per=per, width=WIDTH, dtype=dtype, metadata=METADATA)
    texts = texts_of(per, dtype)
    with open_writer(path, layout) as writer:
        writer.write(texts[:2])
        writer.write(texts[2:])
    return texts


def bits_of(array):
    return np.asarray(array).view(np.uint32 if array.dtype.itemsize == 4 else np.uint16)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("per", ["token", "word"])
def test_parquet_holds_a_row_a_text_with_lists(per, dtype, tmp_path):
    texts = written(tmp_path / "a.parquet", per, dtype)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.schema.metadata == {k.encode(): v.encode() for k, v in METADATA.items()}
    assert table.column("id").to_pylist() == ["id-0", "id-1", "id-2"]
    assert table.column("text").to_pylist() == ["글 0", "글 1", "글 2"]
    assert table.column("num_unread").to_pylist() == [0, 1, 2]
    assert table.column("pieces").to_pylist() == [list(text.pieces) for text in texts]
    assert table.column("starts").to_pylist() == [text.spans[:, 0].tolist() for text in texts]
    assert table.column("ends").to_pylist() == [text.spans[:, 1].tolist() for text in texts]
    kind = pa.list_(pa.list_(pa.float16() if dtype == "float16" else pa.float32(), WIDTH))
    assert table.schema.field("vectors").type.equals(kind)
    for found, text in zip(table.column("vectors").to_pylist(), texts, strict=True):
        found = np.array(found, dtype=dtype).reshape(-1, WIDTH)
        assert np.array_equal(bits_of(found), bits_of(text.vectors))


def test_parquet_holds_one_vector_for_a_whole_text(tmp_path):
    texts = written(tmp_path / "a.parquet", "text")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["id", "text", "num_unread", "vector"]
    expected = np.concatenate([text.vectors for text in texts])
    assert np.array_equal(np.stack(table.column("vector").to_numpy()), expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("per", ["token", "word", "text"])
def test_npz_holds_arrays_over_all_texts(per, dtype, tmp_path):
    texts = written(tmp_path / "a.npz", per, dtype)
    with np.load(tmp_path / "a.npz") as file:  # allow_pickle is off
        check_arrays(dict(file.items()), texts, per)
        assert file["vectors"].dtype == dtype
        assert json.loads(str(file["metadata"])) == METADATA


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("per", ["token", "word", "text"])
def test_safetensors_holds_tensors_over_all_texts(per, dtype, tmp_path):
    path = tmp_path / "a.safetensors"
    texts = written(path, per, dtype)
    tensors = load_file(path)
    assert tensors["vectors"].dtype == getattr(torch, dtype)
    vectors = tensors.pop("vectors")
    bits = vectors.numpy() if dtype == "float32" else vectors.view(torch.int16).numpy()
    found = {name: tensor.numpy() for name, tensor in tensors.items()}
    check_arrays(found | {"vectors": bits}, texts, per)
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == METADATA


def check_arrays(found, texts, per):
    every = {"vectors", "num_unread"}
    every |= {"lengths", "spans"} if per != "text" else set()
    every |= {"token_ids"} if per == "token" else set()
    assert set(found) - {"metadata"} == every
    expected = np.concatenate([text.vectors for text in texts])
    assert np.array_equal(bits_of(found["vectors"]), bits_of(expected))
    assert found["num_unread"].tolist() == [0, 1, 2]
    if per != "text":
        assert found["lengths"].tolist() == list(SIZES[per])
        assert np.array_equal(found["spans"], np.concatenate([text.spans for text in texts]))
    if per == "token":
        assert found["token_ids"].tolist() == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("suffix", ["parquet", "npz", "safetensors"])
def test_equal_vectors_give_equal_files(suffix, tmp_path):
    for name in ("a", "b"):
        written(tmp_path / f"{name}.{suffix}", "token")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", ["parquet", "npz", "safetensors"])
def test_a_failure_leaves_the_older_file_and_nothing_else(suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    path.write_text("older")
    layout = Layout(per="token", width=WIDTH, dtype="float32", metadata={})

    def fail():
        with open_writer(path, layout) as writer:
            writer.write(texts_of("token"))
            raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        fail()
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["parquet", "npz", "safetensors"])
def test_a_finished_file_leaves_nothing_beside_it_and_may_be_read_by_all(suffix, tmp_path):
    path = tmp_path / "new" / f"a.{suffix}"
    written(path, "word")
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("suffix", ["parquet", "npz", "safetensors"])
@pytest.mark.parametrize("times", [1, 999])
def test_a_full_disk_is_an_error_with_the_files_name(suffix, times, tmp_path):
    layout = Layout(per="token", width=WIDTH, dtype="float32", metadata=METADATA)
    writing = open_writer(tmp_path / f"a.{suffix}", layout)
    with pytest.raises(OSError, match="large") as stop, writing as writer:
        writer.write(times * texts_of("token"))
    assert stop.value.filename == str(tmp_path / f"a.{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_arrays_are_put_together_block_by_block(tmp_path, monkeypatch):
    """No array is ever read back whole: `shutil.copyfileobj` moves blocks of a fixed size."""
    asked = []
    copy = arrays.shutil.copyfileobj

    def watched(source, target, length):
        asked.append(length)
        copy(source, target, length)

    monkeypatch.setattr(arrays.shutil, "copyfileobj", watched)
    written(tmp_path / "a.safetensors", "token")
    written(tmp_path / "a.npz", "token")
    assert asked == [1 << 20] * 10


@pytest.mark.parametrize(
    ("name", "plan", "has_ids", "message"),
    [
        ("a.csv", {}, False, r"as \.parquet, \.npz, \.safetensors, found the extension '\.csv'"),
        ("a", {}, False, "found the extension ''"),
        ("a.npz", {"dtype": "bfloat16"}, False, r"\.npz has no bfloat16"),
        ("a.parquet", {"dtype": "bfloat16"}, False, r"\.parquet has no bfloat16"),
        ("a.npz", {}, True, "no ids: leave the id field out"),
        ("a.safetensors", {}, True, "no ids"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(name, plan, has_ids, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        check_format(tmp_path / name, FeaturePlan(**plan), has_ids=has_ids)


def test_what_a_format_holds_is_let_through(tmp_path):
    check_format(tmp_path / "a.safetensors", FeaturePlan(dtype="bfloat16"), has_ids=False)
    check_format(tmp_path / "a.parquet", FeaturePlan(dtype="float16"), has_ids=True)


def test_a_row_of_another_width_is_a_mistake_of_ours(tmp_path):
    layout = Layout(per="text", width=WIDTH + 1, dtype="float32", metadata={})
    with pytest.raises(AssertionError), open_writer(tmp_path / "a.npz", layout) as writer:
        writer.write(texts_of("text"))
