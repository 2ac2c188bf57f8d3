"""A directory of GLUE's files -> labelled texts; answers -> official scores and submission files.

Every task is a row of one table: its columns, its labels as the benchmark spells them, and the
metrics of its leaderboard. The quirks of the official files are facts of the table (two files of
CoLA have no header) or told to the caller (QQP has rows of another width).

Source: Wang et al. 2019 (GLUE), table 1, and the files of gluebenchmark.com; Devlin et al. 2018,
section 4.1 and table 1, for the average.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Literal

from bertsmith.files import atomic_file
from bertsmith.reading import tables
from bertsmith.reading.counted import counted
from bertsmith.reading.tables import Row, rows
from bertsmith.tasks.classify import LabelScheme, TextAnswer, TextExample
from bertsmith.tasks.own.ids import SeenIds

Split = Literal["train", "dev", "test"]

_SUFFIXES = (".tsv", ".tsv.gz")
_IDS = ("index", "id")
"""Columns that number the rows of training and Dev files."""
_HIGHEST_SIMILARITY = 5.0
_TWO = LabelScheme(("0", "1"))
_TWO_WAY = LabelScheme(("entailment", "not_entailment"))
_THREE_WAY = LabelScheme(("contradiction", "entailment", "neutral"))
_SIMILARITY = LabelScheme(("score",), "regression")
_PAIR = ("sentence1", "sentence2")


@dataclass(frozen=True, kw_only=True)
class GlueTask:
    """One column of the benchmark."""

    name: str
    """As its file of answers is called."""
    texts: tuple[str, ...]
    """The columns of its texts."""
    label: str = "label"
    """The column of its label."""
    scheme: LabelScheme
    """The labels as its files spell them."""
    metrics: tuple[str, ...] = ("accuracy",)
    """The leaderboard's, the one that counts in the average first."""
    directory: str = ""
    """Where its files lie under GLUE's, where that is not its name."""
    files: tuple[str, str, str] = ("train", "dev", "test")
    """What they are called, without the ending; empty for a split that it has not."""
    labelled: Mapping[str, str] | None = None
    """Of training and dev files that call columns otherwise: how; in those without a header by
    number, from 1."""
    num_train: int | None
    """Examples of the official training set; None where the task has none."""
    num_dev: int
    """The same of Dev."""
    num_test: int
    """Rows of its test, each of which a submission answers."""
    in_average: bool = True
    """Whether the paper counts it: not WNLI, and not the diagnostics."""


TASKS: tuple[GlueTask, ...] = (
    GlueTask(name="CoLA", texts=("sentence",), scheme=_TWO, metrics=("matthews",),
             num_train=8551, num_dev=1043, num_test=1063,
             labelled={"sentence": "4", "label": "2"}),
    GlueTask(name="SST-2", texts=("sentence",), scheme=_TWO,
             num_train=67_349, num_dev=872, num_test=1821),
    GlueTask(name="MRPC", texts=("#1 String", "#2 String"), label="Quality", scheme=_TWO,
             num_train=3668, num_dev=408, num_test=1725, metrics=("f1", "accuracy")),
    GlueTask(name="STS-B", texts=_PAIR, label="score", scheme=_SIMILARITY,
             num_train=5749, num_dev=1500, num_test=1379, metrics=("spearman", "pearson")),
    GlueTask(name="QQP", texts=("question1", "question2"), label="is_duplicate", scheme=_TWO,
             num_train=363_846, num_dev=40_430, num_test=390_965, metrics=("f1", "accuracy")),
    GlueTask(name="MNLI-m", texts=_PAIR, label="gold_label", scheme=_THREE_WAY, directory="MNLI",
             num_train=392_702, num_dev=9815, num_test=9796,
             files=("train", "dev_matched", "test_matched")),
    GlueTask(name="MNLI-mm", texts=_PAIR, label="gold_label", scheme=_THREE_WAY, directory="MNLI",
             num_train=None, num_dev=9832, num_test=9847,
             files=("", "dev_mismatched", "test_mismatched")),
    GlueTask(name="QNLI", texts=("question", "sentence"), scheme=_TWO_WAY,
             num_train=104_743, num_dev=5463, num_test=5463),
    GlueTask(name="RTE", texts=_PAIR, scheme=_TWO_WAY,
             num_train=2490, num_dev=277, num_test=3000),
    GlueTask(name="WNLI", texts=_PAIR, scheme=_TWO,
             num_train=635, num_dev=71, num_test=146, in_average=False),
    GlueTask(name="AX", texts=_PAIR, scheme=_THREE_WAY, metrics=("matthews",),
             directory="diagnostic", files=("", "diagnostic-full", "diagnostic"),
             num_train=None, num_dev=1104, num_test=1104,
             labelled={"sentence1": "Premise", "sentence2": "Hypothesis", "label": "Label"},
             in_average=False),
)  # fmt: skip
"""All eleven; MNLI-mm and AX are answered by the model that learned MNLI-m."""


def task_named(name: str) -> GlueTask:
    """The task; `MNLI` is `MNLI-m`. Raises ValueError for another name."""
    wanted = name.lower()
    for task in TASKS:
        if wanted in (task.name.lower(), task.name.lower().removesuffix("-m")):
            return task
    raise ValueError(f"no task {name!r} in GLUE; it has {', '.join(task.name for task in TASKS)}")


