"""A task's answers -> JSON lines and CSV for programs; a record for every row.

It does not know where questions come from, and asks no model.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import IO

from bertsmith.commands.asked_entry import Entry
from bertsmith.commands.json_lines import print_json
from bertsmith.tasks.answered import (
    AnsweredQuestion,
    ChosenText,
    ClassifiedText,
    OwnAnswer,
    TaggedText,
    TaskAnswer,
)
from bertsmith.tasks.imported import AnyOwnTask
from bertsmith.tasks.squad_evaluation import HIGHEST_ODDS
from bertsmith.tasks.task import AnyTask, Classification, MultipleChoice, SpanAnswering, Tagging

Show = Callable[[Entry, TaskAnswer | None], None]
"""Told of every row, in order, with its answer; None where nothing in it could be read."""

SHOWN = 5
"""Likeliest answers that are shown where nobody says how many."""

_FAULT = "fault"
_KEPT = "kept."


def names_kept(task: AnyTask | AnyOwnTask, keep: Sequence[str], num_texts: int) -> dict[str, str]:
    """What each kept column is called: `kept.label` where an answer has a `label` of its own.

    The same in JSON and CSV, whichever of them has it. Raises ValueError where that name is another
    kept column's.
    """
    own = {*_columns(task, _sides(num_texts)), *_only_in_json(task), _FAULT}
    names = {name: f"{_KEPT}{name}" if name in own else name for name in keep}
    for name, called in names.items():
        if name != called and called in names:
            raise ValueError(
                f"--keep {name} is written as {called}, because answers have a {name} of their "
                f"own, and {called} is to be kept too: rename one of the file's columns"
            )
    return names


def as_json(
    top_k: int | None, file: IO[str] | None = None, names: Mapping[str, str] | None = None
) -> Show:
    """JSON objects, one a line: every label's and choice's probability, `top_k` spans'.

    `names` are those of `names_kept`.
    """
    called = names or {}

    def show(entry: Entry, answer: TaskAnswer | None) -> None:
        kept = {called.get(name, name): value for name, value in entry.kept.items()}
        said = {_FAULT: entry.fault} if answer is None else _object(answer, top_k or SHOWN)
        if file is None:
            print_json({**kept, **said})
        else:
            file.write(json.dumps({**kept, **said}, ensure_ascii=False) + "\n")

    return show


def as_csv(
    task: AnyTask | AnyOwnTask, names: Mapping[str, str], num_texts: int, file: IO[str]
) -> Show:
    """A header, then a record a row, of a text to tag a record a word.

    `names` are those of `names_kept`, `num_texts` those of a question to classify: one, or two of a
    pair.
    """
    writer = csv.writer(file, lineterminator="\n")
    columns = _columns(task, _sides(num_texts))
    writer.writerow([*names.values(), *columns, _FAULT])
    number = 0

    def show(entry: Entry, answer: TaskAnswer | None) -> None:
        nonlocal number
        number += 1
        values = [_cell(entry.kept.get(name)) for name in names]
        if answer is None:
            row = [number] if isinstance(task, Tagging) else []
            blank = [""] * (len(columns) - len(row))
            writer.writerow([*values, *row, *blank, entry.fault])
        else:
            for record in _records(answer, number):
                writer.writerow([*values, *map(_cell, record), ""])

    return show


def _null_values(answer: AnsweredQuestion, sure: float) -> dict[str, object]:
    """How sure it is that there is no answer, and what decides."""
    return {
        "no_answer_probability": sure,
        "null_odds": min(answer.found.null_odds, HIGHEST_ODDS),
        "null_threshold": answer.null_threshold,
    }


def _object(answer: TaskAnswer, top_k: int) -> dict[str, object]:
    match answer:
        case ClassifiedText():
            return {**_texts(answer), **_judgement(answer), "num_unread": answer.num_unread}
        case TaggedText():
            return {
                "text": answer.text,
                "words": [asdict(word) for word in answer.words],
                "entities": [asdict(entity) for entity in answer.entities],
            }
        case ChosenText():
            return {
                "text": answer.text,
                "choices": list(answer.choices),
                "choice": answer.choice,
                "answer": answer.choices[answer.choice],
                "probabilities": list(answer.probabilities),
                "num_unread": answer.num_unread,
            }
        case AnsweredQuestion():
            sure = answer.no_answer_probability
            return {
                "id": answer.question.key,
                "question": answer.question.question,
                "answer": answer.answer,
                "start": answer.start,
                "probability": answer.probability,
                **({} if sure is None else _null_values(answer, sure)),
                "candidates": [
                    {"answer": each.text, "start": each.start, "probability": each.probability}
                    for each in answer.found.candidates[:top_k]
                ],
                "num_unread": answer.num_unread,
            }
        case OwnAnswer():
            return {"answer": _plain(answer.value)}


def _plain(value: object) -> object:
    """As JSON has it; as Python writes it where JSON has no such thing."""
    try:
        found: object = json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return str(value)
    return found


def _texts(answer: ClassifiedText) -> dict[str, object]:
    return dict(zip(_sides(len(answer.texts)), answer.texts, strict=True))


def _sides(num_texts: int) -> tuple[str, ...]:
    """How the texts that are classified are called."""
    return ("text",) if num_texts == 1 else ("first", "second")


def _judgement(answer: ClassifiedText) -> dict[str, object]:
    if answer.value is not None:
        return {"value": answer.value}
    if answer.is_multiple:
        return {"labels": list(answer.labels), "probabilities": dict(answer.probabilities)}
    (label,) = answer.labels
    return {
        "label": label,
        "probability": answer.probabilities[label],
        "probabilities": dict(answer.probabilities),
    }


def _columns(task: AnyTask | AnyOwnTask, sides: Sequence[str]) -> list[str]:
    """The header of a task's records; `sides` are the texts that are classified."""
    match task:
        case Classification() if task.scheme.problem == "regression":
            return [*sides, "value", "num_unread"]
        case Classification():
            shares = [f"probability {name}" for name in task.scheme.names]
            return [*sides, "label", *shares, "num_unread"]
        case Tagging():
            return ["row", "word", "start", "end", "tag", "probability"]
        case MultipleChoice():
            return ["text", "choice", "answer", "probability", "probabilities", "num_unread"]
        case SpanAnswering():
            return [
                "id", "question", "answer", "start", "probability", "no_answer_probability",
                "num_unread",
            ]  # fmt: skip
        case _:
            return ["answer"]


