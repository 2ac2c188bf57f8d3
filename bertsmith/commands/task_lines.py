"""A task's answers -> lines for a person: the answer, and below it what else was likely.

It does not know where questions come from, and asks no model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from bertsmith.commands.asked_entry import Entry
from bertsmith.commands.task_answers import SHOWN, Show
from bertsmith.tasks.answered import (
    AnsweredQuestion,
    ChosenText,
    ClassifiedText,
    OwnAnswer,
    TaggedText,
    TaskAnswer,
)

NameT = TypeVar("NameT")

_NO_ANSWER = "(no answer)"


def as_lines(top_k: int | None) -> Show:
    """A line a row, with probabilities: by default of the answer, and of some in its place.

    With `top_k` those of so many labels, choices or answers, whatever the answer is.
    """

    def show(entry: Entry, answer: TaskAnswer | None) -> None:
        if answer is None:
            print(f"-  {entry.fault}")
            return
        print("\n".join([_line(answer, top_k), *(f"    {each}" for each in _below(answer, top_k))]))

    return show


def _line(answer: TaskAnswer, top_k: int | None) -> str:
    match answer:
        case ClassifiedText():
            return f"{_said(answer, top_k or SHOWN)}  {' | '.join(answer.texts)}"
        case TaggedText(is_of_entities=True):
            return answer.text
        case TaggedText():
            return " ".join(f"{word.text}/{word.tag}" for word in answer.words)
        case ChosenText():
            sure = answer.probabilities[answer.choice]
            return f"{answer.choice}  {sure:.4f}  {answer.text} | {answer.choices[answer.choice]}"
        case AnsweredQuestion():
            told = answer.answer or _NO_ANSWER
            line = f"{answer.probability:.4f}  {told}  <- {answer.question.question}"
            return f"{line}{_overruled(answer)}"
        case OwnAnswer():
            return str(answer.value)


def _below(answer: TaskAnswer, top_k: int | None) -> list[str]:
    match answer:
        case ClassifiedText(is_multiple=True) if top_k:
            shares = _likeliest(answer.probabilities.items(), top_k)
            return [f"{share:.4f}  {label}" for label, share in shares]
        case TaggedText():
            return [
                f"{each.kind}  {each.probability:.4f}  {each.text}  [{each.start}:{each.end}]"
                for each in answer.entities
            ]
        case ChosenText() if top_k:
            numbered = _likeliest(enumerate(answer.probabilities), top_k)
            return [
                f"{number}  {share:.4f}  {answer.choices[number]}" for number, share in numbered
            ]
        case AnsweredQuestion() if top_k != 1:
            others = answer.found.candidates[: top_k or SHOWN]
            return [f"{each.probability:.4f}  {each.text or _NO_ANSWER}" for each in others]
        case _:
            return []


def _overruled(answer: AnsweredQuestion) -> str:
    """Why the answer is not the likeliest candidate; empty where it is."""
    candidates = answer.found.candidates
    if not candidates or candidates[0].text == answer.answer:
        return ""
    odds, threshold = answer.found.null_odds, answer.null_threshold
    side = "above" if odds > threshold else "not above"
    return f"  (null odds {odds:.3g}, {side} the threshold {threshold:.3g})"


def _said(answer: ClassifiedText, top_k: int) -> str:
    if answer.value is not None:
        return f"{answer.value:.4f}"
    if answer.is_multiple:
        named = [f"{label} {answer.probabilities[label]:.4f}" for label in answer.labels]
        return ", ".join(named) or "(no label)"
    likeliest = _likeliest(answer.probabilities.items(), top_k)
    return ", ".join(f"{label} {share:.4f}" for label, share in likeliest)


def _likeliest(shares: Iterable[tuple[NameT, float]], top_k: int) -> list[tuple[NameT, float]]:
    return sorted(shares, key=lambda pair: -pair[1])[:top_k]
