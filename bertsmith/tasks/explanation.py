"""A model and a text's hidden places -> what it says there, from both sides and from one; and more.

A model of both sides reads the text with its places hidden. Beside that it reads the same text cut
off behind each place, which is all that a left-to-right model would have seen. A model of one side
is asked for the same tokens in its own way: from those before them (or behind them), unhidden.

It does not know how any of this is drawn. Source: Devlin et al. 2018, Figures 1 to 3.

Legend: n tokens, L layers, A heads, M rows asked for in a stream, m in one view, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from bertsmith.batch import IntArray, PackedBatch
from bertsmith.data.items import Item
from bertsmith.fusion import unfused
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.block_attention import attention_probabilities
from bertsmith.model.config import BertConfig, Direction
from bertsmith.model.finite import finite
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.tasks import language_model, look, next_sentence
from bertsmith.tasks.abilities import Abilities
from bertsmith.tasks.fill_mask import Candidate
from bertsmith.tasks.hidden_places import HiddenPlaces, Place
from bertsmith.tasks.look import Look
from bertsmith.text.tokenizer import Tokenizer

BoolArray = npt.NDArray[np.bool_]
Answer = TypeVar("Answer")


class Read(Protocol):
    """What lays sequences into batches, and asks of each batch."""

    def __call__(
        self, items: Sequence[Item], answer: Callable[[list[int], Stream], Sequence[Answer]]
    ) -> list[Answer]:
        """One answer an item, in their order."""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """What a model expects at one place."""

    candidates: tuple[Candidate, ...]
    """The likeliest tokens, the likeliest first."""
    right: Candidate | None
    """What stands there; None where nobody said what."""
    rank: int | None
    """The place of `right` among all tokens, counted from 1."""


@dataclass(frozen=True, kw_only=True)
class OneSided:
    """What a model of both sides expects at a place that is `[MASK]`, and from the left alone."""

    both: Guess
    """With the words on both sides in view."""
    left: Guess
    """With the text cut off behind the place."""
    left_tokens: tuple[str, ...]
    """What it read then."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What the paper's figures draw, of one text or pair and one model."""

    config: BertConfig
    """The model's: which side it reads, and how much."""
    hidden: HiddenPlaces
    """The tokens, and which of them are hidden."""
    seen: tuple[str, ...]
    """(n,) what it reads with the places hidden."""
    guesses: tuple[Guess, ...] | None
    """What it says at each place; None without a language-model head."""
    one_sided: tuple[OneSided, ...]
    """For each place, by a model of both sides that has the head; else nothing."""
    follows: float | None
    """The probability that the second text follows the first; None for one text, or no head."""
    inside: Look | None
    """Attention and hidden states while it reads the text as it was given; None without any."""
    left_out: tuple[str, ...]
    """What this model cannot be asked, a line each."""


@dataclass(frozen=True, kw_only=True)
class View:
    """One sequence, and which tokens are asked for in it."""

    item: Item
    """The model's input."""
    rows: IntArray
    """(m,) rows whose hidden states say what they expect."""
    right_ids: tuple[int | None, ...]
    """(m,) what stands at the places asked for, where that is known."""


def views(hidden: HiddenPlaces, tokenizer: Tokenizer, direction: Direction) -> list[View]:
    """The hidden text; by a model of both sides then, of each place, both views of it."""
    places = hidden.places
    rows = np.array([place.row for place in places], np.int64)
    right_ids = tuple(place.token_id for place in places)
    if not places:
        return []
    if direction != "bidirectional":  # a token's neighbour foretells it
        shift = -1 if direction == "left_to_right" else 1
        return [View(item=hidden.question.item, rows=rows + shift, right_ids=right_ids)]
    masked = _item(hidden.seen_ids, hidden.question.item.segment_ids)
    found = [View(item=masked, rows=rows, right_ids=right_ids)]
    for place in places:
        found += _both_and_left(place, masked, tokenizer)
    return found


def guesses(
    model: PretrainModel,
    tokenizer: Tokenizer,
    asked: Sequence[View],
    top_k: int,
    numbers: Sequence[int],
    stream: Stream,
) -> list[tuple[Guess, ...]]:
    """For each sequence of the stream, `numbers` among the views: what is expected at its rows."""
    of_stream = [asked[number] for number in numbers]
    rows = language_model.stream_rows(stream, [view.rows for view in of_stream])  # (M,)
    right_ids = (right for view in of_stream for right in view.right_ids)
    slices = language_model.logits(model, model.bert(stream, rows), tokenizer.vocab_size)
    found = _guesses(slices, right_ids, tokenizer, top_k)
    return [tuple(next(found) for _ in view.rows) for view in of_stream]


