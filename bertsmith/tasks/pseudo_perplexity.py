"""Texts -> how well a language model foretells their tokens: pseudo-perplexity, or perplexity.

A model that reads both sides is asked for each token in turn, with that token masked and all the
others in view: n tokens are n sequences. A model that reads one side foretells every token from
those before it (or behind it) in one sequence, and what comes out is the ordinary perplexity.
Nothing is cut: of a text longer than the model, each token is asked for inside a window around it.

Source: Salazar et al. 2020, Masked Language Model Scoring (pseudo-log-likelihood and PPPL).

Legend: n tokens of a text, M tokens asked for in a stream, m in one window, H hidden size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bertsmith.batch import IntArray
from bertsmith.data.items import Item
from bertsmith.model.config import Direction
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream, tensors
from bertsmith.tasks import language_model
from bertsmith.tasks.given import require_token
from bertsmith.text.tokenizer import Tokenizer

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One text, its tokens without special ones around them."""

    text: str
    """As it was given."""
    token_ids: IntArray
    """(n,) rows of the vocabulary."""
    tokens: tuple[str, ...]
    """As the vocabulary writes them."""
    spans: IntArray
    """(n, 2) each token's characters in the text, half-open."""
    num_unknown: int
    """Tokens that are the vocabulary's `[UNK]`: they hide what stands there."""
    is_windowed: bool
    """Whether the text is longer than the model, so that no token had all of it in view."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """One sequence, and which of its tokens are asked for."""

    item: Item
    """The model's input."""
    rows: IntArray
    """(m,) rows of the sequence whose hidden states foretell a token."""
    token_ids: IntArray
    """(m,) these tokens, in the order of the text."""


@dataclass(frozen=True, kw_only=True)
class ScoredText:
    """How a model foretells one text."""

    question: Question
    """What was asked."""
    log_likelihoods: FloatArray
    """(n,) natural logarithm of each token's probability, given what the model saw around it."""

    @property
    def log_likelihood(self) -> float:
        """Their sum: the text's pseudo-log-likelihood."""
        return float(self.log_likelihoods.sum(dtype=np.float64))

    @property
    def perplexity(self) -> float:
        """The number of equally likely tokens that would be as hard to foretell, on average."""
        return math.exp(-self.log_likelihood / len(self.log_likelihoods))


def encode(texts: Sequence[str], tokenizer: Tokenizer, limit: int) -> list[Question]:
    """Texts -> their tokens. Raises ValueError for a text without one."""
    encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    questions = [
        Question(
            text=text,
            token_ids=encoding.ids,
            tokens=tuple(map(tokenizer.token_of, encoding.ids.tolist())),
            spans=encoding.spans,
            num_unknown=int((encoding.ids == tokenizer.unk_id).sum()),
            is_windowed=len(encoding.ids) > limit - 2,
        )
        for text, encoding in zip(texts, encodings, strict=True)
    ]
    for number, question in enumerate(questions, start=1):
        place = f"text {number}: " if len(questions) > 1 else ""
        require_token(question.text, len(question.tokens), place)
    return questions


def windows(
    questions: Iterable[Question], tokenizer: Tokenizer, limit: int, direction: Direction
) -> Iterator[Window]:
    """Every sequence of at most `limit` tokens that the texts need, in the order of the texts.

    Together they ask for every token of every text once, also in order.
    """
    of_one = _masked if direction == "bidirectional" else _foretold
    for question in questions:
        yield from of_one(question.token_ids, tokenizer, limit - 2, direction)


def chunks(windows: Iterable[Window], num_tokens: int) -> Iterator[list[Window]]:
    """Windows in lists of about `num_tokens` tokens, so that few exist at once."""
    chunk: list[Window] = []
    total = 0
    for window in windows:
        chunk.append(window)
        total += len(window.item.token_ids)
        if total >= num_tokens:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def answers(
    model: PretrainModel,
    tokenizer: Tokenizer,
    windows: Sequence[Window],
    numbers: Sequence[int],
    stream: Stream,
) -> list[FloatArray]:
    """For each sequence of the stream, `numbers` among the windows: (m,) log-likelihoods."""
    asked = [windows[number] for number in numbers]
    rows = language_model.stream_rows(stream, [window.rows for window in asked])  # (M,)
    targets = np.concatenate([window.token_ids for window in asked])  # (M,)
    (token_ids,) = tensors((targets,), stream.token_ids.device)  # (M,)
    counts = [len(window.rows) for window in asked]
    hidden = model.bert(stream, rows)  # (M, H)
    found = language_model.log_likelihoods(model, hidden, token_ids, tokenizer.vocab_size)  # (M,)
    return np.split(found.float().cpu().numpy(), np.cumsum(counts)[:-1])


def scored(questions: Sequence[Question], answers: Sequence[FloatArray]) -> list[ScoredText]:
    """The answers to all windows, in order, given back to their texts."""
    if not questions:
        return []
    lengths = [len(question.tokens) for question in questions]
    values = np.split(np.concatenate(answers), np.cumsum(lengths)[:-1])
    return [
        ScoredText(question=question, log_likelihoods=of_one)
        for question, of_one in zip(questions, values, strict=True)
    ]


def _masked(ids: IntArray, tokenizer: Tokenizer, capacity: int, _: Direction) -> Iterator[Window]:
    """For each token a sequence with that token masked, and as much before it as behind it."""
    segments = np.zeros(min(len(ids), capacity) + 2, np.int32)
    for place in range(len(ids)):
        start = max(0, min(place - capacity // 2, len(ids) - capacity))
        token_ids = _sequence(ids[start : start + capacity], tokenizer)
        row = place - start + 1
        token_ids[row] = tokenizer.mask_id
        yield Window(
            item=Item(token_ids=token_ids, segment_ids=segments, num_unread=0),
            rows=np.array([row]),
            token_ids=ids[place : place + 1],
        )


def _foretold(
    ids: IntArray, tokenizer: Tokenizer, capacity: int, direction: Direction
) -> Iterator[Window]:
    """Sequences whose every token is asked for; of the later ones half is there for context."""
    edges = [*range(capacity, len(ids), capacity - capacity // 2)]
    edges = [0, *edges, len(ids)]
    forwards = direction == "left_to_right"
    if not forwards:  # the same from the other end
        edges = [len(ids) - edge for edge in reversed(edges)]
    for asked_start, asked_end in pairwise(edges):
        start = asked_start if not forwards else max(0, asked_end - capacity)
        body = ids[start : min(len(ids), start + capacity)]
        # A token stands at its place + 1, behind [CLS]; the state before or behind it foretells it.
        rows = np.arange(asked_start, asked_end) - start + (0 if forwards else 2)
        yield Window(
            item=Item(
                token_ids=_sequence(body, tokenizer),
                segment_ids=np.zeros(len(body) + 2, np.int32),
                num_unread=0,
            ),
            rows=rows,
            token_ids=ids[asked_start:asked_end],
        )


def _sequence(body: IntArray, tokenizer: Tokenizer) -> IntArray:
    return np.concatenate([[tokenizer.cls_id], body, [tokenizer.sep_id]]).astype(np.int32)
