"""Arguments -> what can be told of them before they are parsed, and before anything is imported.

A model whose name is mistyped, a path that is not there or stands for text. It knows no command's
options but --model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

from bertsmith.checkpoints.project_models import require_spelt

_MODEL = "--model"


def require_model(arguments: Sequence[str]) -> None:
    """`require_spelt` for --model, or else for the first word: commands begin with their model."""
    is_named = any(word.partition("=")[0] == _MODEL for word in arguments)
    if arguments and not is_named and not arguments[0].startswith("-"):
        require_spelt(arguments[0])
    require_model_option(arguments)


def require_model_option(arguments: Sequence[str]) -> None:
    """`require_spelt` for --model alone, where the first word names something else."""
    for word, following in pairwise([*arguments, ""]):
        name, equals, value = word.partition("=")
        if name == _MODEL:
            require_spelt(value if equals else following)


def require_texts(arguments: Sequence[str]) -> None:
    """`require_there` for the words before the first option, with no option read."""
    require_there(map(Path, takewhile(lambda word: not word.startswith("-"), arguments)))


def require_there(texts: Iterable[Path]) -> None:
    """Raises FileNotFoundError for the first path that names no file and no folder."""
    for path in texts:
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder")


def refuse_files(texts: Iterable[str], advice: Callable[[str], str]) -> None:
    """Raises ValueError for a text that is a file's name, with advice on what to do with it."""
    for text in texts:
        if os.path.isfile(text):  # any text may be asked: pathlib raises for a long one
            raise ValueError(f"{text} is a file: {advice(text)}")


def word_behind(option: str, arguments: Sequence[str]) -> str | None:
    """The last value that is given to an option; None where it is not there."""
    found = None
    for place, argument in enumerate(arguments):
        if argument.startswith(f"{option}="):
            found = argument.removeprefix(f"{option}=")
        elif argument == option and place + 1 < len(arguments):
            found = arguments[place + 1]
    return found


def words_behind(option: str, arguments: Sequence[str]) -> list[str]:
    """All that is given to an option that takes several words; empty where it is not there.

    Where it stands several times, the last one counts.
    """
    found: list[str] = []
    for place, argument in enumerate(arguments):
        name, _, first = argument.partition("=")
        if name == option:
            rest = takewhile(lambda word: word[:2] != "--", arguments[place + 1 :])
            found = [*([first] if first else []), *rest]
    return found


def typed_options(arguments: Sequence[str]) -> tuple[str, ...]:
    """The names of the options that are typed, with `-` between words."""
    return tuple(word.partition("=")[0].replace("_", "-") for word in arguments if word[:2] == "--")
