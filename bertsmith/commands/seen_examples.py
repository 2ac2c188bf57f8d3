"""A model and the examples that it is to be scored on -> a note, where it has learned from them."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from bertsmith.commands.task_files import Split, typed_words
from bertsmith.runs.ancestry import examples_of
from bertsmith.tasks.own.split import SplitConfig

_FILES = ("texts", "tagged", "choices", "squad", "examples")
"""Options that name a file to learn from, which may be divided into training and Dev."""
_DIVISION = {"dev_share": SplitConfig.share, "split_seed": SplitConfig.seed}
"""How a file is divided, where nothing else is said."""
_READING = ("header", "skip_malformed")


def seen_note(model: Path, source: Mapping[str, object], split: Split | None) -> str | None:
    """What to tell of a source's examples; None where none of the model's runs had their file.

    Nor where just the share is asked for that a run held back, or by name what was learned from.
    """
    # A record that this version does not read, or that is another person's, tells nothing.
    with contextlib.suppress(ValueError, OSError):
        for learned in examples_of(model):
            if note := _note(learned, source, split):
                return note
    return None


def _note(
    learned: Mapping[str, object], source: Mapping[str, object], split: Split | None
) -> str | None:
    """The same of what one run was asked to learn from."""
    option = next((name for name in _FILES if name in learned), None)
    if option is None or split == "train":
        return None
    if source.get("dev", source.get(option)) != learned[option]:
        return None
    divided, asked = ({**_DIVISION, **_among(_DIVISION, each)} for each in (learned, source))
    if "dev" not in learned and split == "dev" and asked == divided:
        return None
    own = {
        **_among(("task_class",), learned),
        option: learned.get("dev", learned[option]),
        **_among((*_DIVISION, *_READING), learned),
    }
    words = shlex.join([*typed_words(own), *([] if "dev" in learned else ["--split", "dev"])])
    return (
        f"the model has learned from {learned[option]}: scores on examples that it has seen are "
        f"too high; its own Dev is {words}"
    )


def _among(names: Iterable[str], options: Mapping[str, object]) -> dict[str, object]:
    return {name: options[name] for name in names if name in options}
