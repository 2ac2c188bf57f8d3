"""Tensors of a file that no model takes -> a short note on them, and all their names.

It does not know why a tensor is left aside: whoever reads the file says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NAMES_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class LeftAside:
    """Tensors that were left aside for one reason."""

    reason: str
    """What they are, in words that go on after `left aside, `."""
    names: tuple[str, ...]
    """All of them."""
    is_counted_by_kind: bool = False
    """Whether the note counts the last parts of the names: an optimizer's are hundreds."""

    @property
    def note(self) -> str:
        """A line, however many they are."""
        return f"left aside, {self.reason}: {listed(self._parts)}"

    @property
    def is_named_in_full(self) -> bool:
        """Whether the note holds every name."""
        return set(self._parts[:_NAMES_SHOWN]) >= set(self.names)

    @property
    def _parts(self) -> Sequence[str]:
        if not self.is_counted_by_kind:
            return self.names
        counts = Counter(name.rpartition("/")[2] for name in self.names)
        return [kind if count == 1 else f"{count} {kind}" for kind, count in counts.items()]


def notes_on(groups: Sequence[LeftAside], model: str) -> tuple[str, ...]:
    """A note a group, and where one leaves names out, how to see all those of `model`."""
    notes = [group.note for group in groups]
    if not all(group.is_named_in_full for group in groups):
        count = sum(len(group.names) for group in groups)
        notes.append(f"all {count:,} names left aside: bertsmith.load({model!r}).left_aside")
    return tuple(notes)


def listed(names: Iterable[str]) -> str:
    """The first twelve names, and how many more there are."""
    names = list(names)
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
