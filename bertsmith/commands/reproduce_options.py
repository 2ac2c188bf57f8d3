"""The command line of `bertsmith reproduce`, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from bertsmith.commands.text_options import ReadingChoices
from bertsmith.recipes.experiments.tables import EXPERIMENTS

if TYPE_CHECKING:
    ExperimentName = str
else:
    ExperimentName = Literal[tuple(EXPERIMENTS)]
ScaleName = Literal["tiny", "mini", "paper"]


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Makes tables and figures of the paper, from text and labelled sets, and shows both figures.

    What is finished is found again, in the same table and in others; the same command goes on after
    any stop. Several processes may work in one directory: each takes what no other one holds.
    """

    experiments: tyro.conf.Positional[tuple[ExperimentName, ...]] = ()
    """Which; several share what they have in common."""
    scale: ScaleName = "mini"
    """tiny: minutes, to see that all works; mini: hours on two cores; paper: the paper's own."""
    text: tuple[Path, ...] = ()
    """Folders or files of text to pre-train on (paper: books and Wikipedia)."""
    data: Path | None = None
    """The folder of labelled sets: glue/, squad/, swag/, conll2003/, triviaqa/ as handed out."""
    out: Path = Path("runs/reproduce")
    """Where all runs and tables go."""
    found: tuple[Path, ...] = ()
    """What other machines have found of the same: found.jsonl of their --out; not made again."""
    list: bool = False
    """Say what each experiment, or each that is named, needs and takes, and with --data which sets
    are there, and end."""
    plan_only: bool = False
    """Print the plan with its time and memory, and end."""
    keep_models: bool = False
    """Keep the weights of every fine-tuning, not its scores and reports alone."""
    verbose: bool = False
    """Show all that each fine-tuning says."""
    accumulation: int = 1
    """Micro-batches a step, in pre-training and in fine-tuning: less memory, the same results."""
    device: str = "auto"
    """cpu, cuda, mps, or auto: the best there is."""
    threads: int | None = None
    """CPU threads (default: PyTorch's own choice)."""
    reading: Annotated[ReadingChoices, tyro.conf.arg(name="")] = field(
        default_factory=ReadingChoices
    )
    """How the text is read."""

    def __post_init__(self) -> None:
        """Refuses what names nothing to do."""
        if self.list:
            return
        if self.accumulation < 1:
            raise ValueError(f"accumulation must be at least 1, found {self.accumulation}")
        if not self.experiments:
            raise ValueError(
                "name what to reproduce: bertsmith reproduce table5 --text TEXT --data DATA "
                "(bertsmith reproduce --list says what there is)"
            )
        if not self.text or self.data is None:
            missing = "--text, to pre-train on" if not self.text else "--data, the labelled sets"
            raise ValueError(
                f"name {missing}: bertsmith reproduce {self.experiments[0]} --text TEXT --data DATA"
            )
