"""A GLUE directory and a model that fine-tune in seconds: made-up sentences, a toy encoder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bertsmith import cli, fusion
from bertsmith.checkpoints import store
from bertsmith.model.config import Objective
from bertsmith.randomness import integers
from tests.checkpoints.tiny import tiny_model, tiny_tokenizer

POSITIVE, NEGATIVE = ("likes", "my", "hairy"), ("was", "a", "paris")
RUN = (
    "--task", "SST-2", "--max-tokens", "16", "--batch-size", "4", "--epochs", "3",
    "--precision", "fp32", "--threads", "1", "--log-every", "5", "--save-every", "0.2",
    "--evaluate-every", "0.5", "--optimizer.learning-rate", "1e-3",
)  # fmt: skip
"""The options of a run beside its model, files and directory."""
NUM_STEPS = 30
_SCORE = re.compile(r"  \S+( \S+)* +-?[\d.e+-]+(  \(95%: .*\))?")


def write_glue(folder: Path, num_train: int = 40, num_dev: int = 20) -> Path:
    """Writes SST-2's files: a sentence is positive when its words are."""
    (folder / "SST-2").mkdir(parents=True, exist_ok=True)
    for name, count, key in (("train", num_train, 1), ("dev", num_dev, 2)):
        draws = integers(3, key, np.arange(count * 4)).reshape(count, 4).tolist()
        lines = ["sentence\tlabel"]
        for number, row in enumerate(draws):
            words = POSITIVE if number % 2 else NEGATIVE
            lines.append(f"the {' '.join(words[draw] for draw in row)} dog\t{number % 2}")
        (folder / "SST-2" / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_model(folder: Path, *objectives: Objective) -> Path:
    """Writes a pre-trained model that has learned nothing."""
    model = tiny_model(*objectives)
    store.save(folder, model, model.config, tiny_tokenizer())
    return folder


def begun(folder: Path, out: Path) -> tuple[object, ...]:
    """The arguments that begin a run of `folder`'s model and files."""
    return ("finetune", folder / "model", "--glue", folder / "glue", *RUN, "--out", out)


def score_lines(told: Iterable[str]) -> list[str]:
    """The lines of a model's scores, each with its interval where it has one."""
    return [line for line in told if _SCORE.fullmatch(line)]


def bertsmith(*arguments: object) -> int:
    """The command line in this process, without waiting for compiled kernels."""
    with fusion.unfused():
        return cli.main([str(argument) for argument in arguments])
