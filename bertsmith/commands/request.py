"""The options of `bertsmith pretrain` -> what a person asks for, or why it cannot be asked for.

What was left at auto is chosen later, from the text and the machine: it looks at neither. What
`--from` decides is in `going_on.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from bertsmith.commands.accepted_options import options_of
from bertsmith.commands.going_on import GoingOn, going_on, require_fitting, run_of_model
from bertsmith.commands.overfitting import require_no_plan_only
from bertsmith.commands.preparation import is_corpus
from bertsmith.commands.pretrain_options import Pretrain, recipe_for, recipe_of
from bertsmith.commands.text_options import TextChoices, VocabularyChoices
from bertsmith.model.config import SIZES
from bertsmith.recipes.run import STEP_FIELDS, PretrainRun, stretched, to_json

DEFAULT_MINUTES = 60.0
_BESIDE_RESUME = ("resume", "device", "threads", "tensorboard")
"""Options that a resumed run takes; all others were settled when it began."""
_BESIDE_A_CORPUS = frozenset({"--workers"})
"""Options on text that mean something for a finished corpus."""
_SHAPE_OPTIONS = (
    "--model.num-hidden-layers",
    "--model.hidden-size",
    "--model.num-attention-heads",
    "--model.intermediate-size",
)
"""What a size decides."""
_FITTED = ("auto", "mini-cpu", "quickstart", "further")
"""Recipes whose peak rate and initial weights are chosen for a size; others state theirs."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a person asked for."""

    texts: tuple[Path, ...]
    """Folders or files of text, or one corpus."""
    text: TextChoices
    """How they become a corpus."""
    run: PretrainRun
    """The values to begin with."""
    size: str
    """A name of `model.config.SIZES`, `auto` to choose one, `recipe` to keep the run's own."""
    brings: frozenset[str] = frozenset()
    """Of `learning_rate` and `initializer_range`, those that a size brings with it."""
    kept: frozenset[str] = frozenset()
    """Of `STEP_FIELDS`, those that were typed: another number of steps leaves them alone."""
    minutes: float | None
    """Time of the whole command, to fit the steps to; None keeps the run's own steps."""
    model: GoingOn | None = None
    """What the run goes on from; None where weights are drawn."""
    asked: dict[str, object]
    """The request as JSON values, to recognise it when it is made again."""


def require_effective(options: Pretrain) -> None:
    """Raises ValueError where a typed option would be passed over."""
    if options.resume is not None:
        told = [option for option in options.typed if _field(option) not in _BESIDE_RESUME]
        if told or options.texts:
            beside = ", ".join([*map(str, options.texts), *told])
            raise ValueError(
                f"--resume takes everything from {options.resume}, {beside} included: leave it "
                f"out, or start a new run in another directory"
            )
        return
    require_no_plan_only(options.plan_only, options.overfit_one_batch)
    require_fitting(options)
    if is_corpus(options.texts):
        _require_none_of(
            {option.name for option in options_of(TextChoices)} - _BESIDE_A_CORPUS,
            options,
            f"{options.texts[0]} is a finished corpus, and",
            "name the text that the corpus was made of",
        )
    if options.text.vocab is not None:
        _require_none_of(
            {"--vocab-size", *(option.name for option in options_of(VocabularyChoices))},
            options,
            f"{options.text.vocab} is a finished vocabulary, and",
            "leave --vocab out to learn one from the text",
        )
    _require_none_of(
        {"--model.vocab-size"},
        options,
        "the model has a row for every entry of the vocabulary:",
        "say with --vocab-size how many to learn",
    )


def request_of(options: Pretrain) -> Request:
    """What the options ask for: what was left at auto is chosen only where nothing else was set.

    Raises ValueError for options that contradict each other, or a model that is gone on from.
    """
    is_auto, size, minutes = options.recipe == "auto", str(options.size), options.minutes
    name, run = recipe_for(options.recipe, options.from_model), options.run
    recipe, model = recipe_of(name), going_on(options)
    kept = frozenset(n for n in STEP_FIELDS if _is_typed(options, "--" + n.replace("_", "-")))
    if minutes is not None and not 0.0 < minutes < math.inf:
        raise ValueError(f"--minutes must be above 0, found {minutes:g}")
    if options.steps is not None:
        if minutes is not None:
            raise ValueError("give --steps or --minutes, not both: each decides how long to train")
        run = stretched(run, options.steps, kept)
    is_other_shape = run.model != run.model.shaped(recipe.model)
    is_shape_set = is_other_shape or _is_typed(options, *_SHAPE_OPTIONS)
    if size in SIZES and is_shape_set:
        raise ValueError(
            f"--size {size} decides layers, width, heads and feed-forward width: give it, or these "
            f"fields of --model, not both"
        )
    is_model_set = run.model != recipe.model or _is_typed(options, "--model.")
    if size == "auto" and (is_model_set or not is_auto):
        size = "recipe"
    is_length_set = run.phases != recipe.phases or _is_typed(options, "--steps", "--phases")
    if minutes is None and is_auto and not is_length_set:
        minutes = DEFAULT_MINUTES
    if (minutes is None and size == "auto") or model is not None:
        size = "recipe"
    brings = _brings(options, recipe)
    if model is not None:
        run = run_of_model(run, model, is_rate_set="learning_rate" not in brings)
    return Request(
        texts=options.texts,
        text=options.text,
        run=run,
        size=size,
        brings=brings,
        kept=kept,
        minutes=minutes,
        model=model,
        asked={
            "texts": [str(path.resolve()) for path in options.texts],
            "text": options.text.to_json(),
            "recipe": options.recipe if model is None else name,
            "size": size,
            "minutes": minutes,
            "run": json.loads(json.dumps(to_json(run))),
            **({} if model is None else {"from": model.to_json()}),
        },
    )


def _require_none_of(names: Set[str], options: Pretrain, reason: str, instead: str) -> None:
    told = [option for option in options.typed if option in names]
    if told:
        raise ValueError(
            f"{reason} {', '.join(told)} would change nothing: leave that out, or {instead}"
        )


def _is_typed(options: Pretrain, *names: str) -> bool:
    """Whether one of them was typed: a typed value counts even where it is the recipe's own.

    A name that ends in a dot stands for all options that begin with it.
    """
    return any(
        option == name or (name.endswith(".") and option.startswith(name))
        for option in options.typed
        for name in names
    )


def _field(option: str) -> str:
    """`--no-plan-only` -> `plan_only`."""
    return option.removeprefix("--").removeprefix("no-").replace("-", "_")


def _brings(options: Pretrain, recipe: PretrainRun) -> frozenset[str]:
    if recipe_for(options.recipe, options.from_model) not in _FITTED:
        return frozenset()
    run = options.run
    is_untouched = {
        "learning_rate": run.optimizer.learning_rate == recipe.optimizer.learning_rate
        and not _is_typed(options, "--optimizer.learning-rate"),
        "initializer_range": run.model.initializer_range == recipe.model.initializer_range
        and not _is_typed(options, "--model.initializer-range"),
    }
    return frozenset(name for name, untouched in is_untouched.items() if untouched)
