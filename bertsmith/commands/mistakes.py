"""Arguments that a command cannot take -> one line: what is wrong, and what was perhaps meant.

It knows no command, and parses nothing: that is tyro's, whose own reason for a refusal is a box of
many lines.
"""

from __future__ import annotations

import difflib
import itertools
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import UnionType
from typing import Union, get_args, get_origin

from bertsmith.commands.accepted_options import (
    Option,
    choices_of,
    docstring_of,
    options_of,
    places_of,
    subcommands,
    unwrapped,
)

_FRAME = re.compile(r"\x1b\[[\d;]*m|[─│╭╮╰╯]|-{3,}")
"""Colours and lines of a box; a terminal that is not UTF-8 gets rules of `-`."""
_CHOICE = re.compile(r"invalid choice '(.+?)' for argument '(.+?)'\. Expected one of \((.+)\)")
_QUOTED = re.compile(r"'([^']+)'")
_NAME = re.compile("--?[A-Za-z]")
"""How an option's name begins; `-1` is a number."""


def mistake_in(arguments: Sequence[str], kind: object, command: str) -> str | None:
    """The first mistake in one line; None where nothing is found that a type can tell.

    `kind` is a dataclass or a union of subcommands; `command` was typed before the arguments.
    Misspelt names come first: a value or an option that seems missing may belong to one of them.
    """
    if commands := subcommands(kind):
        name = arguments[0] if arguments else ""
        if name in commands:
            return mistake_in(arguments[1:], commands[name], f"{command} {name}")
        if not name or name.startswith("-"):
            return f"{command} needs one of these first: {', '.join(commands)}"
        return f"{command} has no command '{name}'; {hint(name, commands)}"
    assert isinstance(kind, type)
    options = {option.name: option for option in options_of(kind)}
    typed = _typed(arguments)
    mistakes = itertools.chain(
        (_unknown(name, options, command) for name, _ in typed if name not in options),
        (_refused(options[name], words) for name, words in typed if name in options),
    )
    return next(filter(None, mistakes), None) or _missing(kind, options, arguments, command)


def misspelt_option(arguments: Sequence[str], kind: object, command: str) -> str | None:
    """The first name that is no option's, in one line: found in a fifth of tyro's time."""
    if commands := subcommands(kind):
        if not arguments or arguments[0] not in commands:
            return None
        name, *rest = arguments
        return misspelt_option(rest, commands[name], f"{command} {name}")
    assert isinstance(kind, type)
    names = {"--help", "-h", *(options := [option.name for option in options_of(kind)])}
    misspelt = (name for name, _ in _typed(arguments) if name not in names)
    return next((_unknown(name, options, command) for name in misspelt), None)


def switch_with_a_value(arguments: Sequence[str], kind: object) -> str | None:
    """What is wrong with `--dropout True`, whose second word would be taken for something else."""
    if commands := subcommands(kind):
        if not arguments or arguments[0] not in commands:
            return None
        return switch_with_a_value(arguments[1:], commands[arguments[0]])
    assert isinstance(kind, type)
    switches = {option.name for option in options_of(kind) if option.kind is bool}
    for name, words in _typed(arguments):
        if name in switches and words and words[0].lower() in ("true", "false"):
            yes = name.replace("--no-", "--")
            return (
                f"{name} is a switch and takes no value, found '{words[0]}': {yes} turns it on, "
                f"{yes.replace('--', '--no-')} off"
            )
    return None


def told_by_tyro(refusal: SystemExit, printed: str) -> str:
    """Tyro's own reason: the error that a dataclass raised, else the words in its box.

    `printed` is what it printed before it raised `refusal`: a title, the reason, where help is.
    """
    error: BaseException | None = refusal
    while error is not None and not isinstance(error, ValueError):
        error = error.__context__
    if error is not None:
        return str(error)
    lines = filter(str.strip, _FRAME.sub("", printed).splitlines()[1:])
    told = " ".join(lines).partition("For full helptext")[0]
    if choice := _CHOICE.search(" ".join(told.split())):
        word, name, choices = choice.groups()
        return f"{name}: there is no {word!r}; {hint(word, _QUOTED.findall(choices))}"
    return told


