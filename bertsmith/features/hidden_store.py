"""What a frozen encoder gives for sequences -> files that are read in its place, epoch after epoch.

    tokens-04.npy  (R, H)  state 4 of every token, sequence after sequence
    pooled-04.npy  (N, H)  of each sequence the token that is pooled
    mean-04.npy    (N, H)  of each sequence the mean of its tokens

A directory belongs to one encoder, one list of sequences and one way to compute: its name is made
of all three, so whatever asks for the same finds it, with the same bits as if it were made anew. A
layer is made when it is first asked for. It does not know what is learned from them.

Source: Devlin et al. 2018, section 5.3.

Legend: N sequences, R rows (tokens, or sequences), H hidden size.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertsmith.batch import IntArray, PackedBatch, starts_of
from bertsmith.data.items import Item
from bertsmith.files import atomic_file, lock, remove_leftovers, write_json
from bertsmith.model.bert import Bert
from bertsmith.model.heads import reduced_states
from bertsmith.model.stream import Stream
from bertsmith.model.task import Reads
from bertsmith.packing import Packing, Watch

_NUMPY = {torch.float32: "<f4", torch.float16: "<f2", torch.bfloat16: "<i2"}  # bfloat16: its bits
_NOT_COMPUTED_WITH = (
    "vocab_size", "pad_token_id", "initializer_range", "hidden_dropout_prob",
    "attention_probs_dropout_prob", "tie_word_embeddings", "layer_kind",
)  # fmt: skip
"""Fields of a config that change no hidden state, or none beside the weights themselves."""


@dataclass(frozen=True)
class HiddenStore:
    """Some layers of one encoder for one list of sequences."""

    directory: Path
    """Where the files are, or will be."""
    reads: Reads
    numbers: tuple[int, ...]
    """The layers, 0 the embeddings."""
    lengths: IntArray
    """(N,) rows of each sequence."""
    hidden_size: int
    dtype: torch.dtype
    """As the encoder computes them, so they are kept."""

    @property
    def num_bytes(self) -> int:
        """Of one layer."""
        return int(self.lengths.sum()) * self.hidden_size * self.dtype.itemsize

    def missing(self) -> tuple[int, ...]:
        """The layers that have no file yet, the lowest first."""
        return tuple(sorted({each for each in self.numbers if not self._path(each).is_file()}))

    def fill(
        self,
        bert: Bert,
        packing: Packing,
        items: Sequence[Item],
        watch: Watch,
        about: Mapping[str, object],
    ) -> None:
        """Reads the sequences once and writes what is missing, each file whole or not at all.

        `about` is kept beside them, for whoever finds the directory. Raises InUseError while
        another process fills it.
        """
        if not self.missing():
            return
        with lock(self.directory / ".lock"), contextlib.ExitStack() as stack:
            remove_leftovers(self.directory)
            missing = self.missing()
            write_json(self.directory / "about.json", about)
            shape = (int(self.lengths.sum()), self.hidden_size)
            files = [
                _RowsFile(stack.enter_context(atomic_file(self._path(each))), shape, self.dtype)
                for each in missing
            ]
            starts, turn = starts_of(self.lengths), threading.Lock()

            def write(numbers: list[int], packed: PackedBatch) -> list[None]:
                stream = Stream.of(packed, device=packing.device)
                # Every layer whole: how its bits come about must not depend on what else is asked.
                states = bert.chosen_states(stream, missing)
                kept = [
                    torch.split(each.cpu(), self.lengths[numbers].tolist())
                    for each in reduced_states(bert, stream, states, self.reads)
                ]
                with turn:
                    for file, parts in zip(files, kept, strict=True):
                        for number, part in zip(numbers, parts, strict=True):
                            file.write(int(starts[number]), part)
                return [None] * len(numbers)

            packing.in_order(items, write, watch)

    def read(self, numbers: IntArray, device: torch.device) -> tuple[Tensor, ...]:
        """Of each layer the rows of these sequences, end to end."""
        rows = [slice(start, start + length) for start, length in self._places(numbers)]
        return tuple(
            _tensor(np.concatenate([array[each] for each in rows]), self.dtype).to(device)
            for array in self._arrays
        )

    def blank(self) -> BlankStates:
        """As many zeros as there will be numbers."""
        return BlankStates(self)

    def _places(self, numbers: IntArray) -> Iterator[tuple[int, int]]:
        return zip(self._starts[numbers].tolist(), self.lengths[numbers].tolist(), strict=True)

    @cached_property
    def _starts(self) -> IntArray:
        return starts_of(self.lengths)

    @cached_property
    def _arrays(self) -> list[npt.NDArray[np.generic]]:
        """Mapped into memory. Raises ValueError for a file of another shape than expected."""
        expected = (int(self.lengths.sum()), self.hidden_size)
        arrays = []
        for path in map(self._path, self.numbers):
            try:
                array = np.load(path, mmap_mode="r")
            except ValueError as error:
                raise ValueError(f"{path} is damaged ({error}): delete it") from error
            if array.shape != expected or array.dtype != np.dtype(_NUMPY[self.dtype]):
                found = f"{array.shape} of {array.dtype}"
                raise ValueError(f"{path} is damaged ({found}, expected {expected}): delete it")
            arrays.append(array)
        return arrays

    def _path(self, number: int) -> Path:
        return self.directory / f"{self.reads}-{number:02}.npy"


@dataclass(frozen=True)
class BlankStates:
    """Zeros in the shapes of what a store holds: enough to measure what learning from it costs."""

    store: HiddenStore

    def read(self, numbers: IntArray, device: torch.device) -> tuple[Tensor, ...]:
        """As `HiddenStore.read`."""
        shape = (int(self.store.lengths[numbers].sum()), self.store.hidden_size)
        zeros = torch.zeros(shape, dtype=self.store.dtype, device=device)
        return (zeros,) * len(self.store.numbers)


class _RowsFile:
    """An .npy file whose rows are written in any order.

    Not through a memory map: there a full disk would end the process without a word.
    """

    def __init__(self, file: IO[bytes], shape: tuple[int, int], dtype: torch.dtype) -> None:
        header = {"descr": _NUMPY[dtype], "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        self._file, self._start = file, file.tell()
        self._row_bytes = shape[1] * dtype.itemsize

    def write(self, row: int, rows: Tensor) -> None:
        self._file.seek(self._start + row * self._row_bytes)
        bits = rows.view(torch.int16) if rows.dtype == torch.bfloat16 else rows
        self._file.write(bits.contiguous().numpy().tobytes())


def key_of(encoder: str, items: Sequence[Item], numbers: str, machine: Mapping[str, str]) -> str:
    """The name of a directory: of the encoder, the sequences, and what else the bits depend on."""
    digest = hashlib.sha256(encoder.encode())
    digest.update(json.dumps([numbers, dict(machine)]).encode())
    digest.update(np.array([len(item.token_ids) for item in items], np.int64).tobytes())
    for item in items:
        digest.update(np.ascontiguousarray(item.token_ids).tobytes())
        digest.update(np.ascontiguousarray(item.segment_ids).tobytes())
    return digest.hexdigest()[:24]


def encoder_fingerprint(bert: Bert) -> str:
    """SHA-256 of all that decides its hidden states: weights in float32, and how they are used."""
    config = asdict(bert.config)
    used = {name: config[name] for name in sorted(config) if name not in _NOT_COMPUTED_WITH}
    digest = hashlib.sha256(json.dumps(used).encode())
    for name, weight in sorted(bert.state_dict().items()):
        if not name.startswith("pooler."):
            digest.update(name.encode())
            digest.update(weight.float().contiguous().cpu().numpy().tobytes())
    return digest.hexdigest()


def _tensor(array: npt.NDArray[np.generic], dtype: torch.dtype) -> Tensor:
    tensor = torch.from_numpy(array)
    return tensor.view(dtype) if dtype == torch.bfloat16 else tensor
