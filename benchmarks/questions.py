"""Cloze sentences in files -> questions in the tokens of one vocabulary.

A question is put as pre-training would put it: the text with an answer filled in is cut by the
model's tokenizer, and the answer's token is hidden. So an answer may be a whole word, a stem with
its particle still to come (`[MASK]에서`), or a particle (`한강[MASK]`, in the vocabulary `##은`),
wherever the vocabulary makes one token of exactly its characters; files hold plain text and no
pieces. Where it does not, or where an answer cuts the text around it differently from the first
one, the answer is left out; a question without answers is left out; both are counted. It knows no
model and no corpus.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bertsmith.batch import IntArray
from bertsmith.text.sentences import Language, split_sentences
from bertsmith.text.tokenizer import Tokenizer

KINDS = ("grammar", "collocation", "knowledge", "both_sides", "discourse")
# Tokens of a question's window, counted from the hidden one.
OFFSETS = (-2, -1, 1, 2)
_MASK = "[MASK]"


@dataclass(frozen=True, kw_only=True)
class Cloze:
    """One line of a file."""

    text: str
    answers: tuple[str, ...]
    kind: str


@dataclass(frozen=True, kw_only=True)
class Question:
    """A cloze in the tokens of one vocabulary."""

    token_ids: IntArray
    """(n,) without `[CLS]` and `[SEP]`; `[MASK]` stands at `place`."""
    place: int
    answers: frozenset[int]
    kind: str
    window: tuple[int, ...]
    """Tokens at OFFSETS in the mask's own sentence; the vocabulary's size beyond its ends."""
    num_left_out: int
    """Accepted answers that are not one token here."""


def read_clozes(path: Path) -> list[Cloze]:
    """Reads a file of clozes; raises ValueError naming the line that is none."""
    clozes = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        row = json.loads(line)
        cloze = Cloze(text=row["text"], answers=tuple(row["answers"]), kind=row["kind"])
        if cloze.text.count(_MASK) != 1 or not cloze.answers or cloze.kind not in KINDS:
            raise ValueError(
                f"{path}:{number}: expected a text with one {_MASK}, at least one answer and a "
                f"kind of {', '.join(KINDS)}; found {line}"
            )
        clozes.append(cloze)
    return clozes


def pose(cloze: Cloze, tokenizer: Tokenizer, language: Language) -> Question | None:
    """The cloze in tokens, or None when no accepted answer is one token."""
    readings = [_read(cloze.text, answer, tokenizer, language) for answer in cloze.answers]
    found = [reading for reading in readings if reading is not None]
    if not found:
        return None
    first = found[0]
    # An answer that changes how its neighbours are cut belongs to another question.
    accepted = [other for other in found if np.array_equal(other.token_ids, first.token_ids)]
    return Question(
        token_ids=first.token_ids,
        place=first.place,
        answers=frozenset(reading.answer for reading in accepted),
        kind=cloze.kind,
        window=first.window,
        num_left_out=len(cloze.answers) - len(accepted),
    )


class _Reading(NamedTuple):
    """A text with one answer's token hidden."""

    token_ids: IntArray
    place: int
    answer: int
    window: tuple[int, ...]


def _read(text: str, answer: str, tokenizer: Tokenizer, language: Language) -> _Reading | None:
    """The text with the answer filled in and its token hidden; None when it is not one token."""
    token_ids: list[int] = []
    reading = None
    for sentence in split_sentences(text, language):
        filled = tokenizer.encode(sentence.replace(_MASK, answer), add_special_tokens=False)
        ids = filled.ids.tolist()
        if _MASK in sentence:
            start = sentence.index(_MASK)
            span = (start, start + len(answer))
            places = [n for n, found in enumerate(filled.spans.tolist()) if tuple(found) == span]
            if not places or ids[places[0]] == tokenizer.unk_id:
                return None
            place = places[0]
            around = [place + offset for offset in OFFSETS]
            window = tuple(ids[n] if 0 <= n < len(ids) else tokenizer.vocab_size for n in around)
            reading = (len(token_ids) + place, ids[place], window)
            ids[place] = tokenizer.mask_id
        token_ids += ids
    assert reading is not None
    place, answer_id, window = reading
    return _Reading(np.array(token_ids, dtype=np.int32), place, answer_id, window)
