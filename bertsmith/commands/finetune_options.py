"""The command lines of `bertsmith finetune` and `bertsmith evaluate`: their options, as values.

Each field is an option, and so is each of the run in it: a recipe gives the values to begin with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from bertsmith.commands.sources.recipe import RecipeName, recipe_for
from bertsmith.commands.task_files import Split, TaskFiles, TaskValues
from bertsmith.commands.typed import typed_options
from bertsmith.recipes.finetuning import RECIPES, FinetuneRun
from bertsmith.tasks.squad_scores import SquadVersion
from bertsmith.train.config import AnswerPrecision

__all__ = ["Evaluate", "Finetune", "RecipeName", "TaskFiles", "TaskValues", "defaults_of"]


@dataclass(frozen=True, kw_only=True)
class Finetune:
    """Fine-tunes a BERT on a task; the same command again goes on with a stopped run."""

    model: tyro.conf.Positional[str] = ""
    """A name under models/, a path (a run stands for its newest checkpoint), or a Hub id."""
    files: Annotated[TaskFiles, tyro.conf.arg(name="")] = field(default_factory=TaskFiles)
    """Where examples come from."""
    values: Annotated[TaskValues, tyro.conf.arg(name="")] = field(default_factory=TaskValues)
    """How the task reads and scores them."""
    max_tokens: int | None = None
    """The longest sequence, special tokens included (default 128; --squad 384, --tagged 512)."""
    recipe: RecipeName = "glue"
    """Whose values the fields of the run start from; by default that of the kind of examples."""
    out: Path | None = None
    """The run's directory (default runs/MODEL-TASK, or runs/MODEL-KIND-FILE)."""
    resume: Path | None = None
    """Continue the run in this directory; all but device and threads comes from there."""
    features: Path | None = None
    """Where --approach feature_based keeps hidden states, for other runs too (default: features
    beside the run's directory)."""
    plan_only: bool = False
    """Print the plan, and stop before training."""
    overfit_one_batch: bool = False
    """In place of training, learn a few examples by heart: whether anything can be learned. The
    exit status is 1 where not; nothing of it is kept."""
    device: str = "auto"
    """cpu, cuda, mps, or auto: what the run began on, or the best there is."""
    threads: int | None = None
    """CPU threads (default: as many as the run began with, or PyTorch's own choice)."""
    run: Annotated[FinetuneRun, tyro.conf.arg(name="")] = field(default_factory=RECIPES["glue"])
    """Every field of the run."""
    typed: tyro.conf.Suppress[tyro.conf.Fixed[tuple[str, ...]]] = ()
    """Names of the options that stood on the command line."""


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Scores a fine-tuned model on labelled examples, or answers that any model gave."""

    models: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """A run of finetune, a search, or any checkpoint with a task.json; several: an ensemble too."""
    files: Annotated[TaskFiles, tyro.conf.arg(name="")] = field(default_factory=TaskFiles)
    """Where examples come from; sequences are as long as the model learned them."""
    split: Split | None = None
    """Of GLUE (default dev); of a single file the share held out (dev), or the rest (train)."""
    predictions: Path | None = None
    """Score these answers to the questions of --squad instead of a model: id -> text, in JSON."""
    null_odds: Path | None = None
    """Beside --predictions: id -> by how much no answer is likelier; gives the best threshold."""
    squad_version: SquadVersion | None = None
    """Whose evaluator scores --predictions; 2.0 may answer nothing (default: what the file is)."""
    report: Path | None = None
    """A new folder for the scores with tables and pictures, and the worst answers to read."""
    out: Path | None = None
    """Of --squad: a new folder for the answers, of several models as one, as the official evaluator
    (and --predictions) takes them."""
    device: str = "auto"
    """cpu, cuda, mps, or auto."""
    precision: AnswerPrecision | None = None
    """auto, fp32, bf16, fp16 or, on a CPU, int8 (default: what the run scored its model in)."""


def defaults_of(arguments: Sequence[str]) -> Finetune:
    """The defaults for these arguments: those of the recipe that they, or their examples, name."""
    recipe = recipe_for(arguments)
    return Finetune(recipe=recipe, run=RECIPES[recipe](), typed=typed_options(arguments))