def _only_in_json(task: AnyTask | AnyOwnTask) -> tuple[str, ...]:
    """Fields of an answer that the columns have not."""
    match task:
        case Classification():
            return ("labels", "probability", "probabilities")
        case Tagging():
            return ("text", "words", "entities")
        case MultipleChoice():
            return ("choices",)
        case SpanAnswering():
            return ("null_odds", "null_threshold", "candidates")
        case _:
            return ()


def _records(answer: TaskAnswer, number: int) -> list[list[object]]:
    match answer:
        case ClassifiedText():
            if answer.value is not None:
                return [[*answer.texts, answer.value, answer.num_unread]]
            label: object = list(answer.labels) if answer.is_multiple else answer.labels[0]
            return [[*answer.texts, label, *answer.probabilities.values(), answer.num_unread]]
        case TaggedText():
            return [
                [number, each.text, each.start, each.end, each.tag, each.probability]
                for each in answer.words
            ]
        case ChosenText():
            chosen = answer.choices[answer.choice], answer.probabilities[answer.choice]
            shares = list(answer.probabilities)
            return [[answer.text, answer.choice, *chosen, shares, answer.num_unread]]
        case AnsweredQuestion():
            question = answer.question
            return [[
                question.key, question.question, answer.answer, answer.start, answer.probability,
                answer.no_answer_probability, answer.num_unread,
            ]]  # fmt: skip
        case OwnAnswer():
            return [[_plain(answer.value)]]


def _cell(value: object) -> object:
    """Nothing for None, JSON for a list; numbers in all their digits."""
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
