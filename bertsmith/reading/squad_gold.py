"""SQuAD's files as its official evaluators read them: gold answers, predictions, null odds.

Answers count here as they are spelt, also those that stand nowhere in their passage; what is
learned from such a file is read by `squad_json`.

Source: Rajpurkar et al. 2016 and 2018, evaluate-v1.1.py and evaluate-v2.0.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.reading.compressed import open_members, text_blocks


@dataclass(frozen=True, kw_only=True)
class Gold:
    """The right answers of a file."""

    answers: dict[str, tuple[str, ...]]
    """Question id -> its answers; none for a question without one."""
    has_unanswerable: bool
    """Whether questions are marked as impossible to answer, as in SQuAD 2.0."""
    is_korquad: bool
    """Whether its version is one of KorQuAD."""


def read_gold(path: Path) -> Gold:
    """Reads a file in SQuAD's JSON, compressed or not.

    Raises FileNotFoundError; ValueError for another file, for one without questions, and for an id
    that occurs twice.
    """
    content = _json(path)
    answers: dict[str, tuple[str, ...]] = {}
    has_unanswerable = False
    try:
        for question in _questions(content):
            key = str(question["id"])
            if key in answers:
                raise ValueError(f"{path}: id {key!r} stands there twice")
            answers[key] = tuple(str(answer["text"]) for answer in question["answers"])
            has_unanswerable = has_unanswerable or bool(question.get("is_impossible"))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: not SQuAD's JSON with ids and answers ({type(error).__name__}: {error})"
        ) from error
    if not answers:
        raise ValueError(f"{path}: no questions in it")
    version = str(content.get("version", "")).lower()
    return Gold(
        answers=answers,
        has_unanswerable=has_unanswerable,
        is_korquad=version.startswith("korquad"),
    )


def read_predictions(path: Path) -> dict[str, str]:
    """Question id -> answer, empty for none. Raises FileNotFoundError, ValueError for others."""
    content = _json(path)
    for key, text in content.items():
        if not isinstance(text, str):
            raise ValueError(
                f"{path}: expected an answer (text) for each question's id, found {text!r:.40} at "
                f"{key!r}"
            )
    return content


def read_null_odds(path: Path) -> dict[str, float]:
    """Question id -> how sure no answer is. Raises FileNotFoundError, ValueError for others."""
    content = _json(path)
    for key, odds in content.items():
        if not isinstance(odds, int | float) or isinstance(odds, bool):
            raise ValueError(
                f"{path}: expected a number for each question's id, found {odds!r:.40} at {key!r}"
            )
    return content


def _questions(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            yield from paragraph["qas"]


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    text = "".join(block for member in open_members(path) for block in text_blocks(member))
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path}: not one JSON object ({error}); SQuAD's files are one each, not one a line"
        ) from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(content).__name__}")
    return content
