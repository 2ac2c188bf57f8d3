"""The values of a label column -> labels as text; labels of one file beside those of another.

A label is text, a number or a boolean, as the file has it; from here on it is its spelling. Where a
Parquet file brings names for its numbers, the names are the labels. It knows no texts.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Sequence

from bertsmith.model.task import unnamed_labels
from bertsmith.reading.counted import counted
from bertsmith.tasks import given
from bertsmith.tasks.label_lists import few
from bertsmith.tasks.own.files import UnusableRow

_UNLABELLED = -1
"""How the Hub's data sets mark a row without a label, where numbers have names."""


class Spelling:
    """How the labels of one column are spelt; it remembers what kinds of values it met."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        """`names` are those of the numbers 0, 1, ..., where the file has them."""
        self._names = names
        self._kinds: Counter[str] = Counter()
        self._num_with_blanks = self._num_repeated = 0
        self._first_with_blanks = self._first_repeated = ""

    def label(self, value: object, place: str) -> str:
        """One value as text.

        Raises ValueError, with the place, for what is no label; UnusableRow for the mark of none.
        """
        match value:
            case None:
                raise ValueError(f"{place}: no label")
            case bool():
                self._kinds["booleans"] += 1
                return "true" if value else "false"
            case int() if self._names:
                return self._named(value, place)
            case int() | float() if math.isfinite(value):
                self._kinds["numbers"] += 1
                return str(value)
            case str():
                self._kinds["texts"] += 1
                return self._without_blanks(given.text(value, f"{place}: the label"), place)
        raise ValueError(
            f"{place}: a label is text, a number or a boolean, found {type(value).__name__} "
            f"{value!s:.40}"
        )

    def labels(self, value: object, place: str, separator: str | None) -> tuple[str, ...]:
        """Any number of labels, each once: a list, or one text with the separator between.

        Raises as `label` does; a separator of None says that only a list will do.
        """
        if isinstance(value, str) and separator:
            parts = [part.strip() for part in value.split(separator)] if value.strip() else []
        elif isinstance(value, list):
            parts = value
        else:
            raise ValueError(
                f"{place}: expected a list of labels, found {type(value).__name__} {value!s:.40}"
            )
        counts = Counter(self.label(part, place) for part in parts)
        if len(counts) < len(parts):
            self._num_repeated += 1
            first = self._first_repeated or f"{counts.most_common(1)[0][0]!r:.40} at {place}"
            self._first_repeated = first
        return tuple(counts)

    def notes(self) -> tuple[str, ...]:
        """A line on each way in which labels are not what stands in the file, or are mixed."""
        told = []
        if self._kinds["booleans"]:
            told.append("labels that are booleans are spelt true and false")
        if len(self._kinds) > 1:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in self._kinds.items())
            told.append(f"labels of several kinds are told apart by their spelling: {kinds}")
        if self._names:
            told.append(f"numbers are labels by the file's own names: {few(self._names)}")
        if self._num_with_blanks:
            number = counted(self._num_with_blanks, "label")
            told.append(f"blanks around {number} are left out, the first {self._first_with_blanks}")
        if self._num_repeated:
            number = counted(self._num_repeated, "row names", "rows name")
            first = self._first_repeated
            told.append(f"{number} a label more than once, the first {first}: each counts once")
        return tuple(told)

    def _without_blanks(self, spelt: str, place: str) -> str:
        text = spelt.strip()
        if not text:
            raise ValueError(f"{place}: the label is empty")
        if text != spelt:
            self._num_with_blanks += 1
            first = self._first_with_blanks or f"at {place}: {spelt!r:.40} is {text!r:.40}"
            self._first_with_blanks = first
        return text

    def _named(self, number: int, place: str) -> str:
        if number == _UNLABELLED:
            raise UnusableRow(f"{place}: marked as unlabelled ({_UNLABELLED})")
        if not 0 <= number < len(self._names):
            raise ValueError(
                f"{place}: label {number} has no name; the file names 0 to {len(self._names) - 1}"
            )
        return self._names[number]


def require_known(labels: Iterable[tuple[str, str]], learned: Sequence[str]) -> None:
    """Refuses labels, each with its place, that are none of those learned: of all, the first.

    Raises ValueError that counts them and suggests the nearest.
    """
    known = set(learned)
    unknown: dict[str, str] = {}
    count = 0
    for label, place in labels:
        if label not in known:
            unknown.setdefault(label, place)
            count += 1
    if not unknown:
        return
    label, place = next(iter(unknown.items()))
    near = difflib.get_close_matches(label, learned, n=1)
    more = len(unknown) - 1
    others = f" and {counted(more, 'other label')}" if more else ""
    raise ValueError(
        f"{place}: label {label!r}{others} ({count:,} in all) {'are' if more else 'is'} none of "
        f"the {len(learned)} that are learned: {', '.join(learned):.200}"
        + (f"; did you mean {near[0]!r}?" if near else ".")
        + " Only labels of the training file can be scored: mend this one, or train with it"
    )


def difference(found: Sequence[str], learned: Sequence[str]) -> str:
    """How the labels of a file differ from those of a checkpoint's head; empty where they do not.

    The order is the head's own affair. A head whose labels nobody named has those of the file if
    they are as many, in their order.
    """
    if set(found) == set(learned):
        return ""
    if tuple(learned) == unnamed_labels(len(learned)):
        if len(found) == len(learned):
            return ""
        in_file = counted(len(found), "label")
        return f"{in_file} in the file, {len(learned)} without names in the checkpoint"
    parts = [
        f"only in {where}: {', '.join(only):.200}"
        for where, only in (
            ("the file", [label for label in found if label not in learned]),
            ("the checkpoint", [label for label in learned if label not in found]),
        )
        if only
    ]
    return "; ".join(parts)
