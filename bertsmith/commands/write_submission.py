"""`bertsmith write-submission`: runs of GLUE's tasks -> the zip that the benchmark takes.

    bertsmith write-submission runs/mini-en-* --glue GLUE --out glue.zip

All eleven TSVs, named, headed and spelt as the benchmark has them. MNLI's model answers both of its
tests and the diagnostics. Tests stream through, and one model at a time is held.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from bertsmith.train.config import AnswerPrecision

if TYPE_CHECKING:
    from bertsmith.inference import Predictor
    from bertsmith.tasks.classify import TextAnswer, TextExample
    from bertsmith.tasks.glue import GlueTask

_WINDOW = 4096
_OF_MNLI = ("MNLI-mm", "AX")


@dataclass(frozen=True, kw_only=True)
class WriteSubmission:
    """Answers GLUE's tests with the models of its tasks, for gluebenchmark.com."""

    runs: tyro.conf.Positional[tuple[str, ...]] = ()
    """A run of each task (bertsmith finetune --glue), in any order."""
    glue: Path
    """The directory of GLUE's files, as the benchmark hands them out."""
    out: Path = Path("glue.zip")
    """The zip to write."""
    fill: bool = False
    """Answer a task without a run by one constant, since the benchmark takes all eleven or none
    (paper: so WNLI, by its majority class)."""
    force: bool = False
    """Replace what is at --out."""
    device: str = "auto"
    """cpu, cuda, mps, or auto."""
    precision: AnswerPrecision = "auto"
    """bf16, fp16, fp32, int8 (on a CPU, faster and a little less exact), or auto: bf16 or fp16
    where the hardware multiplies it faster."""


def write_submission(options: WriteSubmission) -> None:
    """Writes the zip, and says which model answered what.

    Raises ValueError or FileNotFoundError, before the first answer, for runs of no task of GLUE or
    of the same, for tests that are not there, and for tasks without a run that are not filled.
    """
    # They import the Hub's library, which takes a second: only now.
    from bertsmith.tasks import glue

    if options.out.suffix != ".zip" or options.out.is_dir():
        raise ValueError(f"--out names a .zip file, found '{options.out}'")
    if options.out.exists() and not options.force:
        raise ValueError(f"{options.out} exists: name another file, or replace it with --force")
    if not options.glue.is_dir():
        raise FileNotFoundError(f"{options.glue}: no such directory of GLUE's files")
    run_of = _runs_by_task(options.runs)
    without = [task.name for task in glue.TASKS if task.name not in run_of]
    if without and not options.fill:
        raise ValueError(
            f"no run of {', '.join(without)}: the benchmark takes all {len(glue.TASKS)} tasks or "
            f"none; name a run of each, or answer these by a constant with --fill"
        )
    for task in glue.TASKS:
        if task.name in run_of:
            glue.file_of(options.glue, task, "test")
    models = _Models(options.device, options.precision)
    answers = {
        task.name: _answers(task, options.glue, models, run_of[task.name])
        if task.name in run_of
        else _filled(task, options.glue)
        for task in glue.TASKS
    }
    glue.write_submission(options.out, answers)
    print(f"wrote {options.out}: {', '.join(f'{task.name}.tsv' for task in glue.TASKS)}")


def _runs_by_task(runs: tuple[str, ...]) -> dict[str, str]:
    """The run that answers each task."""
    from bertsmith.checkpoints.places import find_model
    from bertsmith.tasks import glue
    from bertsmith.tasks.stored import read_learned

    names = [task.name for task in glue.TASKS]
    run_of: dict[str, str] = {}
    for run in runs:
        name = read_learned(find_model(run)).name
        if name not in names or name in _OF_MNLI:
            raise ValueError(
                f"{run} learned {name or 'nothing that it names'}, which is no task of GLUE: name "
                f"runs of `bertsmith finetune MODEL --glue DIR --task TASK`"
            )
        if name in run_of:
            raise ValueError(f"{run_of[name]} and {run} both learned {name}: leave one out")
        run_of[name] = run
    if "MNLI-m" in run_of:
        run_of |= dict.fromkeys(_OF_MNLI, run_of["MNLI-m"])
    return run_of


