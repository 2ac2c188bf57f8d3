"""The command line of `bertsmith pretrain` -> what a person asks for.

Each field of `Pretrain` is an option, and so is each of the run in it: a recipe gives the values to
begin with. It looks at no text and at no machine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bertsmith.commands.preparation import TextChoices, is_corpus
from bertsmith.model.config import SIZES, BertConfig
from bertsmith.recipes.pretraining import RECIPES
from bertsmith.recipes.run import STEP_FIELDS, PretrainRun, stretched, to_json

RecipeName = Literal["auto", "paper-base", "paper-large", "mini-cpu", "quickstart", "modern"]
SizeName = Literal["auto", "tiny", "mini", "small", "medium", "base", "large"]

DEFAULT_MINUTES = 60.0
_BESIDE_RESUME = ("resume", "device", "threads", "tensorboard")
"""Options that a resumed run takes; all others were settled when it began."""
_BESIDE_A_CORPUS = ("workers",)
"""Options on text that mean something for a finished corpus."""
_FITTED = ("auto", "mini-cpu", "quickstart")
"""Recipes whose peak rate and initial weights are chosen for a size; others state theirs."""


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """Makes a BERT from text; without a recipe, all is chosen from the text and --minutes."""

    texts: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders or files of text, or one corpus that build-corpus made."""
    recipe: RecipeName = "auto"
    """Whose values the fields of the run start from; auto: mini-cpu, fitted to text and time."""
    minutes: float | None = None
    """Time to fit the number of steps to; default 60 for auto, else the recipe's own steps."""
    steps: int | None = None
    """Updates in all, instead of a time: phases and warm-up keep their shares."""
    size: SizeName = "auto"
    """The model's size by name; auto: the recipe's own, or chosen from text and time."""
    out: Path | None = None
    """The run's directory (default runs/NAME, by the first text's name)."""
    resume: Path | None = None
    """Continue the run in this directory; all but device and threads comes from there."""
    plan_only: bool = False
    """Prepare the corpus, print the plan, and stop before training."""
    text: Annotated[TextChoices, tyro.conf.arg(name="")] = field(default_factory=TextChoices)
    """How text becomes a corpus."""
    device: str = "auto"
    """cpu, cuda, mps, or auto: what the run began on, or the best there is."""
    threads: int | None = None
    """CPU threads (default: as many as the run began with, or PyTorch's own choice)."""
    tensorboard: bool = False
    """Also write TensorBoard event files."""
    run: Annotated[PretrainRun, tyro.conf.arg(name="")] = field(default_factory=RECIPES["mini-cpu"])
    """Every field of the run."""
    typed: tyro.conf.Suppress[tyro.conf.Fixed[tuple[str, ...]]] = ()
    """Names of the options that stood on the command line."""


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
    asked: dict[str, object]
    """The request as JSON values, to recognise it when it is made again."""


def defaults_of(arguments: Sequence[str]) -> Pretrain:
    """The defaults for these arguments: those of the recipe that they name."""
    name = "auto"
    for place, argument in enumerate(arguments):
        if argument.startswith("--recipe="):
            name = argument.removeprefix("--recipe=")
        elif argument == "--recipe" and place + 1 < len(arguments):
            name = arguments[place + 1]
    options = (word.partition("=")[0].replace("_", "-") for word in arguments if word[:2] == "--")
    return Pretrain(run=_recipe(name), typed=tuple(options))


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
    elif is_corpus(options.texts):
        settled = {field.name for field in fields(TextChoices)}.difference(_BESIDE_A_CORPUS)
        told = [option for option in options.typed if _field(option) in settled]
        if told:
            raise ValueError(
                f"{options.texts[0]} is a finished corpus, and {', '.join(told)} would change "
                f"nothing in it: leave that out, or name the text that the corpus was made of"
            )


def request_of(options: Pretrain) -> Request:
    """What the options ask for: what was left at auto is chosen only where nothing else was set.

    Raises ValueError for options that contradict each other.
    """
    is_auto, size, minutes = options.recipe == "auto", str(options.size), options.minutes
    recipe, run = _recipe(options.recipe), options.run
    kept = frozenset(n for n in STEP_FIELDS if "--" + n.replace("_", "-") in options.typed)
    if minutes is not None and not 0.0 < minutes < math.inf:
        raise ValueError(f"--minutes must be above 0, found {minutes:g}")
    if options.steps is not None:
        if minutes is not None:
            raise ValueError("give --steps or --minutes, not both: each decides how long to train")
        run = stretched(run, options.steps, kept)
    if size in SIZES and _shape(run.model) != _shape(recipe.model):
        raise ValueError(
            f"--size {size} decides layers, width, heads and feed-forward width: give it, or these "
            f"fields of --model, not both"
        )
    if size == "auto" and not (is_auto and run.model == recipe.model):
        size = "recipe"
    if minutes is None and is_auto and run.phases == recipe.phases:
        minutes = DEFAULT_MINUTES
    if minutes is None and size == "auto":
        size = "recipe"
    return Request(
        texts=options.texts,
        text=options.text,
        run=run,
        size=size,
        brings=_brings(options, recipe),
        kept=kept,
        minutes=minutes,
        asked={
            "texts": [str(path.resolve()) for path in options.texts],
            "text": options.text.to_json(),
            "recipe": options.recipe,
            "size": size,
            "minutes": minutes,
            "run": json.loads(json.dumps(to_json(run))),
        },
    )


def _field(option: str) -> str:
    """`--no-plan-only` -> `plan_only`."""
    return option.removeprefix("--").removeprefix("no-").replace("-", "_")


def _recipe(name: str) -> PretrainRun:
    # An unknown name gets some defaults here; tyro then reports it, with the choices.
    return RECIPES.get(name, RECIPES["mini-cpu"])()


def _shape(model: BertConfig) -> tuple[int, int, int, int]:
    return (
        model.num_hidden_layers,
        model.hidden_size,
        model.num_attention_heads,
        model.intermediate_size,
    )


def _brings(options: Pretrain, recipe: PretrainRun) -> frozenset[str]:
    if options.recipe not in _FITTED:
        return frozenset()
    run = options.run
    is_untouched = {
        "learning_rate": run.optimizer.learning_rate == recipe.optimizer.learning_rate
        and "--optimizer.learning-rate" not in options.typed,
        "initializer_range": run.model.initializer_range == recipe.model.initializer_range
        and "--model.initializer-range" not in options.typed,
    }
    return frozenset(name for name, untouched in is_untouched.items() if untouched)
