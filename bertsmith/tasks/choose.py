"""Questions with choices -> a sequence for each choice; their scores -> the likeliest choice.

Every choice is read behind the text that they share, and the softmax goes over the choices of one
question, however many it has.

Source: Devlin et al. 2018, section 4.4 (SWAG).

Legend: K choices of a question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertsmith.data.items import two_texts
from bertsmith.data.labelled import LabelledItems
from bertsmith.reading.counted import counted
from bertsmith.tasks import metrics
from bertsmith.tasks.metrics import Scorer
from bertsmith.text.tokenizer import Tokenizer

FloatArray = npt.NDArray[np.floating]

_FEWEST_CHOICES = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceExample:
    """A text and what may follow it, or answer it."""

    text: str
    """What all choices share (SWAG: the first sentence)."""
    choices: tuple[str, ...]
    """Two at least (SWAG: four, each the begun second sentence with an ending)."""
    label: int | None
    """The number of the right one; None: unknown."""
    place: str
    """`file:line`."""


@dataclass(frozen=True, kw_only=True)
class ChoiceAnswer:
    """What a model chooses."""

    choice: int
    """The number of the likeliest."""
    probabilities: tuple[float, ...]
    """(K,) of each."""


def encode(
    examples: Sequence[ChoiceExample], tokenizer: Tokenizer, max_tokens: int
) -> LabelledItems:
    """`[CLS] text [SEP] choice [SEP]` for every choice; the target is 1 at the right one.

    Raises ValueError, with the place, for a question of fewer than two choices, a text or choice
    without a word, and a label that is none of the choices.
    """
    for example in examples:
        _check(example)
    texts = [text for each in examples for text in (each.text, *each.choices)]
    encodings = iter(tokenizer.encode_batch(texts, add_special_tokens=False))
    items, targets = [], []
    for example in examples:
        shared = next(encodings).ids
        for number, choice in enumerate(example.choices):
            ids = next(encodings).ids
            if not len(ids) or not len(shared):
                empty = choice if len(shared) else example.text
                raise ValueError(f"{example.place}: no word in the text {empty!r:.60}")
            cls, sep = tokenizer.cls_id, tokenizer.sep_id
            items.append(two_texts(shared, ids, limit=max_tokens, cls_id=cls, sep_id=sep))
            targets.append(np.array([float(number == example.label)], np.float32))
    has_labels = all(example.label is not None for example in examples)
    counts = [len(example.choices) for example in examples]
    return LabelledItems(
        items=items,
        groups=np.repeat(np.arange(len(examples)), counts),
        rows=None,
        targets=targets if has_labels else [],
    )


def decode(examples: Sequence[ChoiceExample], scores: Sequence[FloatArray]) -> list[ChoiceAnswer]:
    """The choice of every question, of each item's one score."""
    flat = np.array([float(score[0]) for score in scores])
    borders = np.cumsum([len(example.choices) for example in examples])[:-1]
    return [_answer(of_question) for of_question in np.split(flat, borders)]


def scorer(examples: Sequence[ChoiceExample], answers: Sequence[ChoiceAnswer]) -> Scorer:
    """Gives `accuracy`. Raises ValueError, with the place, for a question without a label."""
    gold = np.array([_label(example) for example in examples])
    found = np.array([answer.choice for answer in answers])
    return lambda numbers: {"accuracy": metrics.accuracy(found[numbers], gold[numbers])}


def _label(example: ChoiceExample) -> int:
    if example.label is None:
        raise ValueError(f"{example.place}: no label")
    return example.label


def _check(example: ChoiceExample) -> None:
    count = len(example.choices)
    if count < _FEWEST_CHOICES:
        told = counted(count, "choice")
        raise ValueError(f"{example.place}: {told}, expected at least {_FEWEST_CHOICES}")
    if example.label is not None and not 0 <= example.label < count:
        raise ValueError(
            f"{example.place}: label {example.label} is none of the {count} choices, counted from 0"
        )


def _answer(scores: FloatArray) -> ChoiceAnswer:
    powers = np.exp(scores - scores.max())
    return ChoiceAnswer(
        choice=int(scores.argmax()), probabilities=tuple((powers / powers.sum()).tolist())
    )
