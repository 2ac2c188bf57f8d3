"""Arguments -> the same, with words of a fixed choice in the case that the choice has.

`--unicode-form nfc` is `NFC`. Words that may be anything stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from types import UnionType
from typing import Union, get_args, get_origin

from bertsmith.commands.accepted_options import choices_of, options_of, subcommands, unwrapped


def in_their_case(arguments: Sequence[str], kind: object) -> list[str]:
    """The arguments of a dataclass or a union of subcommands, with choices as they are spelt."""
    if commands := subcommands(kind):
        if not arguments or arguments[0] not in commands:
            return list(arguments)
        return [arguments[0], *in_their_case(arguments[1:], commands[arguments[0]])]
    assert isinstance(kind, type)
    choices = {option.name: _words_of(option.kind) for option in options_of(kind)}
    found: list[str] = []
    own: tuple[str, ...] = ()
    for argument in arguments:
        if argument.startswith("--"):
            name, equals, value = argument.partition("=")
            own = choices.get(name.replace("_", "-"), ())
            found.append(name + equals + _spelt(value, own))
        else:
            found.append(_spelt(argument, own))
    return found


def _spelt(word: str, choices: Sequence[str]) -> str:
    """The choice that the word is but for its case, where there is one alone."""
    near = [choice for choice in choices if choice.casefold() == word.casefold()]
    return near[0] if word not in choices and len(near) == 1 else word


def _words_of(kind: object) -> tuple[str, ...]:
    """All words that a type takes; none for a switch, and where there is no list of them."""
    inner, _ = unwrapped(kind)
    if get_origin(inner) in (Union, UnionType):
        each = [choices_of(unwrapped(one)[0]) for one in get_args(inner)]
        return tuple(chain.from_iterable(each)) if all(each) else ()
    return () if inner is bool else choices_of(inner)
