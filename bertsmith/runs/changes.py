"""A run and the recipe that it began from -> what differs, field by field."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from bertsmith.recipes.pretraining import RECIPES
from bertsmith.recipes.run import PretrainRun

_CHOSEN_FOR_ALL = ("name", "model.vocab_size", "precision")
"""What the vocabulary and the machine decide, and what the run is called."""
_AUTO = "mini-cpu"
_OF_A_MODEL = "further"
"""The recipe without a size of its own: that of the model that is gone on from."""


def recipe_behind(run: PretrainRun, request: Mapping[str, object]) -> str | None:
    """The name of the recipe that the request began from; None for a run of a person's own."""
    asked = str(request.get("recipe", run.name))
    name = _AUTO if asked == "auto" else asked
    return name if name in RECIPES else None


def changes_to(recipe: str, run: PretrainRun) -> list[str]:
    """`model.hidden_size 128 (recipe: 256)`, for every field that is not as in the recipe."""
    before = dict(_fields(RECIPES[recipe]()))
    return [
        f"{name} {value} (recipe: {before[name]})"
        for name, value in _fields(run)
        if value != before[name]
        and name not in _CHOSEN_FOR_ALL
        and not (recipe == _OF_A_MODEL and name.startswith("model."))
    ]


def _fields(value: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(name, value as words), those of the dataclasses inside included."""
    assert dataclasses.is_dataclass(value)
    for field in dataclasses.fields(value):
        name, inner = prefix + field.name, vars(value)[field.name]
        if dataclasses.is_dataclass(inner):
            yield from _fields(inner, f"{name}.")
        else:
            yield name, " ".join(map(str, inner)) if isinstance(inner, tuple) else str(inner)
