"""Answers cut out of passages -> what there is to say of them beside exact match and F1.

Legend: N questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bertsmith.reading.squad_json import Question
from bertsmith.tasks.judged import MOST_MISTAKES, Certainty, Groups, Judged, Mistake
from bertsmith.tasks.squad_answers import FoundAnswer
from bertsmith.tasks.squad_scores import SquadVersion, question_scores

_NO_ANSWER = "(no answer)"
_AROUND = 120
"""Characters of a passage shown on both sides of an answer."""
_LENGTHS = (1, 2, 4, 8)
"""Words of an answer, where a group ends."""
_FEWEST_OF_A_WORD = 0.02
"""Of the questions: rarer first words are told together."""


def judged_spans(
    questions: Sequence[Question], answers: Sequence[FoundAnswer], version: SquadVersion
) -> Judged:
    """A question is right where its answer matches exactly; the worst share no word with one."""
    gold = {str(n): question.gold for n, question in enumerate(questions)}
    texts = {str(n): answer.text for n, answer in enumerate(answers)}
    exact_of, f1_of = question_scores(texts, gold, version)
    exact = np.array([exact_of[key] for key in gold])
    f1 = np.array([f1_of[key] for key in gold])
    sure = np.array([_probability(answer) for answer in answers])
    badness = (1.0 - f1) * sure
    order = [int(at) for at in np.argsort(-badness, kind="stable") if exact[at] < 1.0]
    return Judged(
        mistakes=tuple(
            _mistake(questions[at], answers[at], float(sure[at])) for at in order[:MOST_MISTAKES]
        ),
        num_mistakes=len(order),
        groups=(
            _grouped("question word", questions, exact, f1, _first_words(questions)),
            _grouped("answer length", questions, exact, f1, _length),
        ),
        certainty=Certainty(of="questions", probabilities=sure, is_right=exact == 1.0),
    )


def _probability(answer: FoundAnswer) -> float:
    """That of the text that was given, among the listed candidates."""
    return next((each.probability for each in answer.candidates if each.text == answer.text), 0.0)


def _mistake(question: Question, answer: FoundAnswer, probability: float) -> Mistake:
    first = question.answers[0].start if question.answers else answer.best.start
    start, end = max(0, first - _AROUND), first + _AROUND
    shown = question.passage[start:end].replace("\n", " ")
    passage = f"{'…' if start else ''}{shown}{'…' if end < len(question.passage) else ''}"
    return Mistake(
        place=question.place,
        asked=f"{question.question} ||| {passage}",
        right=" / ".join(dict.fromkeys(question.gold)) or _NO_ANSWER,
        answer=answer.text or _NO_ANSWER,
        probability=probability,
    )


def _grouped(
    name: str,
    questions: Sequence[Question],
    exact: np.ndarray,
    f1: np.ndarray,
    part_of: Callable[[Question], tuple[int, str]],
) -> Groups:
    """Means over the questions of each part, the parts in the order of their keys."""
    parts: dict[tuple[int, str], list[int]] = {}
    for number, question in enumerate(questions):
        parts.setdefault(part_of(question), []).append(number)
    rows = [
        (part, len(there), (100 * float(exact[there].mean()), 100 * float(f1[there].mean())))
        for (_, part), there in sorted(parts.items())
    ]
    return Groups(name=name, metrics=("exact", "f1"), rows=tuple(rows))


def _first_words(questions: Sequence[Question]) -> Callable[[Question], tuple[int, str]]:
    """By the question's first word, the frequent ones first."""
    counts: dict[str, int] = {}
    for question in questions:
        word = _first_word(question)
        counts[word] = counts.get(word, 0) + 1
    fewest = _FEWEST_OF_A_WORD * len(questions)

    def part(question: Question) -> tuple[int, str]:
        word = _first_word(question)
        return (-counts[word], word) if counts[word] >= fewest else (1, "other")

    return part


def _first_word(question: Question) -> str:
    return next(iter(question.question.split()), "").casefold() or "no word"


def _length(question: Question) -> tuple[int, str]:
    """By the words of the shortest right answer."""
    if not question.gold:
        return 0, "no answer"
    words = min(len(answer.split()) for answer in question.gold)
    first = 1
    for last in _LENGTHS:
        if words <= last:
            return first, f"{first} word" if last == 1 else _range(first, last)
        first = last + 1
    return first, f"{first} words or more"


def _range(first: int, last: int) -> str:
    return f"{last} words" if first == last else f"{first} to {last} words"
