"""Vectors of texts -> npz or safetensors: arrays over all texts, in the order of the input.

    vectors      (R, W)   of all texts, end to end
    lengths      (N,)     how many of them each text has, summing to R    for tokens and words
    spans        (R, 2)   the characters of each, in its own text         for tokens and words
    token_ids    (R,)     its row in the vocabulary                       for tokens
    num_unread   (N,)     tokens of each text that were not read

Both formats begin an array with its shape, which is known at the end only: each array grows in a
temporary file beside the output, and the file is put together from these, block by block. So twice
the room on the disk is needed while it is written, and hardly any memory. How the vectors were made
stands in safetensors' `__metadata__`, and in npz in a JSON string, `metadata`.

Source: github.com/huggingface/safetensors, README (format); numpy.lib.format.

Legend: N texts, R vectors in all, W width of a vector.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

import numpy as np
import numpy.typing as npt

from bertsmith.features.vectors import Layout, TextVectors
from bertsmith.files import atomic_file, naming

ArrayType = Literal["float32", "float16", "bfloat16", "int32", "int64"]

_NUMPY: dict[ArrayType, str] = {
    "float32": "<f4",
    "float16": "<f2",
    "bfloat16": "<u2",  # its bits: numpy has no such type
    "int32": "<i4",
    "int64": "<i8",
}
_SAFETENSORS: dict[ArrayType, str] = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "int64": "I64",
}
_HEADER_ALIGNMENT = 8
_COPIED_BYTES = 1 << 20


class GrowingArray:
    """An array of which only the number of rows is open, on the disk."""

    def __init__(self, file: IO[bytes], type: ArrayType, row_shape: tuple[int, ...]) -> None:
        self._file, self.type = file, type
        self._row_shape, self._num_rows = row_shape, 0

    @property
    def shape(self) -> tuple[int, ...]:
        """So far."""
        return (self._num_rows, *self._row_shape)

    @property
    def num_bytes(self) -> int:
        """So far."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(_NUMPY[self.type]).itemsize

    def append(self, rows: npt.NDArray[np.generic]) -> None:
        """Adds rows at the end."""
        assert rows.shape[1:] == self._row_shape, (rows.shape, self._row_shape)
        self._file.write(np.ascontiguousarray(rows, dtype=_NUMPY[self.type]).data)
        self._num_rows += len(rows)

    def copy_to(self, file: IO[bytes]) -> None:
        """Writes the whole array, block by block."""
        self._file.seek(0)
        shutil.copyfileobj(self._file, file, _COPIED_BYTES)


class ArraysWriter:
    """Arrays that grow beside the output."""

    def __init__(self, directory: Path, layout: Layout, stack: contextlib.ExitStack) -> None:
        kinds: dict[str, tuple[ArrayType, tuple[int, ...]]] = {
            "vectors": (layout.dtype, (layout.width,)),
            "num_unread": ("int64", ()),
        }
        if layout.per != "text":
            kinds |= {"lengths": ("int64", ()), "spans": ("int32", (2,))}
        if layout.per == "token":
            kinds["token_ids"] = ("int32", ())
        self.arrays = {
            name: GrowingArray(stack.enter_context((directory / name).open("w+b")), *kind)
            for name, kind in kinds.items()
        }

    def write(self, texts: Sequence[TextVectors]) -> None:
        """Appends to every array."""
        parts: dict[str, list[npt.NDArray[np.generic]]] = {
            "vectors": [text.vectors for text in texts],
            "num_unread": [np.array([text.num_unread for text in texts])],
            "lengths": [np.array([len(text.vectors) for text in texts])],
            "spans": [text.spans for text in texts],
            "token_ids": [text.token_ids for text in texts],
        }
        for name, array in self.arrays.items():
            for part in parts[name]:
                array.append(part)


Assemble = Callable[[IO[bytes], Mapping[str, GrowingArray], Mapping[str, str]], None]


def npz_writer(path: Path, layout: Layout) -> contextlib.AbstractContextManager[ArraysWriter]:
    """For `numpy.load(path)`."""
    return _writer(path, layout, _write_npz)


def safetensors_writer(
    path: Path, layout: Layout
) -> contextlib.AbstractContextManager[ArraysWriter]:
    """For `safetensors.safe_open(path, ...)`."""
    return _writer(path, layout, _write_safetensors)


@contextlib.contextmanager
def _writer(path: Path, layout: Layout, assemble: Assemble) -> Iterator[ArraysWriter]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        naming(path),  # also of what is still to be written when the scratch files are closed
        tempfile.TemporaryDirectory(
            dir=path.parent, prefix=f".{path.name}.", suffix=".part"
        ) as directory,
        contextlib.ExitStack() as stack,
    ):
        writer = ArraysWriter(Path(directory), layout, stack)
        yield writer
        with atomic_file(path) as file:
            assemble(file, writer.arrays, layout.metadata)


def _write_npz(
    file: IO[bytes], arrays: Mapping[str, GrowingArray], metadata: Mapping[str, str]
) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        # A ZipInfo of our own has no time of writing: equal vectors give equal files.
        for name, array in arrays.items():
            header = {
                "descr": _NUMPY[array.type],
                "fortran_order": False,
                "shape": array.shape,
            }
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, header)
                array.copy_to(member)
        with archive.open(zipfile.ZipInfo("metadata.npy"), "w") as member:
            np.lib.format.write_array(member, np.array(json.dumps(dict(metadata))))


def _write_safetensors(
    file: IO[bytes], arrays: Mapping[str, GrowingArray], metadata: Mapping[str, str]
) -> None:
    """The header's length, the header in JSON, the arrays without a gap, the widest type first."""
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    ordered = sorted(arrays.items(), key=lambda named: -np.dtype(_NUMPY[named[1].type]).itemsize)
    end = 0
    for name, array in ordered:
        start, end = end, end + array.num_bytes
        header[name] = {
            "dtype": _SAFETENSORS[array.type],
            "shape": array.shape,
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _HEADER_ALIGNMENT)
    file.write(len(text).to_bytes(8, "little") + text)
    for _, array in ordered:
        array.copy_to(file)
