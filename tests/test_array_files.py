"""Arrays are written as numpy writes them, or the error names the file and says why."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from bertsmith.array_files import write_array
from bertsmith.corpus.duplicates import write_run
from bertsmith.corpus.writer import Documents, ShardWriter

ARRAYS = (
    np.arange(5),
    np.arange(6, dtype=np.uint16),
    np.zeros((0,), np.uint64),
    np.zeros((0, 3), np.float32),
    np.ones((3, 4), np.float16),
    np.array(7),
)


@pytest.mark.parametrize("array", ARRAYS, ids=[f"{a.shape} {a.dtype}" for a in ARRAYS])
def test_the_bytes_are_those_of_numpy(array: npt.NDArray[np.generic], tmp_path: Path) -> None:
    expected = io.BytesIO()
    np.save(expected, array)
    write_array(tmp_path / "new" / "a.npy", array)
    assert (tmp_path / "new" / "a.npy").read_bytes() == expected.getvalue()


def test_an_array_in_another_order_is_read_back_as_it_is(tmp_path: Path) -> None:
    array = np.arange(12).reshape(3, 4)
    for each in (array.T, array[:, ::2], array[0, ::3]):
        write_array(tmp_path / "a.npy", each)
        assert np.array_equal(np.load(tmp_path / "a.npy"), each)


def of_a_shard(folder: Path) -> None:
    ones = np.ones(999, dtype=np.int64)
    writer = ShardWriter(folder, 6)
    writer.append(Documents(token_ids=ones, sentence_lengths=ones, sentence_counts=ones))
    writer.flush()


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize(
    ("write", "name"),
    [
        (lambda folder: write_array(folder / "a.npy", np.zeros(10_000)), "a.npy"),
        (of_a_shard, "shard-00000.tokens.npy"),
        (lambda folder: write_run(folder / "b.npy", [np.ones(9, np.uint64)]), "b.npy"),
    ],
    ids=["array", "shard", "run"],
)
def test_a_full_disk_is_an_error_with_the_files_name(
    write: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="large") as stop:
        write(tmp_path)
    assert (stop.value.errno, stop.value.filename) == (errno.EFBIG, str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []
