"""The command lines of `bertsmith finetune` and `bertsmith evaluate`: their options, as values.

Each field is an option, and so is each of the run in it: a recipe gives the values to begin with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bertsmith.commands.typed import typed_options, word_behind
from bertsmith.recipes.finetuning import RECIPES, FinetuneRun

RecipeName = Literal["glue", "squad", "squad2", "swag", "ner"]


@dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """Where examples come from."""

    glue: Path | None = None
    """The directory of GLUE's files, as the benchmark hands them out."""
    task: str | None = None
    """Of GLUE: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE or WNLI."""


@dataclass(frozen=True, kw_only=True)
class Finetune:
    """Fine-tunes a BERT on a task; the same command again goes on with a stopped run."""

    model: tyro.conf.Positional[str] = ""
    """A name under models/, a path (a run stands for its newest checkpoint), or a Hub id."""
    files: Annotated[TaskFiles, tyro.conf.arg(name="")] = field(default_factory=TaskFiles)
    """Where examples come from."""
    max_tokens: int = 128
    """The longest sequence, special tokens included; what does not fit is cut and counted."""
    recipe: RecipeName = "glue"
    """Whose values the fields of the run start from."""
    out: Path | None = None
    """The run's directory (default runs/MODEL-TASK)."""
    resume: Path | None = None
    """Continue the run in this directory; all but device and threads comes from there."""
    plan_only: bool = False
    """Print the plan, and stop before training."""
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
    """Scores a fine-tuned model on labelled examples."""

    model: tyro.conf.Positional[str]
    """A run of finetune, or any checkpoint with a task.json."""
    files: Annotated[TaskFiles, tyro.conf.arg(name="")] = field(default_factory=TaskFiles)
    """Where examples come from; sequences are as long as the model learned them."""
    split: Literal["train", "dev"] = "dev"
    """Which of the files."""
    report: Path | None = None
    """A new folder for the scores with tables and pictures, and the worst answers to read."""
    device: str = "auto"
    """cpu, cuda, mps, or auto."""


def defaults_of(arguments: Sequence[str]) -> Finetune:
    """The defaults for these arguments: those of the recipe that they name."""
    # An unknown name gets some defaults here; tyro then reports it, with the choices.
    recipe = RECIPES.get(word_behind("--recipe", arguments) or "glue", RECIPES["glue"])
    return Finetune(run=recipe(), typed=typed_options(arguments))
