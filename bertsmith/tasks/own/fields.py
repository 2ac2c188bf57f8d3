"""Values inside the columns of a row: fields of objects, and two lists that belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertsmith.reading.tables import Row
from bertsmith.tasks import given


@dataclass(frozen=True)
class Field:
    """A column, or a field inside the objects of one."""

    column: str
    inside: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, columns: Sequence[str]) -> Field:
        """`question.stem` is the field `stem` of `question`, but for a column of just that name."""
        column, *inside = name.split(".")
        return cls(name) if name in columns else cls(column, tuple(inside))

    def value(self, row: Row) -> object:
        """Raises ValueError, with the place, where an object has no such field."""
        value = row.values[self.column]
        path = self.column
        for name in self.inside:
            if not isinstance(value, Mapping) or name not in value:
                found = ", ".join(map(repr, value)) if isinstance(value, Mapping) else repr(value)
                raise ValueError(f"{row.place}: no field {name!r} in {path!r}, found {found:.80}")
            value, path = value[name], f"{path}.{name}"
        return value


def pairs_of(value: object, first: str, second: str) -> list[tuple[object, object]] | None:
    """Of a mapping of two lists, or of a list of mappings, what belongs together; else None."""
    if isinstance(value, Mapping):
        firsts, seconds = value.get(first), value.get(second)
        if not isinstance(firsts, list) or not isinstance(seconds, list):
            return None
        return list(zip(firsts, seconds, strict=True)) if len(firsts) == len(seconds) else None
    if not isinstance(value, list):
        return None
    pairs = [
        (each[first], each[second])
        for each in value
        if isinstance(each, Mapping) and {first, second} <= each.keys()
    ]
    return pairs if len(pairs) == len(value) else None


def text_of(value: object, place: str) -> str:
    """The text, empty for null. Raises ValueError, with the place, for no text."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{place} must hold text, found {type(value).__name__} {value!s:.40}")
    return given.text(value, place)
