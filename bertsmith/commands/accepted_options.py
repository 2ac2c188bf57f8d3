"""A command's dataclass -> the options and places on the command line that tyro makes of it.

It knows no command, and nothing of what was typed.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option that a command takes."""

    name: str
    """As it is typed: `--optimizer.learning-rate`."""
    kind: object
    """The type of a word behind it; `bool` for a switch, which has none."""
    takes_many: bool
    """Whether all words up to the next option are its own."""
    is_required: bool
    """Whether the command cannot do without it."""


def options_of(kind: type, prefix: str = "--") -> Iterator[Option]:
    """The options that tyro makes of a dataclass, those of the dataclasses in it included."""
    import tyro

    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        inner, notes = unwrapped(hints[field.name])
        if tyro.conf.Positional in notes or tyro.conf.Suppress in notes:
            continue
        name = _name_in(notes) or field.name.replace("_", "-")
        if isinstance(inner, type) and dataclasses.is_dataclass(inner):
            is_flat = tyro.conf.arg(name="") in notes
            yield from options_of(inner, prefix if is_flat else f"{prefix}{name}.")
            continue
        takes_many = get_origin(inner) is tuple
        for spelling in (name, f"no-{name}") if inner is bool else (name,):
            yield Option(
                name=prefix + spelling,
                kind=get_args(inner)[0] if takes_many else inner,
                takes_many=takes_many,
                is_required=field.default is field.default_factory is dataclasses.MISSING,
            )


def subcommands(kind: object) -> dict[str, object]:
    """Name -> dataclass of a union whose members are annotated with `tyro.conf.subcommand`."""
    if get_origin(kind) not in (Union, UnionType):
        return {}
    return {notes[0].name: inner for inner, *notes in map(get_args, get_args(kind))}


def unwrapped(kind: object) -> tuple[object, tuple[object, ...]]:
    """A type without its annotations, and these."""
    if get_origin(kind) is not Annotated:
        return kind, ()
    inner, *notes = get_args(kind)
    return inner, tuple(notes)


def _name_in(notes: tuple[object, ...]) -> str:
    """The name that `tyro.conf.arg` gives a field, as of one whose word Python keeps for itself."""
    import tyro

    given = [vars(note) for note in notes if isinstance(note, type(tyro.conf.arg()))]
    return next((str(each["name"]) for each in given if each["name"]), "")


def choices_of(kind: object) -> tuple[str, ...]:
    """The only words that are values of this type; none where there is no list of them."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return ("True", "False") if kind is bool else ("None",) if kind is NoneType else ()


def places_of(kind: type) -> list[str]:
    """The fields that stand for one word each, typed without a name."""
    import tyro

    hints = get_type_hints(kind, include_extras=True)
    needed = [each for each in dataclasses.fields(kind) if each.default is dataclasses.MISSING]
    kinds = {each.name: unwrapped(hints[each.name]) for each in needed}
    return [
        name
        for name, (inner, notes) in kinds.items()
        if tyro.conf.Positional in notes and get_origin(inner) is not tuple
    ]


def docstring_of(kind: type, field: str) -> str:
    """`: ` and the words below a field, as --help prints them; empty where there are none."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    for line, below in itertools.pairwise(body.body):
        is_field = isinstance(line, ast.AnnAssign) and ast.unparse(line.target) == field
        if is_field and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            words = " ".join(str(below.value.value).split()).removesuffix(".")
            return f": {words[:1].lower()}{words[1:]}"
    return ""