def explanation(abilities: Abilities, hidden: HiddenPlaces, top_k: int, read: Read) -> Explanation:
    """All that the model can be asked about the text; `read` lays sequences into batches."""
    model, tokenizer, question = abilities.model, abilities.tokenizer, hidden.question
    asked = views(hidden, tokenizer, model.config.direction) if model.masked_lm else []
    said = read([view.item for view in asked], partial(guesses, model, tokenizer, asked, top_k))
    follows = None
    if hidden.is_pair and model.next_sentence is not None:
        (follows,) = read([question.item], lambda _, stream: next_sentence.answers(model, stream))
    inside = None
    if not look.no_attention(model.bert):
        (inside,) = read(
            [question.item], lambda _, stream: [look.answer(question, model.bert, stream)]
        )
    return Explanation(
        config=model.config,
        hidden=hidden,
        seen=_tokens(hidden.seen_ids, tokenizer),
        guesses=(said[0] if said else ()) if model.masked_lm else None,
        one_sided=tuple(
            OneSided(both=both, left=left, left_tokens=_tokens(view.item.token_ids, tokenizer))
            for (both,), (left,), view in zip(said[1::2], said[2::2], asked[2::2], strict=True)
        ),
        follows=follows,
        inside=inside,
        left_out=_left_out(model, hidden.is_pair),
    )


def visible(num_tokens: int, direction: Direction) -> BoolArray:
    """(n, n): whether a token (first) may look at another, by the attention that models compute.

    Not of two ways at once: ask of each. Where every score is equal, what may be looked at has a
    share, and all else exactly none.
    """
    assert direction != "two_way"
    ids = np.zeros(num_tokens, np.int32)
    packed = PackedBatch(
        token_ids=ids, segment_ids=ids, lengths=np.array([num_tokens]), keys=np.zeros(1, np.int64)
    )
    (block,) = Stream.of(packed).blocks
    rules = AttentionRules(num_heads=1, direction=direction, probability=0.0)
    with unfused():
        shares = attention_probabilities(torch.zeros(num_tokens, 3), block, rules)  # (1, 1, n, n)
    return shares[0, 0].numpy() > 0


def _both_and_left(place: Place, masked: Item, tokenizer: Tokenizer) -> list[View]:
    """The place as `[MASK]` among all the tokens, and with nothing but `[SEP]` behind it."""
    ids, segments, row = masked.token_ids.copy(), masked.segment_ids, place.row
    ids[row] = tokenizer.mask_id
    left = np.append(ids[: row + 1], np.int32(tokenizer.sep_id))
    rows = np.array([row])
    return [
        View(item=item, rows=rows, right_ids=(place.token_id,))
        for item in (
            _item(ids, segments),
            _item(left, np.append(segments[: row + 1], segments[row])),
        )
    ]


def _tokens(token_ids: IntArray, tokenizer: Tokenizer) -> tuple[str, ...]:
    return tuple(map(tokenizer.token_of, token_ids.tolist()))


def _item(token_ids: IntArray, segment_ids: IntArray) -> Item:
    return Item(token_ids=token_ids, segment_ids=segment_ids, num_unread=0)


def _guesses(
    slices: Iterator[torch.Tensor],
    right_ids: Iterator[int | None],
    tokenizer: Tokenizer,
    top_k: int,
) -> Iterator[Guess]:
    """One for every row of the (m, V) logits."""

    def candidate(token_id: int, probability: float) -> Candidate:
        token = tokenizer.token_of(token_id)
        return Candidate(token=token, token_id=token_id, probability=probability)

    for scores in slices:
        for row in scores.softmax(dim=1):  # (V,)
            best = finite(row, "probabilities").topk(min(top_k, len(row)))
            right = next(right_ids)
            yield Guess(
                candidates=tuple(map(candidate, best.indices.tolist(), best.values.tolist())),
                right=None if right is None else candidate(right, float(row[right])),
                rank=None if right is None else int((row > row[right]).sum()) + 1,
            )


def _left_out(model: PretrainModel, is_pair: bool) -> tuple[str, ...]:
    found = []
    if model.masked_lm is None:
        found.append("this model has no language-model head: what it expects is left out")
    if is_pair and model.next_sentence is None:
        found.append("this model has no next-sentence head: whether B follows A is left out")
    if told := look.no_attention(model.bert):
        found.append(f"{told}; it is left out")
    return tuple(found)
