"""Every recipe says where it comes from, how it is made, and what to expect at each scale."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable

import pytest

from bertsmith.recipes import ablations, finetuning, pretraining
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from tests.test_docs import Shown, arguments_of, understood

RECIPES: list[Callable[..., object]] = [
    *EXPERIMENTS.values(),
    *pretraining.RECIPES.values(),
    finetuning.glue, finetuning.squad, finetuning.squad2, finetuning.swag, finetuning.ner,
    finetuning.ner_features, finetuning.probe,
    ablations.no_nsp, ablations.one_way, ablations.lstm, ablations.resized, ablations.masked,
    ablations.with_bilstm,
]  # fmt: skip
LABEL = re.compile(r"^(Source|Command|Expected|tiny|mini|paper): ", re.MULTILINE)
AT_SCALES = ["Source", "Command", "tiny", "mini", "paper"]
AS_IT_IS = ["Source", "Command", "Expected"]


def parts_of(recipe: Callable[..., object]) -> dict[str, str]:
    """What its docstring says, by label."""
    _, *found = LABEL.split(inspect.getdoc(recipe) or "")
    return {
        name: " ".join(text.split()) for name, text in zip(found[::2], found[1::2], strict=True)
    }


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.__name__)
def test_a_recipe_tells_source_command_time_memory_and_score(
    recipe: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = parts_of(recipe)
    assert list(parts) in (AT_SCALES, AS_IT_IS)
    for name in parts.keys() - {"Source", "Command"}:
        told = parts[name]
        assert told.endswith("."), told
        assert len(told.split("; ")) == 3, f"{name}: time; memory; score. Found {told!r}"
    command = parts["Command"].strip("`").replace("SCALE", "tiny")
    arguments = arguments_of(shlex.split(command))
    assert arguments is not None
    assert understood(Shown(recipe.__name__, arguments, False), monkeypatch), command


def test_every_recipe_there_is_has_such_a_docstring() -> None:
    assert {name.split("-")[0] for name in finetuning.RECIPES} <= {
        recipe.__name__.split("_")[0] for recipe in RECIPES
    }
    made = {
        name
        for name, value in vars(ablations).items()
        if inspect.isfunction(value) and value.__module__ == ablations.__name__
    }
    assert made <= {recipe.__name__ for recipe in RECIPES}