def read(
    glue: Path,
    task: GlueTask,
    split: Split,
    on_malformed: Callable[[str], None],
    on_note: Callable[[str], None] = lambda note: None,
) -> list[TextExample]:
    """The examples of one split, without labels where it is the test.

    Rows of another width are left out and told to `on_malformed`, in a test refused: its answers
    are counted by row. That an index stands twice is told to `on_note`. Raises FileNotFoundError
    for a file that is not there, and ValueError for what `reading.tables.rows` refuses.
    """
    if split == "test":
        return list(test_examples(glue, task))
    columns = {name: (task.labelled or {}).get(name, name) for name in (*task.texts, task.label)}
    path, has_header = file_of(glue, task, split), not all(map(str.isdigit, columns.values()))
    found = tables.columns(path, has_header=has_header)
    ids = [name for name in _IDS if found.count(name) == 1][:1]
    seen = SeenIds("".join(ids))
    examples = []
    for row in rows(
        path,
        list(dict.fromkeys((*columns.values(), *ids))),
        has_header=has_header,
        on_malformed=on_malformed,
    ):
        for name in ids:
            seen.first_place(row.text(name), row.place)
        examples.append(_example(row, task, columns, has_labels=True))
    if note := seen.note():
        on_note(note)
    return examples


def test_examples(glue: Path, task: GlueTask) -> Iterator[TextExample]:
    """The examples of a test one by one, in bounded memory; raises as `read` does."""
    read_rows = rows(file_of(glue, task, "test"), list(task.texts))
    columns = {name: name for name in task.texts}
    return (_example(row, task, columns, has_labels=False) for row in read_rows)


def unofficial(task: GlueTask, split: Split, count: int) -> str:
    """That so many examples are not the official set; empty where they may be."""
    official = {"train": task.num_train, "dev": task.num_dev, "test": task.num_test}[split]
    if official in (None, count):
        return ""
    what = {"train": "to train on", "dev": "of Dev", "test": "of the test"}[split]
    return (
        f"{task.name}: {count:,} examples {what} are here, and {official:,} are official: these "
        f"are no scores to set beside GLUE's"
    )


def beyond_scale(task: GlueTask, examples: Sequence[TextExample]) -> str:
    """That scores stand outside the benchmark's 0 to 5; empty where none does.

    Raises ValueError, with the place, for what is no number.
    """
    if task.scheme.problem != "regression":
        return ""
    values = ((float(task.scheme.target(each)[0]), each.place) for each in examples)
    beyond = [each for each in values if not 0.0 <= each[0] <= _HIGHEST_SIMILARITY]
    if not beyond:
        return ""
    value, place = beyond[0]
    stand = counted(len(beyond), "score stands", "scores stand")
    return (
        f"{stand} outside {task.name}'s scale of 0 to {_HIGHEST_SIMILARITY:g}, the first, "
        f"{value:g}, at {place}: taken as found, while a submission's answers are kept within it"
    )


def average(scores: Mapping[str, float]) -> float:
    """The paper's average over nine columns, of each task's first metric by the task's name.

    Raises ValueError, naming them, where scores are missing.
    """
    counted = [task.name for task in TASKS if task.in_average]
    if missing := [name for name in counted if name not in scores]:
        raise ValueError(f"the average needs all nine scores; {', '.join(missing)} are missing")
    return mean(scores[name] for name in counted)


def write_submission(path: Path, answers: Mapping[str, Iterable[TextAnswer]]) -> None:
    """Writes the zip that the benchmark takes: a TSV of every task by its name, all eleven.

    Answers are taken one by one, and the tasks in the order of `TASKS`. Raises ValueError, naming
    them, where answers of a task are missing.
    """
    if missing := [task.name for task in TASKS if task.name not in answers]:
        raise ValueError(
            f"a submission holds all {len(TASKS)} tasks; {', '.join(missing)} are missing"
        )
    with atomic_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for task in TASKS:
            with archive.open(f"{task.name}.tsv", "w", force_zip64=True) as written:
                for line in submission_lines(task, answers[task.name]):
                    written.write(f"{line}\n".encode())


def submission_lines(task: GlueTask, answers: Iterable[TextAnswer]) -> Iterator[str]:
    """The TSV of one task: a header, then the row's number and the answer as GLUE spells it."""
    yield "index\tprediction"
    yield from (f"{number}\t{_spelt(task, answer)}" for number, answer in enumerate(answers))


def file_of(glue: Path, task: GlueTask, split: Split) -> Path:
    """The file of a split; `glue` holds a folder for each task, or is that of this one.

    Raises ValueError for a split that the task has not, FileNotFoundError for no file.
    """
    name = dict(zip(("train", "dev", "test"), task.files, strict=True))[split]
    if not name:
        raise ValueError(f"{task.name} has no {split} set: it is answered by the model of MNLI-m")
    own = task.directory or task.name
    directory = glue / own
    for folder in (directory, *([glue] if glue.resolve().name == own else [])):
        for suffix in _SUFFIXES:
            if (path := folder / f"{name}{suffix}").is_file():
                return path
    if any((glue / f"{name}{suffix}").is_file() for suffix in _SUFFIXES):
        raise FileNotFoundError(
            f"{directory} has no {name}{' or '.join(_SUFFIXES)}, and {glue} has: call it {own}, "
            f"and name that folder, or the one above it"
        )
    others = sorted(path.name for path in directory.glob("*") if path.is_file())
    there = f"; it holds {', '.join(others):.200}" if others else ""
    raise FileNotFoundError(f"{directory} has no {name}{' or '.join(_SUFFIXES)}{there}")


def _example(row: Row, task: GlueTask, columns: Mapping[str, str], has_labels: bool) -> TextExample:
    return TextExample(
        texts=tuple(row.text(columns[name]) for name in task.texts),
        labels=(row.text(columns[task.label]),) if has_labels else None,
        place=row.place,
    )


def _spelt(task: GlueTask, answer: TextAnswer) -> str:
    if task.scheme.problem == "regression":
        return f"{min(max(answer.scores[0], 0.0), _HIGHEST_SIMILARITY):.3f}"
    return answer.labels[0]
