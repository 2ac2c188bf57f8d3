"""The labelled sets that the paper's models are measured on, and where their files are looked for.

A folder of data holds GLUE's directories under `glue/`, and `squad/`, `swag/`, `conll2003/` and
`triviaqa/` beside them, with the files as they are handed out, compressed (.gz) or not. TriviaQA is
not handed out in SQuAD's layout: its file is a person's own making.

Source: Devlin et al. 2018, section 4; the sizes are those of the official sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bertsmith.recipes import finetuning
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.tasks import glue


@dataclass(frozen=True, kw_only=True)
class Exam:
    """A set to learn from and one to be measured on."""

    name: str
    files: Mapping[str, str]
    """Options of `bertsmith finetune` -> values; those of `paths` lead on from the data's folder.
    """
    paths: tuple[str, ...]
    metric: str
    """What counts, as the task names it."""
    run: FinetuneRun
    """The paper's values."""
    num_train: int | None
    """Examples of the official training set, where there is one: another number is told."""
    num_dev: int
    """The same of what it is measured on."""
    mean_tokens: float
    """Of a training example, about, in the paper's vocabulary: what it costs is told by it."""
    is_small: bool = False
    """Whether chance is large on it: more restarts."""
    is_percent: bool = False
    """Whether scores come from 0 to 100 and not from 0 to 1."""
    also: str = ""
    """Another set that the same models are measured on, before their weights are deleted."""
    remark: str = ""
    """What its file has to hold."""

    def departures(self, num_train: int | None, num_dev: int) -> list[str]:
        """How a set of these sizes differs from the official one; nothing for the official one."""
        told = []
        if self.num_train is not None and num_train != self.num_train:
            told.append(
                f"{num_train:,} training examples are there, and {self.num_train:,} are official"
            )
        if num_dev != self.num_dev:
            told.append(
                f"measured on {num_dev:,} examples of Dev, and {self.num_dev:,} are official"
            )
        return told


def _glue(name: str, mean_tokens: float, *, is_small: bool = False, also: str = "") -> Exam:
    task = glue.task_named(name)
    learned = glue.task_named("MNLI-m") if task.num_train is None else task
    return Exam(
        name=name,
        files={"glue": "glue", "task": name},
        paths=("glue",),
        metric=task.metrics[0],
        run=finetuning.glue(),
        num_train=learned.num_train,
        num_dev=task.num_dev,
        mean_tokens=mean_tokens,
        is_small=is_small,
        also=also,
    )


def _squad(
    name: str,
    train: str,
    dev: str,
    run: FinetuneRun,
    num_train: int | None,
    num_dev: int,
    mean_tokens: float,
    *,
    remark: str = "",
) -> Exam:
    return Exam(
        name=name,
        files={"squad": train, "dev": dev},
        paths=("squad", "dev"),
        metric="f1",
        run=run,
        num_train=num_train,
        num_dev=num_dev,
        mean_tokens=mean_tokens,
        is_percent=True,
        remark=remark,
    )


_SQUAD_DEV = "squad/dev-v1.1.json"
_ALL = (
    _glue("CoLA", 11.3, is_small=True),
    _glue("SST-2", 13.3),
    _glue("MRPC", 53.2, is_small=True),
    _glue("STS-B", 27.8, is_small=True),
    _glue("QQP", 30.4),
    _glue("MNLI-m", 39.1, also="MNLI-mm"),
    _glue("MNLI-mm", 39.1),  # learned with MNLI-m's examples
    _glue("QNLI", 50.0),
    _glue("RTE", 66.6, is_small=True),
    _squad(
        "SQuAD 1.1", "squad/train-v1.1.json", _SQUAD_DEV, finetuning.squad(), 87_599, 10_570, 174.1
    ),
    _squad(
        "SQuAD 2.0",
        "squad/train-v2.0.json",
        "squad/dev-v2.0.json",
        finetuning.squad2(),
        130_319,
        11_873,
        174.1,
    ),
    _squad(
        "TriviaQA",
        "triviaqa/train.json",
        _SQUAD_DEV,
        finetuning.squad(),
        None,
        10_570,
        384.0,
        remark="questions in SQuAD's layout; each passage the first 400 tokens of a document, if "
        "they hold at least one of the answers, as in the paper",
    ),
    Exam(
        name="SWAG",
        files={"choices": "swag/train.csv", "dev": "swag/val.csv"},
        paths=("choices", "dev"),
        metric="accuracy",
        run=finetuning.swag(),
        num_train=73_546,
        num_dev=20_006,
        mean_tokens=120.0,
    ),
    Exam(
        name="CoNLL-2003",
        files={"tagged": "conll2003/eng.train", "dev": "conll2003/eng.testa"},
        paths=("tagged", "dev"),
        metric="f1",
        run=finetuning.ner(),
        num_train=14_041,
        num_dev=3_250,
        mean_tokens=25.3,
    ),
)
EXAMS = {exam.name: exam for exam in _ALL}
