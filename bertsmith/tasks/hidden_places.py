"""A text or pair -> its tokens, which of them are hidden from a model, and what it reads instead.

Places are hidden as in pre-training, by `data.masking` and a seed; or because a person wrote
`[MASK]` there, or named the word. It does not know what a model says of them.

Source: Devlin et al. 2018, section 3.1 and Figure 2; appendix A.1 (`my dog is hairy`).

Legend: n tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from bertsmith.batch import IntArray
from bertsmith.data.config import Masking
from bertsmith.data.masking import VocabularyFacts, mask
from bertsmith.tasks import look
from bertsmith.tasks.given import short
from bertsmith.text.tokenizer import Tokenizer

Fate = Literal["mask", "random", "kept"]


@dataclass(frozen=True, kw_only=True)
class Hiding:
    """Which tokens are hidden. A `[MASK]` in a text or `words` take the place of the draws."""

    masking: Masking = field(default_factory=Masking)
    """How many are drawn, and what becomes of them."""
    seed: int = 0
    """Of the draws: the same seed hides the same tokens in the same way."""
    words: tuple[str, ...] = ()
    """Words of the text; all tokens of each become `[MASK]`, wherever it stands."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A token that the model is asked for."""

    row: int
    """Its position, counted from 0 at `[CLS]`."""
    token_id: int | None
    """What stands there; None where the person wrote `[MASK]`."""
    seen_id: int
    """What the model reads there."""
    fate: Fate
    """By what came out: a random token that happens to be the right one counts as kept."""


@dataclass(frozen=True, kw_only=True)
class HiddenPlaces:
    """A text or pair, and its places."""

    question: look.Question
    """The tokens as the person wrote them."""
    places: tuple[Place, ...]
    """By their rows. None where whole words are drawn and none is short enough."""
    seen_ids: IntArray
    """(n,) int32: what the model reads."""
    drawn_by: Hiding | None
    """How the places were drawn; None where the person chose them."""

    @property
    def is_pair(self) -> bool:
        """Whether there are two texts."""
        return bool(self.question.item.segment_ids[-1])

    @property
    def num_unknown(self) -> int:
        """Tokens that are `[UNK]` to the vocabulary."""
        return self.question.tokens.count("[UNK]")


def encode(sides: Sequence[str], tokenizer: Tokenizer, limit: int, hiding: Hiding) -> HiddenPlaces:
    """One text or two -> what is read of it, whole.

    Raises ValueError for texts longer than `limit` tokens, and for a word that stands in none.
    """
    typed = tokenizer.token_of(tokenizer.mask_id)
    has_masks = any(typed in side for side in sides)
    question = look.encode(sides, tokenizer, limit, special_tokens_in_text=has_masks)
    num_tokens = len(question.tokens) + question.item.num_unread
    if question.item.num_unread:
        raise ValueError(
            f"{num_tokens:,} tokens are more than the {limit:,} that the model reads: give a "
            f"shorter text, or a part of it"
        )
    if not has_masks and not hiding.words:
        return _drawn(question, tokenizer, hiding)
    rows = set(np.flatnonzero(question.item.token_ids == tokenizer.mask_id).tolist())
    typed_rows = frozenset(rows)
    for word in hiding.words:
        rows.update(_rows_of_word(word, sides, question, tokenizer))
    seen_ids = question.item.token_ids.copy()
    seen_ids[sorted(rows)] = tokenizer.mask_id
    places = [
        Place(
            row=row,
            token_id=None if row in typed_rows else int(question.item.token_ids[row]),
            seen_id=tokenizer.mask_id,
            fate="mask",
        )
        for row in sorted(rows)
    ]
    return HiddenPlaces(question=question, places=tuple(places), seen_ids=seen_ids, drawn_by=None)


def _drawn(question: look.Question, tokenizer: Tokenizer, hiding: Hiding) -> HiddenPlaces:
    """By the rule of pre-training, with this seed and 0 as the key of the example."""
    facts = VocabularyFacts(
        vocab_size=tokenizer.vocab_size,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        mask_id=tokenizer.mask_id,
        is_continuation=tokenizer.is_continuation,
    )
    ids = question.item.token_ids.astype(np.int32)
    lengths, key = np.array([len(ids)], np.int32), np.zeros(1, np.int64)
    seen_ids, rows, right_ids = mask(ids, lengths, key, hiding.masking, facts, hiding.seed)
    places = [
        Place(row=row, token_id=right, seen_id=seen, fate=_fate(seen, right, tokenizer.mask_id))
        for row, right, seen in zip(
            rows.tolist(), right_ids.tolist(), seen_ids[rows].tolist(), strict=True
        )
    ]
    return HiddenPlaces(question=question, places=tuple(places), seen_ids=seen_ids, drawn_by=hiding)


def _fate(seen: int, right: int, mask_id: int) -> Fate:
    if seen == right:
        return "kept"
    return "mask" if seen == mask_id else "random"


def _rows_of_word(
    word: str, sides: Sequence[str], question: look.Question, tokenizer: Tokenizer
) -> list[int]:
    """The rows of every token that lies in the word. Raises ValueError where it stands nowhere."""
    rows = [
        row
        for number, side in enumerate(sides)
        for start, end in _places_of_word(word, side, tokenizer)
        for row in np.flatnonzero(question.item.segment_ids == number).tolist()
        if start <= question.spans[row, 0] < question.spans[row, 1] <= end
    ]
    if not rows:
        words = dict.fromkeys(each for side in sides for each, _ in tokenizer.words(side))
        raise ValueError(
            f"no word {short(word)} to hide: the words are {', '.join(list(words)[:20])}"
            f"{', …' if len(words) > 20 else ''}"
        )
    return rows


def _places_of_word(word: str, side: str, tokenizer: Tokenizer) -> Iterator[tuple[int, int]]:
    """The characters' start and end of each place where the word, or the run of words, stands."""
    wanted = [each for each, _ in tokenizer.words(word)]
    words = tokenizer.words(side)
    spelt = [each for each, _ in words]
    for first in range(len(words) - len(wanted) + 1 if wanted else 0):
        if spelt[first : first + len(wanted)] == wanted:
            yield words[first][1][0], words[first + len(wanted) - 1][1][1]
