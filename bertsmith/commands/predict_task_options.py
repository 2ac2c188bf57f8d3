"""The command line of `bertsmith predict RUN`: which run, which questions of its task, where to.

Each field is an option. It looks at no text and at no model.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import tyro

from bertsmith.commands.questions import STANDARD_INPUT
from bertsmith.train.config import AnswerPrecision


@dataclass(frozen=True, kw_only=True)
class AskTask:
    """A fine-tuned model's answers, with probabilities; `predict RUN` does without the word `task`.

    Texts come as arguments, from files, or through a pipe; of a pair, or of a question and its
    passage, as two arguments or with a tab between them.
    """

    model: tyro.conf.Positional[str]
    """A run of finetune, or any BERT with a head: a path, or a Hub id."""
    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    """Texts; or a pair, a question and its passage, a text and its choices."""
    file: tuple[Path, ...] = ()
    """Text (one question a line), CSV, TSV, JSONL, Parquet, SQuAD's JSON, CoNLL's columns; `-` is
    standard input."""
    columns: tuple[str, ...] = ()
    """What is read of a table; by default the columns that the model was trained on."""
    header: bool = True
    """Whether CSV and TSV name their columns in the first row; else they are 1, 2, ..."""
    conll: bool = False
    """Files to tag hold a word a line (told by .conll, .bio, a .tsv without a known column, and by
    tags in the first lines of plain text)."""
    piped: Literal["lines", "jsonl"] = "lines"
    """What comes through a pipe."""
    keep: tuple[str, ...] = ()
    """Columns of a table to repeat beside the answers, such as an id; `label` is called
    `kept.label` where answers have a label of their own."""
    skip_malformed: bool = False
    """Give a broken row a fault for an answer, instead of stopping at it."""
    squad: Path | None = None
    """Answer a file in SQuAD's JSON, for the official evaluator: --out is then a directory."""
    task_class: str | None = None
    """MODULE:CLASS of your own that the run learned by, which reads --file: its code is run."""
    null_threshold: float | None = None
    """Give no answer where its score beats the best answer's by more; by default tuned on Dev."""
    top_k: int | None = None
    """Likeliest labels, choices or answers to a question to show, each with its probability; by
    default 5, but of choices the best, and of several labels those that hold."""
    out: Path | None = None
    """Write a .jsonl or .csv file, or with --squad a directory."""
    force: bool = False
    """Replace what is at --out."""
    jsonl: bool = False
    """Print one JSON object a question instead of lines."""
    csv: bool = False
    """Print CSV."""
    device: str = "auto"
    """cpu, cuda, mps, or auto."""
    precision: AnswerPrecision = "auto"
    """bf16, fp16, fp32, int8 (on a CPU, faster and a little less exact), or auto: bf16 or fp16
    where the hardware multiplies it faster."""

    def __post_init__(self) -> None:
        """Refuses options that contradict each other."""
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"--top-k must be at least 1, found {self.top_k}")
        if self.null_threshold is not None and not math.isfinite(self.null_threshold):
            raise ValueError(
                f"--null-threshold must be a finite number, found {self.null_threshold}: 1e6 "
                f"always answers, -1e6 never does"
            )
        if self.task_class is not None:
            self._require_for_own_class()
        if self.squad is not None:
            self._require_for_evaluator()
        elif self.out is not None and self.out.suffix not in (".jsonl", ".csv"):
            raise ValueError(f"--out writes a .jsonl or a .csv file, found '{self.out}'")
        printed = [name for name, is_on in (("--jsonl", self.jsonl), ("--csv", self.csv)) if is_on]
        if len(printed) == 2 or (printed and self.out is not None):
            instead = "--out writes a file" if self.out is not None else "one of them is printed"
            raise ValueError(f"{' and '.join(printed)}: {instead}; leave one out")

    def _require_for_own_class(self) -> None:
        for option in fields(self):
            name = option.name
            if name in _NOT_OF_OWN_CLASSES and vars(self)[name] != option.default:
                raise ValueError(
                    f"--{name.replace('_', '-')} says nothing to a task class of your own, which "
                    f"reads --file by itself: leave it out"
                )
        if STANDARD_INPUT in self.file or not (self.file or self.texts):
            raise ValueError(
                "a task class of your own reads files, and no pipe: name them with --file, or give "
                "texts as arguments"
            )

    def _require_for_evaluator(self) -> None:
        if self.texts:
            out = self.out or "DIR"
            several = shlex.join(
                map(str, (self.model, *self.texts, "--squad", self.squad, "--out", out))
            )
            raise ValueError(
                f"--squad names the questions, and {self.texts[0]!r:.60} is taken for one more: "
                f"leave it out; if it is another model, `bertsmith evaluate {several:.200}` writes "
                f"what all of them answer as one"
            )
        if self.out is None:
            raise ValueError("--squad needs --out, a directory for the files of answers")
        if self.file or self.columns or self.keep:
            raise ValueError("--squad names the questions: leave --file, --columns and --keep out")


_NOT_OF_OWN_CLASSES = frozenset({
    "columns", "header", "conll", "piped", "keep", "skip_malformed", "squad", "null_threshold",
    "top_k",
})  # fmt: skip
"""Options that are for other tasks alone."""
