"""The command line of `bertsmith pretrain`: its options, as a typed value.

Each field of `Pretrain` is an option, and so is each of the run in it: a recipe gives the values to
begin with. What they ask for together is in `request.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bertsmith.commands.text_options import TextChoices
from bertsmith.commands.typed import typed_options, word_behind, words_behind
from bertsmith.recipes.pretraining import RECIPES
from bertsmith.recipes.run import Phase, PretrainRun, stretched

RecipeName = Literal[
    "auto", "paper-base", "paper-large", "mini-cpu", "quickstart", "modern", "further"
]
SizeName = Literal["auto", "tiny", "mini", "small", "medium", "base", "large"]


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """Makes a BERT from text; without a recipe, all is chosen from the text and --minutes."""

    texts: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders or files of text, or one corpus that build-corpus made."""
    from_model: Annotated[str | None, tyro.conf.arg(name="from")] = None
    """Go on from this model, with its sizes, vocabulary and weights: a name under models/, a path
    (a run stands for its newest checkpoint), or a Hub id."""
    add_words: Path | None = None
    """With --from: a file of words, one a line, each of which becomes a single entry of the
    vocabulary."""
    recipe: RecipeName = "auto"
    """Whose values the fields of the run start from; auto: mini-cpu, or with --from further, fitted
    to text and time."""
    minutes: float | None = None
    """Time to fit the number of steps to; default 60 for auto, else the recipe's own steps."""
    steps: int | None = None
    """Updates in all, instead of a time: phases and warm-up keep their shares."""
    size: SizeName = "auto"
    """The model's size by name; auto: the recipe's own, or chosen from text and time."""
    out: Path | None = None
    """The run's directory (default runs/NAME, by the first text's name; with --from
    runs/MODEL-NAME)."""
    resume: Path | None = None
    """Continue the run in this directory; all but device and threads comes from there."""
    plan_only: bool = False
    """Prepare the corpus, print the plan, and stop before training."""
    overfit_one_batch: bool = False
    """In place of training, learn a few sequences by heart: whether anything can be learned. The
    exit status is 1 where not; nothing of it is kept but the corpus."""
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


def defaults_of(arguments: Sequence[str]) -> Pretrain:
    """The defaults for these arguments: those of the recipe that they name.

    Where --steps and --phases are typed, the recipe's other steps keep their shares of the phases.
    """
    recipe = recipe_for(word_behind("--recipe", arguments), word_behind("--from", arguments))
    run, typed = recipe_of(recipe), typed_options(arguments)
    if "--steps" in typed:
        run = _with_steps_of(words_behind("--phases", arguments), run)
    return Pretrain(run=run, typed=typed)


def recipe_for(recipe: str | None, from_model: str | None) -> str:
    """The name of the recipe that is meant: auto is another one where a model is gone on from."""
    is_auto = recipe in (None, "auto")
    return "further" if is_auto and from_model is not None else recipe or "auto"


def recipe_of(name: str) -> PretrainRun:
    """The named recipe."""
    # An unknown name gets some defaults here; tyro then reports it, with the choices.
    return RECIPES.get(name, RECIPES["mini-cpu"])()


def _with_steps_of(phases: Sequence[str], run: PretrainRun) -> PretrainRun:
    """The run over as many steps as typed phases have; tyro puts what is typed in its place."""
    try:
        num_steps = sum(Phase.parse(phase).steps for phase in phases)
    except ValueError:  # tyro reports it
        return run
    if num_steps < 2:
        return run
    in_one = replace(run, phases=(replace(run.phases[0], steps=run.num_steps),))
    return stretched(in_one, num_steps)
