"""`bertsmith quickstart`: a small BERT in five minutes, from English that every Python carries.

No download: the text is the language reference (`help()` topics) and the docstrings of the standard
library of the Python that runs, written by its developers (Python Software Foundation licence).
After the text is written, this is `bertsmith pretrain` with the recipe `quickstart`, and then
`bertsmith finetune` on sentences of the same manual with the chapter that each comes from, so
whatever it shows holds for a person's own text and labels too.
"""

from __future__ import annotations

import json
import math
import platform
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertsmith.commands.pretrain_options import Pretrain
from bertsmith.commands.text_options import ReadingChoices, TextChoices
from bertsmith.files import write_text
from bertsmith.reading.interpreter import InterpreterDocument, interpreter_documents
from bertsmith.recipes.pretraining import RECIPES

QUESTIONS = (
    "Return the [MASK] of the list.",
    "Raise an [MASK] if the file does not exist.",
    "Return [MASK] if the object is a string, false otherwise.",
    "This function is used to [MASK] a new thread.",
)
_VOCAB_SIZE = 5_000
_HELD_OUT = 0.08
_SHARE_OF_PRETRAINING = 0.68
"""Of the minutes."""
_TEXT_FILE = "python.jsonl"


@dataclass(frozen=True, kw_only=True)
class Quickstart:
    """Makes a small BERT from the English that this Python carries."""

    out: Path = Path("quickstart")
    """Where text, vocabulary, corpus and run go."""
    minutes: float = 4.6
    """Time for everything: text, vocabulary, corpus, pre-training, fine-tuning."""
    seed: int = 0
    """Another seed gives another model."""

    def __post_init__(self) -> None:
        """Refuses what is no time before anything is written."""
        if not 0.0 < self.minutes < math.inf:
            raise ValueError(f"minutes must be above 0 and finite, found {self.minutes:g}")


def quickstart(options: Quickstart) -> None:
    """Writes the text, pre-trains and fine-tunes, and shows what was learned and what to do next.

    Models that are there already are shown again.
    """
    until = time.perf_counter() + 60.0 * options.minutes
    # They import torch, which takes seconds: only now, when the options are known to be sound.
    from rich.console import Console

    from bertsmith.commands.paths import require_destination
    from bertsmith.commands.pretrain import pretrain
    from bertsmith.commands.quickstart_chapters import ChapterRun, learn_chapters, write_chapters
    from bertsmith.runs.progress import say
    from bertsmith.runs.report import samples

    require_destination(options.out, (), "the quickstart's")
    console = Console()
    version = platform.python_version()
    documents = list(interpreter_documents())
    write_interpreter_text(options.out / "text" / _TEXT_FILE, documents)
    say(
        console,
        f"text: {len(documents):,} documents of English from Python {version} itself, its language "
        f"reference and docstrings (Python Software Foundation licence)",
    )
    run_directory = options.out / "run"
    pretrain(
        Pretrain(
            texts=(options.out / "text",),
            recipe="quickstart",
            minutes=_SHARE_OF_PRETRAINING * options.minutes,
            out=run_directory,
            text=TextChoices(
                vocab_size=_VOCAB_SIZE,
                held_out=_HELD_OUT,
                reading=ReadingChoices(language="en"),
            ),
            run=replace(RECIPES["quickstart"](), seed=options.seed),
        )
    )
    lines = [sample.line() for sample in samples(run_directory, [(text, "") for text in QUESTIONS])]
    lines += [
        f"the figures above are on documents of Python {version} that the model never saw",
        f"the curves: {run_directory / 'curves.png'}",
        "now fine-tuning: which chapter of the manual does a sentence come from?",
    ]
    for line in lines:
        say(console, line)
    chapters = ChapterRun(
        model=run_directory,
        files=options.out / "chapters",
        directory=options.out / "fine-tuned",
        seed=options.seed,
    )
    write_chapters(chapters.files, documents, _HELD_OUT)
    for line in learn_chapters(chapters, until - time.perf_counter(), console):
        say(console, line)
    run, tuned = (shlex.quote(str(path)) for path in (run_directory, chapters.directory))
    for line in (
        f'ask it yourself:       bertsmith predict {tuned} "Close the socket."',
        "your own text next:    bertsmith pretrain FOLDER",
        f"your own labels next:  bertsmith finetune {run} --texts FILE.csv",
        f"                       (columns text and label, as in {chapters.files / 'train.csv'})",
    ):
        say(console, line)


def write_interpreter_text(path: Path, documents: Sequence[InterpreterDocument]) -> None:
    """Writes the documents as JSON lines."""
    lines = [
        json.dumps({"name": document.name, "text": "\n".join(document.paragraphs)})
        for document in documents
    ]
    write_text(path, "\n".join(lines) + "\n")
