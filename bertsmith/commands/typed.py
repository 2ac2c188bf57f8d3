"""Arguments -> what can be told of them before they are parsed. It knows no command's options."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile


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
