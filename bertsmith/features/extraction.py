"""Texts -> their vectors, in their order, some at a time.

However long the input, what is held at once is bounded: texts are read ahead by their characters,
and computed by the size of their vectors. Only a single text is never parted. It knows neither
files nor formats.

Legend: T tokens of a batch, R rows kept, N sequences, W width of a token's vector, P poolings, D
width of a text's vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertsmith.batch import IntArray, PackedBatch
from bertsmith.data.items import Item
from bertsmith.data.windows import Window, kept_rows, rows_before, windows_of
from bertsmith.features.plan import DType, FeaturePlan
from bertsmith.features.vectors import Text, TextVectors
from bertsmith.features.words import pool_words, text_vectors, word_spans
from bertsmith.model.finite import finite
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.pooling import Dense, pool_sentences
from bertsmith.model.sentence import SentenceConfig
from bertsmith.model.stream import Stream
from bertsmith.text.rules import NUM_SPECIAL
from bertsmith.text.tokenizer import Encoding, Tokenizer

Answer = TypeVar("Answer")

TEXTS_AT_ONCE, CHARACTERS_AT_ONCE = 4096, 1 << 21
"""Tokenised together."""
VECTOR_BYTES_AT_ONCE = 1 << 27
"""Computed together, in float32. Some thousand tokens even for BASE's 13 layers side by side."""

