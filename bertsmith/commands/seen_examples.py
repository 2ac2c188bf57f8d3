"""A model and the examples that it is to be scored on -> a note, where it has learned from them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from bertsmith.commands.task_files import Split, typed_words
from bertsmith.runs.ancestry import examples_of

_FILES = ("texts", "tagged", "choices", "squad", "examples")
"""Options that name a file to learn from, which may be divided into training and Dev."""
_DIVISION = ("dev_share", "split_seed")


def seen_note(model: Path, source: Mapping[str, object], split: Split | None) -> str | None:
    """What to tell of a source's examples; None where the model has not learned from their file.

    Nor where just the share is asked for that its run held back, or by name what it learned from.
    """
    learned = examples_of(model)
    option = next((name for name in _FILES if name in learned), None)
    if option is None or split == "train":
        return None
    if source.get("dev", source.get(option)) != learned[option]:
        return None
    divided = {name: learned[name] for name in _DIVISION if name in learned}
    asked = {name: source[name] for name in _DIVISION if name in source}
    if "dev" not in learned and split == "dev" and asked == divided:
        return None
    own = {option: learned.get("dev", learned[option]), **divided}
    words = shlex.join([*typed_words(own), *([] if "dev" in learned else ["--split", "dev"])])
    return (
        f"the model has learned from {learned[option]}: scores on examples that it has seen are "
        f"too high; its own Dev is {words}"
    )
