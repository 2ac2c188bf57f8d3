"""Texts with `[MASK]` -> sequences to read, and what a model answers about their masks.

It does not know how sequences are laid into batches.

Source: Devlin et al. 2018, section 3.1 (the masked language model).

Legend: M masks, m masks of a slice, H hidden size, V vocabulary.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from bertsmith.data.items import Item, one_text
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.tasks import language_model
from bertsmith.text.tokenizer import Encoding, Tokenizer


@dataclass(frozen=True, kw_only=True)
class MaskedText:
    """One text, ready to be read."""

    text: str
    """As it was given."""
    item: Item
    """The model's input; every mask of the text is in it."""
    mask_spans: tuple[tuple[int, int], ...]
    """For every mask: its characters' start and end in the text."""


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
        return self.question.item.num_unread

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

    Of a longer text the part around its masks is kept, and the rest counted. Raises ValueError for
    a text without a mask or with masks too far apart.
    """
    # In every other place `[MASK]` in a text is ordinary characters; here it is the question.
    rules = replace(tokenizer.config, special_tokens_in_text=True)
    reader = Tokenizer(tokenizer.vocabulary, rules)
    encodings = reader.encode_batch(list(texts), add_special_tokens=False)
    return [
        _masked_text(text, encoding, reader, limit)
        for text, encoding in zip(texts, encodings, strict=True)
    ]


def candidates(
    model: PretrainModel,
    stream: Stream,
    tokenizer: Tokenizer,
    top_k: int,
    only: Sequence[int] | None = None,
) -> Iterator[tuple[Candidate, ...]]:
    """For every mask of the stream: its `top_k` likeliest tokens, or all of the tokens `only`."""
    rows = torch.nonzero(stream.token_ids == tokenizer.mask_id).flatten()  # (M,)
    hidden = model.bert(stream, rows)  # (M, H)
    asked = None if only is None else torch.tensor(only, device=hidden.device)
    for scores in language_model.logits(model, hidden, tokenizer.vocab_size):
        probabilities = scores.softmax(dim=1)  # (m, V)
        if asked is not None:
            probabilities = probabilities[:, asked]
        width = probabilities.shape[1]
        best = probabilities.topk(width if only else min(top_k, width), dim=1)
        ids = best.indices if asked is None else asked[best.indices]
        for of_one in zip(ids.tolist(), best.values.tolist(), strict=True):
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


def _masked_text(text: str, encoding: Encoding, tokenizer: Tokenizer, limit: int) -> MaskedText:
    mask = tokenizer.token_of(tokenizer.mask_id)
    shown = textwrap.shorten(text, 60, placeholder="…")
    places = (encoding.ids == tokenizer.mask_id).nonzero()[0]
    if not len(places):
        raise ValueError(f"no {mask} in {shown!r}: write {mask} where a word is to be found")
    try:
        item = one_text(
            encoding.ids,
            limit=limit,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            keep=(int(places[0]), int(places[-1]) + 1),
        )
    except ValueError as error:
        raise ValueError(f"the masks of {shown!r} lie too far apart: {error}") from error
    spans = encoding.spans[places].tolist()
    return MaskedText(text=text, item=item, mask_spans=tuple((start, end) for start, end in spans))
