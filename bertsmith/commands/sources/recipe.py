"""What is typed of the examples -> the recipe whose values a run begins with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from bertsmith.commands.typed import word_behind

RecipeName = Literal[
    "glue",
    "squad",
    "squad2",
    "swag",
    "ner",
    "ner-features-embeddings",
    "ner-features-second-to-last",
    "ner-features-last",
    "ner-features-weighted-sum-last-four",
    "ner-features-concat-last-four",
    "ner-features-weighted-sum-all",
    "probe",
]

_OF_KINDS: dict[str, RecipeName] = {"--tagged": "ner", "--choices": "swag"}


def recipe_for(arguments: Sequence[str]) -> RecipeName:
    """The recipe that is named, else the one of the kind of examples.

    An unknown name gets some recipe: it is reported, with the choices, when all is parsed.
    """
    typed = word_behind("--recipe", arguments)
    if typed is not None:
        return next((name for name in get_args(RecipeName) if name == typed), "glue")
    for option, recipe in _OF_KINDS.items():
        if word_behind(option, arguments) is not None:
            return recipe
    if word_behind("--squad", arguments) is not None:
        return "squad2" if _squad_version(arguments) == "2.0" else "squad"
    return "glue"


def _squad_version(arguments: Sequence[str]) -> str:
    """Whose evaluator is meant; of files that cannot be read, which is told later, the first's."""
    # Only here is a file read: help and typing errors are told without numpy.
    from bertsmith.tasks.own.question_rows import QuestionColumns
    from bertsmith.tasks.own.questions import version_of

    typed = word_behind("--squad-version", arguments)
    if typed is not None:
        return typed
    paths = [
        Path(path) for option in ("--squad", "--dev") if (path := word_behind(option, arguments))
    ]
    answers = word_behind("--answers-column", arguments)
    columns = QuestionColumns() if answers is None else QuestionColumns(answers=answers)
    try:
        return version_of(paths, columns, has_header="--no-header" not in arguments)
    except (OSError, ValueError):
        return "1.1"