def hint(word: str, choices: Collection[str]) -> str:
    """The nearest of the choices as a question, or all of them where none is near."""
    near = difflib.get_close_matches(word, choices, n=1)
    return f"did you mean '{near[0]}'?" if near else f"the choices are {', '.join(choices)}"


def _typed(arguments: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Every option on the command line, with the words up to the next one."""
    typed: list[tuple[str, list[str]]] = []
    for argument in arguments:
        if _NAME.match(argument):
            name, equals, value = argument.partition("=")
            typed.append((name.replace("_", "-"), [value] if equals else []))
        elif typed:
            typed[-1][1].append(argument)
    return typed


def _unknown(name: str, options: Iterable[str], command: str) -> str:
    meanings = {option.rpartition(".")[2].removeprefix("--"): option for option in options}
    meanings |= {option.removeprefix("--"): option for option in options}
    near = difflib.get_close_matches(name.lstrip("-"), meanings, n=1)
    meant = _shortened(name, options) or [meanings[each] for each in near]
    told = (
        f"did you mean '{meant[0]}'?" if meant else f"bertsmith {command} --help lists the options"
    )
    return f"there is no option '{name}'; {told}"


def _shortened(name: str, options: Iterable[str]) -> list[str]:
    """The options whose words begin with the letters of the name: `--optimizer.lr`, or `--lr`."""
    group, _, letters = name.removeprefix("--").rpartition(".")
    found = []
    for option in options:
        its_group, _, words = option.removeprefix("--").rpartition(".")
        initials = "".join(word[:1] for word in words.split("-"))
        if len(letters) > 1 and letters == initials and group in ("", its_group):
            found.append(option)
    return found


def _refused(option: Option, words: Sequence[str]) -> str | None:
    if option.kind is bool or (option.takes_many and not words):
        return None
    if not words:
        return f"{option.name} needs a value"
    own = words if option.takes_many else words[:1]
    return next(filter(None, (_fault(option.name, option.kind, word) for word in own)), None)


def _fault(name: str, kind: object, word: str) -> str | None:
    """Why the word is no value of this type; None where it is one, or where any word is."""
    inner, notes = unwrapped(kind)
    if get_origin(inner) in (Union, UnionType):
        faults = [_fault(name, each, word) for each in get_args(inner)]
        return None if None in faults else faults[0]
    choices = choices_of(inner)
    if choices:
        return None if word in choices else f"there is no {name} '{word}'; {hint(word, choices)}"
    try:
        _convert(inner, notes, word)
    except ValueError as error:
        return f"{name}: {error}"
    return None


def _convert(kind: object, notes: Iterable[object], word: str) -> None:
    """Raises ValueError for a word that is no number, or that the type's own rule refuses."""
    from tyro.constructors import PrimitiveConstructorSpec

    for rule in notes:
        if isinstance(rule, PrimitiveConstructorSpec):
            rule.instance_from_str([word])
    if kind is int or kind is float:
        try:
            kind(word)
        except ValueError:
            expected = "a whole number" if kind is int else "a number"
            raise ValueError(f"expected {expected}, found '{word}'") from None


def _missing(
    kind: type, options: Mapping[str, Option], arguments: Sequence[str], command: str
) -> str | None:
    """What the command cannot do without, and an example of it; None where all of it is there."""
    typed = {name for name, _ in _typed(arguments)}
    without = places_of(kind)[_num_free(arguments, options) :]
    names = [name.upper() for name in without]
    names += [name for name, each in options.items() if each.is_required and name not in typed]
    if not names:
        return None
    meaning = docstring_of(kind, without[0]) if len(names) == len(without) == 1 else ""
    return f"{command} needs {' and '.join(names)}{meaning}{_example(kind, command)}"


def _num_free(arguments: Sequence[str], options: Mapping[str, Option]) -> int:
    """How many words are no option's own."""
    count = len(list(itertools.takewhile(lambda word: not _NAME.match(word), arguments)))
    for name, words in _typed(arguments):
        own = 0 if options[name].kind is bool else 1
        count += 0 if options[name].takes_many else max(0, len(words) - own)
    return count


def _example(kind: type, command: str) -> str:
    """The first that the command's file gives."""
    lines = map(str.strip, (sys.modules[kind.__module__].__doc__ or "").splitlines())
    found = next((line for line in lines if line.startswith(f"bertsmith {command} ")), "")
    return f"; for example: {found}" if found else ""
