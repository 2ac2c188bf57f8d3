"""Answers to questions about passages -> exact match and F1, as the official evaluators count them.

Every score is in percent, the mean over questions of the best against any gold answer. A question
without an answer is answered rightly by the empty text alone.

Source: Rajpurkar et al. 2016 and 2018, evaluate-v1.1.py and evaluate-v2.0.py; Lim et al. 2019 for
KorQuAD, whose F1 counts characters.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

SquadVersion = Literal["1.1", "2.0", "korquad"]

EVALUATORS: dict[SquadVersion, str] = {
    "1.1": "scored as SQuAD 1.1",
    "2.0": "scored as SQuAD 2.0, where no answer may be one",
    "korquad": "scored as KorQuAD, whose F1 counts characters",
}
"""Whose rules are followed, in words."""

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_KOREAN_MARKS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))

Gold = Mapping[str, Sequence[str]]
"""Question id -> its gold answers; none for a question without an answer."""


@dataclass(frozen=True, kw_only=True)
class SquadScores:
    """Percentages over questions."""

    exact: float
    f1: float
    num_questions: int
    """Version 1.1 counts those without a prediction as wrong, 2.0 leaves them out."""


@dataclass(frozen=True, kw_only=True)
class NullThreshold:
    """The best that a choice of when not to answer can give."""

    score: float
    """In percent."""
    threshold: float
    """A question whose null odds are above it is not answered."""


def squad_scores(
    predictions: Mapping[str, str], gold: Gold, version: SquadVersion = "1.1"
) -> SquadScores:
    """Scores the predictions, question id -> text, empty for no answer.

    Raises ValueError when there are no questions.
    """
    exact, f1 = question_scores(predictions, gold, version)
    count = len(exact) if version == "2.0" else len(gold)
    if not count:
        raise ValueError("there is no question to score")
    return SquadScores(
        exact=100.0 * sum(exact.values()) / count,
        f1=100.0 * sum(f1.values()) / count,
        num_questions=count,
    )


def question_scores(
    predictions: Mapping[str, str], gold: Gold, version: SquadVersion = "1.1"
) -> tuple[dict[str, float], dict[str, float]]:
    """Exact match and F1 of every predicted question, each in [0, 1]."""
    exact: dict[str, float] = {}
    f1: dict[str, float] = {}
    for key, answers in gold.items():
        if key in predictions:
            predicted, wanted = read_answer(predictions[key], version), read_gold(answers, version)
            exact[key], f1[key] = answer_scores(predicted, wanted, version)
    return exact, f1


class ReadAnswer(NamedTuple):
    """An answer as it is compared."""

    text: str
    """Normalised."""
    pieces: Counter[str]
    """What F1 counts: words, in KorQuAD characters other than blanks."""
    num_pieces: int


def read_answer(answer: str, version: SquadVersion) -> ReadAnswer:
    """A prediction or a gold answer."""
    text = _NORMALISED[version](answer)
    pieces = list(text.replace(" ", "")) if version == "korquad" else text.split()
    return ReadAnswer(text, Counter(pieces), len(pieces))


def read_gold(answers: Sequence[str], version: SquadVersion) -> list[ReadAnswer]:
    """A question's gold answers, each that is equal to another once."""
    wanted = {each.text: each for each in (read_answer(answer, version) for answer in answers)}
    if version == "2.0":
        # An answer of articles and marks alone is none there.
        wanted.pop("", None)
        wanted = wanted or {"": read_answer("", version)}
    return list(wanted.values())


def answer_scores(
    predicted: ReadAnswer, wanted: Sequence[ReadAnswer], version: SquadVersion
) -> tuple[float, float]:
    """Exact match and F1 of one question, each in [0, 1]."""
    exact = float(any(predicted.text == each.text for each in wanted))
    return exact, max((_f1(predicted, each, version) for each in wanted), default=0.0)


def best_null_threshold(
    scores: Mapping[str, float],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
    gold: Gold,
) -> NullThreshold:
    """The threshold on the null odds at which the mean of `scores` is best (version 2.0).

    `scores` are those of `predictions`, the best answers that are not null. Equal means go to the
    lowest threshold, as in the official search.
    """
    current = float(sum(not answers for answers in gold.values()))
    best, threshold = current, 0.0
    for key in sorted(scores, key=lambda key: null_odds[key]):
        if gold[key]:
            current += scores[key]
        elif predictions[key]:
            current -= 1.0
        if current > best:
            best, threshold = current, null_odds[key]
    return NullThreshold(score=100.0 * best / len(scores), threshold=threshold)


def normalised(answer: str) -> str:
    """Lower case, without punctuation, articles and runs of blanks."""
    text = answer.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", text).split())


def normalised_korean(answer: str) -> str:
    """Lower case, without brackets, quotes, punctuation and runs of blanks."""
    text = answer.translate(_KOREAN_MARKS).lower().translate(_NO_PUNCTUATION)
    return " ".join(text.split())


_NORMALISED: dict[SquadVersion, Callable[[str], str]] = {
    "1.1": normalised,
    "2.0": normalised,
    "korquad": normalised_korean,
}


def _f1(predicted: ReadAnswer, gold: ReadAnswer, version: SquadVersion) -> float:
    num_pieces = predicted.num_pieces + gold.num_pieces
    if version == "2.0" and not (predicted.num_pieces and gold.num_pieces):
        return float(not num_pieces)
    if predicted.pieces.keys().isdisjoint(gold.pieces):
        return 0.0
    return 2 * (predicted.pieces & gold.pieces).total() / num_pieces
