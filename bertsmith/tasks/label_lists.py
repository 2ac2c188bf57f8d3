"""Labels, and how often each occurs -> what is said of them before training, short if many.

It knows no kind of task.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bertsmith.reading.counted import counted

MOST_LISTED = 20
"""Of more labels the most frequent are listed."""
_MOST_ALIKE = 3
_LONGEST = 40
"""Characters of a label that are shown."""


def label_counts(labels: Iterable[Iterable[str]]) -> dict[str, int]:
    """How often each label occurs in all examples, the most frequent first."""
    return dict(Counter(label for of_example in labels for label in of_example).most_common())


def listed(counts: Mapping[str, int], total: int) -> str:
    """`good 12 (60.0%), bad 8 (40.0%)`, in the order given; of many labels the most frequent.

    `total` is what the shares are of.
    """

    def told(label: str) -> str:
        return f"{_shown(label)} {counts[label]:,} ({counts[label] / max(1, total):.1%})"

    if len(counts) <= MOST_LISTED:
        return ", ".join(map(told, counts))
    ranked = sorted(counts, key=lambda label: -counts[label])
    most = ", ".join(map(told, ranked[:MOST_LISTED]))
    return f"{most}, and {len(counts) - MOST_LISTED:,} more, the rarest {told(ranked[-1])}"


def few(names: Sequence[str], most: int = MOST_LISTED) -> str:
    """`a, b and 130 more`; all where there are not more than `most`."""
    more = len(names) - most
    told = ", ".join(map(_shown, names[:most]))
    return f"{told} and {more:,} more" if more > 0 else told


def held_against(learned: Mapping[str, int], counts: Mapping[str, int]) -> str:
    """How many of the learned labels occur in another set, in place of a second long list."""
    found = {label: counts[label] for label in learned if counts.get(label)}
    others = sum(count > 0 for label, count in counts.items() if label not in learned)
    known = f"of the {counted(len(learned), 'label')}"
    told = f"none {known} occurs"
    if found:
        most = max(found, key=lambda label: found[label])
        told = (
            f"{len(found):,} {known} {'occurs' if len(found) == 1 else 'occur'}, the most frequent "
            f"{_shown(most)}: {counted(found[most], 'time')}"
        )
    if not others:
        return told
    return f"{told}; {counted(others, 'label stands', 'labels stand')} in no example to train on"


def alike(labels: Iterable[str]) -> str:
    """Which labels a person would hardly tell apart; empty where there are none."""
    groups: dict[str, list[str]] = {}
    for label in sorted(labels):
        groups.setdefault(_core(label), []).append(label)
    told = [_and(group) for group in groups.values() if len(group) > 1]
    if not told:
        return ""
    more = len(told) - _MOST_ALIKE
    shown = [*told[:_MOST_ALIKE], *([f"and {more:,} more of this kind"] if more > 0 else [])]
    return (
        f"labels that differ in capitals, blanks or Unicode form alone, and are learned as "
        f"several: {'; '.join(shown)}"
    )


def _shown(label: str) -> str:
    """Of a whole text, where the column of labels is none, the beginning."""
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}\u2026"


def _core(label: str) -> str:
    return " ".join(unicodedata.normalize("NFC", label).split()).casefold()


def _and(names: Sequence[str]) -> str:
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}"