class _Models:
    """The models of runs, one at a time."""

    def __init__(self, device: str, precision: AnswerPrecision) -> None:
        self._device, self._precision = device, precision
        self._run = ""
        self._predictor: Predictor | None = None

    def of(self, run: str) -> Predictor:
        """The run's model, loaded where it is not the one at hand."""
        from bertsmith.inference import Predictor
        from bertsmith.train.device import choose_device

        if self._predictor is None or run != self._run:
            self._predictor = None  # before the next one is in memory too
            self._predictor = Predictor.load(
                run, device=choose_device(self._device), precision=self._precision
            )
            self._run = run
        return self._predictor


def _answers(task: GlueTask, place: Path, models: _Models, run: str) -> Iterator[TextAnswer]:
    """An answer to every row of the task's test; rows with nothing to read get the first label."""
    from bertsmith.tasks import glue

    predictor = models.of(run)
    examples = glue.test_examples(place, task)
    count, unread = 0, list[str]()
    while window := list(itertools.islice(examples, _WINDOW)):
        yield from _of_window(task, window, predictor, unread)
        count += len(window)
    print(f"{task.name}: {count:,} rows by {run}")
    if count != task.num_test:
        print(f"note: the test of {task.name} has {task.num_test:,} rows at the benchmark, and "
              f"{count:,} here: it will not be taken", file=sys.stderr)  # fmt: skip
    if unread:
        print(f"note: {len(unread):,} rows of {task.name} hold nothing to read and are answered "
              f"{_said(task)}; the first: {unread[0]}", file=sys.stderr)  # fmt: skip


def _of_window(
    task: GlueTask, window: list[TextExample], predictor: Predictor, unread: list[str]
) -> Iterator[TextAnswer]:
    from bertsmith.tasks.answered import ClassifiedText
    from bertsmith.tasks.classify import TextAnswer
    from bertsmith.tasks.task import Classification

    model = predictor.fine_tuned
    scheme = model.require(Classification).scheme
    if set(scheme.names) != set(task.scheme.names) or scheme.problem != task.scheme.problem:
        raise ValueError(
            f"{predictor.name} answers {', '.join(scheme.names)}, and {task.name} is answered "
            f"{', '.join(task.scheme.names)}: name a run of this task"
        )
    faults = [model.unreadable(each) for each in window]
    told = list(zip(window, faults, strict=True))
    unread += [f"{each.place}: {fault}" for each, fault in told if fault]
    readable = [each for each, fault in told if not fault]
    found = iter(model.answers(readable, predictor.watch))
    for fault in faults:
        if fault:
            yield _constant(task)
        else:
            answer = next(found)
            assert isinstance(answer, ClassifiedText)
            scores = (answer.value,) if answer.value is not None else ()
            yield TextAnswer(labels=answer.labels, scores=scores)


def _filled(task: GlueTask, place: Path) -> Iterator[TextAnswer]:
    """One constant for every row of a test: as many as its file has, else as the benchmark's."""
    from bertsmith.tasks import glue

    try:
        count = sum(1 for _ in glue.test_examples(place, task))
    except FileNotFoundError:
        count = task.num_test
    remark = ", its majority class: the paper's answer too" if task.name == "WNLI" else ""
    print(f"{task.name}: no run; all {count:,} rows are answered {_said(task)}{remark}")
    return itertools.repeat(_constant(task), count)


def _said(task: GlueTask) -> str:
    constant = _constant(task)
    return constant.labels[0] if constant.labels else f"{constant.scores[0]:g}"


def _constant(task: GlueTask) -> TextAnswer:
    from bertsmith.tasks.classify import TextAnswer

    if task.scheme.problem == "regression":
        return TextAnswer(labels=(), scores=(0.0,))
    return TextAnswer(labels=task.scheme.names[:1], scores=())
