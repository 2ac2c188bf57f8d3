"""Questions about passages -> windows to read, and the rows of the answer's first and last token.

A passage too long for the model is read in windows. In SQuAD 2.0 the span of `[CLS]` alone says: no
answer. What is made of a model's scores stands in `squad_answers`.

Source: Devlin et al. 2018, sections 4.2 and 4.3; google-research/bert run_squad.py,
convert_examples_to_features.

Legend: P tokens of the passage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertsmith.batch import IntArray
from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems
from bertsmith.data.windows import Window, windows_of
from bertsmith.reading.counted import counted
from bertsmith.reading.squad_json import Question
from bertsmith.text.encoding import Encoding
from bertsmith.text.tokenizer import Tokenizer

_NO_ANSWER = np.zeros(2, dtype=np.int64)
"""The row of `[CLS]`, as start and end."""
_NUM_SPECIAL = 3
"""Special tokens of a window: `[CLS]`, and `[SEP]` after the question and after the passage."""


@dataclass(frozen=True, kw_only=True)
class SquadConfig:
    """How passages are read and answers chosen."""

    max_tokens: int = 384
    """The longest window, question and special tokens included (paper's code: 384)."""
    doc_stride: int = 128
    """Tokens from one window's start to the next one's: the step (paper's code: 128)."""
    max_question_tokens: int = 64
    """The end of a longer question is not read, and counted (paper's code: 64)."""
    max_answer_tokens: int = 30
    """The longest answer (paper's code: 30)."""
    num_best: int = 20
    """Answers that are listed beside the best one (paper's code: 20)."""
    with_null: bool = False
    """Whether a question may have no answer, as in SQuAD 2.0."""
    null_threshold: float = 0.0
    """No answer is given where its score beats the best answer's by more (chosen on Dev)."""

    def __post_init__(self) -> None:
        """Refuses windows that could not move or hold nothing of a passage."""
        for name in ("doc_stride", "max_question_tokens", "max_answer_tokens", "num_best"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, found {getattr(self, name)}")
        room = self.max_tokens - self.max_question_tokens - _NUM_SPECIAL
        if room < 1:
            least = self.max_question_tokens + _NUM_SPECIAL + 1
            raise ValueError(
                f"max_tokens {self.max_tokens} is too small for questions of up to "
                f"{self.max_question_tokens} tokens (max_question_tokens): beside the longest one "
                f"and {_NUM_SPECIAL} special tokens nothing of a passage can be read; make "
                f"max_tokens at least {least}, or max_question_tokens smaller"
            )
        if self.doc_stride > room:
            raise ValueError(
                f"doc_stride must be at most {room}, the tokens of a passage beside the longest "
                f"question in max_tokens {self.max_tokens}; found {self.doc_stride}: what lies "
                f"between two windows would not be read"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class PassageWindow:
    """What one item holds of a passage."""

    question: int
    """The number of the question it is of."""
    offset: int
    """The item's row of the window's first token."""
    window: Window
    """The tokens of the passage."""


@dataclass(frozen=True, kw_only=True)
class EncodedQuestions:
    """Questions as a model reads them."""

    labelled: LabelledItems
    """A window an item; its targets are the rows of the answer's first and last token."""
    windows: Sequence[PassageWindow]
    """Of each item."""
    spans: Sequence[IntArray]
    """Of each question: (P, 2) the characters of its passage's tokens."""
    num_unread: Sequence[int]
    """Of each question: tokens at its own end that are not read."""
    num_without_word: int
    """Questions of which nothing can be read."""
    unheld: Sequence[str]
    """Ids of the questions whose answer, the one that is the target, no window holds whole."""
    with_null: bool
    """Whether the target of such a question says that it has no answer."""

    @property
    def num_cut_questions(self) -> int:
        """Questions whose end is not read."""
        return sum(count > 0 for count in self.num_unread)

    @property
    def notes(self) -> tuple[str, ...]:
        """How many questions are cut, have nothing to read, have an answer that no window holds."""
        told = (
            (self.num_cut_questions, "longer than max_question_tokens: the end is not read"),
            (self.num_without_word, "without a word: the passage alone is read"),
            (len(self.unheld), self._unheld_told()),
        )
        return tuple(
            f"{counted(count, 'question')} of {len(self.spans):,} {what}"
            for count, what in told
            if count
        )

    def _unheld_told(self) -> str:
        """What becomes of such questions, the first one named."""
        if not self.unheld:
            return ""
        learned = "to have no answer" if self.with_null else "to point at [CLS], which is no answer"
        return (
            f"({self.unheld[0]!r} first) with an answer that no window holds whole: where they are "
            f"learned, every window is taught {learned}; where they are scored, they count; a "
            f"larger max_tokens or a smaller doc_stride may hold them"
        )


def encode(
    questions: Sequence[Question], tokenizer: Tokenizer, config: SquadConfig
) -> EncodedQuestions:
    """Windows of `[CLS] question [SEP] passage [SEP]`, each question's one after the other.

    Of a question with several answers the first is the target; a window that does not hold all of
    it has the target `[CLS]`; where no window of a question does, that is told. Of a question
    without a token the passage alone is read, which is counted: an evaluator counts it too.
    """
    asked = tokenizer.encode_batch([each.question for each in questions], add_special_tokens=False)
    passages = _passages(questions, tokenizer)
    items: list[Item] = []
    windows: list[PassageWindow] = []
    targets: list[IntArray] = []
    unheld: list[str] = []
    for number, (question, encoding) in enumerate(zip(questions, asked, strict=True)):
        ids = encoding.ids[: config.max_question_tokens]
        passage = passages[question.passage]
        answer = _token_range(question, passage)
        offset = len(ids) + 2
        capacity = config.max_tokens - offset - 1
        num_before = len(targets)
        for window in windows_of(len(passage.ids), capacity, config.doc_stride):
            items.append(_item(ids, passage.ids[window.start : window.end], tokenizer))
            windows.append(PassageWindow(question=number, offset=offset, window=window))
            targets.append(_target(answer, window, offset))
        of_question = targets[num_before:]
        if question.answers and all(each is _NO_ANSWER for each in of_question):
            unheld.append(question.key)
    return EncodedQuestions(
        labelled=LabelledItems(
            items=items, groups=np.arange(len(items)), rows=None, targets=targets
        ),
        windows=windows,
        spans=[passages[question.passage].spans for question in questions],
        num_without_word=sum(not len(each.ids) for each in asked),
        unheld=unheld,
        with_null=config.with_null,
        num_unread=[max(0, len(each.ids) - config.max_question_tokens) for each in asked],
    )


def _passages(questions: Sequence[Question], tokenizer: Tokenizer) -> dict[str, Encoding]:
    texts = list(dict.fromkeys(question.passage for question in questions))
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    return dict(zip(texts, encodings, strict=True))


def _item(question: IntArray, passage: IntArray, tokenizer: Tokenizer) -> Item:
    cls, sep = [tokenizer.cls_id], [tokenizer.sep_id]
    ids = np.concatenate([cls, question, sep, passage, sep]).astype(np.int32)
    segments = np.repeat(np.array([0, 1], np.int32), [len(question) + 2, len(passage) + 1])
    return Item(token_ids=ids, segment_ids=segments, num_unread=0)


def _token_range(question: Question, passage: Encoding) -> tuple[int, int] | None:
    """The first and the last token of the first answer; None without one."""
    if not question.answers:
        return None
    answer = question.answers[0]
    starts, ends = passage.spans[:, 0], passage.spans[:, 1]
    first = int(np.searchsorted(ends, answer.start, side="right"))
    last = int(np.searchsorted(starts, answer.start + len(answer.text), side="left")) - 1
    return (first, last) if first <= last else None


def _target(answer: tuple[int, int] | None, window: Window, offset: int) -> IntArray:
    if answer is None or answer[0] < window.start or answer[1] >= window.end:
        return _NO_ANSWER
    return np.array(answer, dtype=np.int64) - window.start + offset