DTYPES: dict[DType, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


class Reader(Protocol):
    """A model that reads items, as `inference.Predictor` is one."""

    @property
    def model(self) -> PretrainModel:
        """In evaluation mode."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Its own."""

    @property
    def limit(self) -> int:
        """The longest sequence it reads."""

    @property
    def sentence(self) -> SentenceConfig:
        """How it makes one vector of a text."""

    @property
    def dense(self) -> Dense | None:
        """The layer that `sentence` names."""

    def in_order(
        self,
        items: Sequence[Item],
        answer: Callable[[list[int], PackedBatch], Sequence[Answer]],
    ) -> list[Answer]:
        """Calls `answer` with batches of `items`, and gives its answers in items' order."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A text, encoded without special tokens, and the windows in which it is read."""

    text: Text
    """As the input has it."""
    encoding: Encoding
    """Of the whole text."""
    windows: list[Window]
    """What is read of it."""

    @property
    def num_read(self) -> int:
        """Tokens read, special ones not counted."""
        return self.windows[-1].end


def readings_of(
    texts: Iterable[Text], reader: Reader, plan: FeaturePlan
) -> Iterator[list[Reading]]:
    """Lists of texts whose vectors are to be computed together; every text once, in order.

    Raises ValueError at the first list for a plan that does not fit the model.
    """
    config, own = reader.model.config, reader.sentence
    if plan.per == "text":
        plan.sentence(own).require_context(config.direction)
    width = plan.width(config.num_hidden_layers, config.hidden_size, own)
    if plan.per == "text" and (dense := plan.sentence(own).dense) is not None:
        width = max(width, dense.in_features)
    limit = plan.limit(reader.limit, own)
    step = plan.step(limit)
    for group in _tokenised_together(texts):
        encodings = reader.tokenizer.encode_batch(
            [text.text for text in group], add_special_tokens=False
        )
        readings = [
            Reading(
                text=text,
                encoding=encoding,
                windows=windows_of(len(encoding.ids), limit - NUM_SPECIAL, step),
            )
            for text, encoding in zip(group, encodings, strict=True)
        ]
        yield from _computed_together(readings, plan, VECTOR_BYTES_AT_ONCE // (4 * width))


def vectors_of(chunk: Sequence[Reading], reader: Reader, plan: FeaturePlan) -> list[TextVectors]:
    """The texts of one list with their vectors.

    Raises ValueError for vectors that are no finite numbers, or that float16 cannot hold.
    """
    found = _found(chunk, reader, plan)
    if plan.per == "text":
        num_rows = [[window.num_kept for window in reading.windows] for reading in chunk]
        config = plan.sentence(reader.sentence)
        vectors = text_vectors(found, num_rows, config, reader.dense)
        found = [[vector[None]] for vector in vectors]  # (1, D)
    return [
        _finished(reading, parts, reader, plan) for reading, parts in zip(chunk, found, strict=True)
    ]


def _found(chunk: Sequence[Reading], reader: Reader, plan: FeaturePlan) -> list[list[Tensor]]:
    """For each text what its windows give: the rows kept, (n, W), or these pooled, (P * W,)."""
    bert, tokenizer = reader.model.bert, reader.tokenizer
    device = bert.device
    windows = [window for reading in chunk for window in reading.windows]
    num_before = [rows for reading in chunk for rows in rows_before(reading.windows)]
    items = [
        window.item(reading.encoding.ids, tokenizer.cls_id, tokenizer.sep_id)
        for reading in chunk
        for window in reading.windows
    ]

    def answer(numbers: list[int], packed: PackedBatch) -> Sequence[Tensor]:
        stream = Stream.of(packed, device=device)
        hidden = plan.choice.joined(bert.hidden_states(stream))  # (T, W)
        rows = kept_rows([windows[number] for number in numbers], packed.starts)
        lengths = [windows[number].num_kept for number in numbers]
        if len(rows) < packed.num_tokens:
            hidden = hidden.index_select(0, torch.from_numpy(rows).to(device))  # (R, W)
            stream = Stream.of(_selected(packed, rows, lengths), device=device)
        if plan.per != "text":
            return list(torch.split(hidden.cpu(), lengths))  # N of (n, W)
        poolings = plan.sentence(reader.sentence).pooling
        before = [num_before[number] for number in numbers]
        return list(pool_sentences(hidden, stream, poolings, before).cpu())  # N of (P * W,)

    found = iter(reader.in_order(items, answer))
    return [[next(found) for _ in reading.windows] for reading in chunk]


def _tokenised_together(texts: Iterable[Text]) -> Iterator[list[Text]]:
    group: list[Text] = []
    characters = 0
    for text in texts:
        group.append(text)
        characters += len(text.text)
        if len(group) == TEXTS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _computed_together(
    readings: Sequence[Reading], plan: FeaturePlan, rows_at_once: int
) -> Iterator[list[Reading]]:
    """Runs of texts that have at most so many vectors, or one text."""
    chunk: list[Reading] = []
    rows = 0
    for reading in readings:
        own = len(reading.windows) if plan.per == "text" else reading.num_read + NUM_SPECIAL
        if chunk and rows + own > rows_at_once:
            yield chunk
            chunk, rows = [], 0
        chunk.append(reading)
        rows += own
    if chunk:
        yield chunk


def _finished(
    reading: Reading, found: list[Tensor], reader: Reader, plan: FeaturePlan
) -> TextVectors:
    """Joins what was found in a text's windows, and names what each vector stands for."""
    read = slice(0, reading.num_read)
    ids, words = reading.encoding.ids[read], reading.encoding.words[read]
    spans: IntArray = reading.encoding.spans[read]
    pieces: tuple[str, ...] = ()
    token_ids: IntArray = ids[:0]
    if plan.per == "token":
        tokenizer = reader.tokenizer
        vectors = torch.cat(found)  # (n, W)
        token_ids = np.concatenate([[tokenizer.cls_id], ids, [tokenizer.sep_id]]).astype(np.int32)
        spans = np.pad(spans, ((1, 1), (0, 0)))
        pieces = tuple(tokenizer.vocabulary[id] for id in token_ids.tolist())
    elif plan.per == "word":
        vectors = pool_words(torch.cat(found)[1:-1], words, plan.word_pooling)  # (m, W)
        spans = word_spans(spans, words)
        pieces = tuple(reading.text.text[start:end] for start, end in spans.tolist())
    else:
        (vectors,) = found  # (1, D)
        spans = spans[:0]
    return TextVectors(
        text=reading.text,
        vectors=_cast(finite(vectors, "vectors"), plan.dtype, reading.text.id),
        pieces=pieces,
        token_ids=token_ids,
        spans=spans,
        num_tokens=reading.num_read,
        num_unread=len(reading.encoding.ids) - reading.num_read,
        num_windows=len(reading.windows),
    )


def _cast(vectors: Tensor, dtype: DType, id: str) -> npt.NDArray[np.generic]:
    cast = vectors.to(DTYPES[dtype])
    if dtype == "float16" and bool(cast.isinf().any()):
        raise ValueError(
            f"text {id!r} has vectors beyond float16's largest number, 65,504: choose float32"
        )
    found: npt.NDArray[np.generic] = (
        cast.view(torch.int16).numpy().view(np.uint16) if dtype == "bfloat16" else cast.numpy()
    )
    return found


def _selected(packed: PackedBatch, rows: IntArray, lengths: list[int]) -> PackedBatch:
    """The batch of the rows kept, as pooling reads it."""
    return PackedBatch(
        token_ids=packed.token_ids[rows],
        segment_ids=packed.segment_ids[rows],
        lengths=np.array(lengths, dtype=np.int32),
        keys=packed.keys,
    )
