"""Texts with `[MASK]` -> sequences to read, and what a model answers about their masks.

It does not know how sequences are laid into batches.

Source: Devlin et al. 2018, section 3.1 (the masked language model).

Legend: M masks, m masks of a slice or a window, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bertsmith.batch import IntArray
from bertsmith.data.items import Item, around, one_text
from bertsmith.model.finite import finite
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.tasks import language_model
from bertsmith.tasks.given import short
from bertsmith.text.rules import NUM_SPECIAL
from bertsmith.text.tokenizer import Encoding, Tokenizer


@dataclass(frozen=True, kw_only=True)
class Window:
    """One sequence, and which of its masks are asked about."""

    item: Item
    """The model's input."""
    rows: IntArray
    """(m,) rows of the sequence where these masks stand, in the order of the text."""


@dataclass(frozen=True, kw_only=True)
class MaskedText:
    """One text, ready to be read."""

    text: str
    """As it was given."""
    windows: tuple[Window, ...]
    """What is read of it, in its order; together they ask about every mask once."""
    mask_spans: tuple[tuple[int, int], ...]
    """For every mask: its characters' start and end in the text."""
    num_unread: int
    """Tokens that are in no window."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A token that may stand at a mask."""

    token: str
    """As the vocabulary writes it: `##s` goes on with the word before it."""
    token_id: int
    """Its row."""
    probability: float
    """Among the whole vocabulary."""


Masks = tuple[tuple[Candidate, ...], ...]


@dataclass(frozen=True, kw_only=True)
class FilledText:
    """What a model thinks of the masks of one text."""

    question: MaskedText
    """What was asked."""
    masks: Masks
    """For every mask in the order of the text: its candidates, likeliest first."""

    @property
    def num_unread(self) -> int:
        """Tokens far from the masks that the model did not see, because the text was too long."""
        return self.question.num_unread

    @property
    def filled(self) -> str:
        """The text with every mask replaced by its likeliest candidate, each chosen alone."""
        text, filled, end = self.question.text, "", 0
        for (start, mask_end), candidates in zip(self.question.mask_spans, self.masks, strict=True):
            filled += text[end:start]
            token = candidates[0].token
            filled = filled.rstrip() + token[2:] if token.startswith("##") else filled + token
            end = mask_end
        return filled + text[end:]


def encode(texts: Sequence[str], tokenizer: Tokenizer, limit: int) -> list[MaskedText]:
    """Texts -> sequences of at most `limit` tokens; special tokens in the texts count as such here.

    Of a longer text what lies around its masks is read, and the rest counted. Masks within half a
    sequence of one another are read together, and those farther apart each in a window of their
    own: so every mask has a quarter of the sequence on either side, where the text has so much.
    Raises ValueError for a text without a mask.
    """
    # In every other place `[MASK]` in a text is ordinary characters; here it is the question.
    encodings = tokenizer.encode_batch(
        list(texts), add_special_tokens=False, special_tokens_in_text=True
    )
    return [
        _masked_text(text, encoding, tokenizer, limit, f"text {number}: " if len(texts) > 1 else "")
        for number, (text, encoding) in enumerate(zip(texts, encodings, strict=True), start=1)
    ]


def answers(
    model: PretrainModel,
    tokenizer: Tokenizer,
    windows: Sequence[Window],
    top_k: int,
    only: Sequence[int] | None,
    numbers: Sequence[int],
    stream: Stream,
) -> list[Masks]:
    """For each sequence of the stream, `numbers` among the windows: its masks' candidates.

    They are the `top_k` likeliest tokens, or all of the tokens `only`.
    """
    asked = [windows[number].rows for number in numbers]
    rows = language_model.stream_rows(stream, asked)  # (M,)
    found = _candidates(model, model.bert(stream, rows), tokenizer, top_k, only)
    return [tuple(next(found) for _ in of_one) for of_one in asked]


def filled(questions: Sequence[MaskedText], answers: Iterable[Masks]) -> list[FilledText]:
    """The answers to all windows, in order, given back to their texts."""
    rest = iter(answers)
    return [
        FilledText(
            question=question,
            masks=tuple(mask for _ in question.windows for mask in next(rest)),
        )
        for question in questions
    ]


def _candidates(
    model: PretrainModel,
    hidden: torch.Tensor,
    tokenizer: Tokenizer,
    top_k: int,
    only: Sequence[int] | None,
) -> Iterator[tuple[Candidate, ...]]:
    """For each of (M, H) hidden states."""
    asked = None if only is None else torch.tensor(only, device=hidden.device)
    for scores in language_model.logits(model, hidden, tokenizer.vocab_size):
        probabilities = scores.softmax(dim=1)  # (m, V)
        if asked is not None:
            probabilities = probabilities[:, asked]
        width = probabilities.shape[1]
        best = probabilities.topk(width if only else min(top_k, width), dim=1)
        ids = best.indices if asked is None else asked[best.indices]
        values = finite(best.values, "probabilities")
        for of_one in zip(ids.tolist(), values.tolist(), strict=True):
            yield tuple(
                Candidate(token=tokenizer.token_of(id), token_id=id, probability=probability)
                for id, probability in zip(*of_one, strict=True)
            )


def target_ids(targets: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """The rows of words that are single tokens; one ValueError names all that are not."""
    found, faults = [], []
    for target in targets:
        known = tokenizer.id_of(target) is not None
        pieces = [target] if known else tokenizer.tokenize(target)
        token_id = tokenizer.id_of(pieces[0]) if len(pieces) == 1 else None
        if token_id is None or token_id == tokenizer.unk_id:
            faults.append(f"{target!r} (in tokens: {' '.join(pieces) or 'nothing'})")
        else:
            found.append(token_id)
    if faults:
        raise ValueError(
            f"a target must be one token of the vocabulary, but these are not: {', '.join(faults)}"
        )
    return found


def _masked_text(
    text: str, encoding: Encoding, tokenizer: Tokenizer, limit: int, place: str
) -> MaskedText:
    mask = tokenizer.token_of(tokenizer.mask_id)
    ids = encoding.ids
    places = np.flatnonzero(ids == tokenizer.mask_id)
    if not len(places):
        raise ValueError(f"{place}no {mask} in {short(text)}: write {mask} where a word is missing")
    capacity = limit - NUM_SPECIAL
    is_read = np.zeros(len(ids), np.bool_)
    windows = []
    for group in _read_together(places, len(ids), capacity):
        start, end = around((int(group[0]), int(group[-1]) + 1), len(ids), capacity)
        is_read[start:end] = True
        item = one_text(
            ids[start:end],
            limit=limit,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            keep=(0, 0),
        )
        windows.append(Window(item=item, rows=group - start + 1))  # behind [CLS]
    spans = encoding.spans[places].tolist()
    return MaskedText(
        text=text,
        windows=tuple(windows),
        mask_spans=tuple((start, end) for start, end in spans),
        num_unread=int((~is_read).sum()),
    )


def _read_together(places: IntArray, num_tokens: int, capacity: int) -> list[IntArray]:
    """The masks' places in runs, each for one window: all in one where the whole text fits."""
    if num_tokens <= capacity:
        return [places]
    runs, first = [], 0
    for number, place in enumerate(places):
        if place - places[first] >= max(1, capacity // 2):
            runs.append(places[first:number])
            first = number
    return [*runs, places[first:]]
