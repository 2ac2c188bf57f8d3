"""The quickstart's second half: sentences of the manual -> a model that tells its chapters apart.

The labelled files are what a person's own would be: CSV, a text and its label a row. To evaluate on
are the documents that were held out in pre-training too, so the model never saw a sentence of them.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console

from bertsmith.commands.examples import learning_set, source_of
from bertsmith.commands.finetune import fine_tune
from bertsmith.commands.task_files import TaskFiles, TaskValues
from bertsmith.corpus.build_rules import BuildRules
from bertsmith.files import write_text
from bertsmith.fusion import unfused
from bertsmith.inference import Predictor
from bertsmith.reading.chapters import ChapterSentence, chapter_sentences
from bertsmith.reading.interpreter import InterpreterDocument
from bertsmith.recipes.finetuning import FinetuneRun, glue, to_json
from bertsmith.runs.finetune_job import Job, prepared
from bertsmith.runs.finetune_measuring import measure_finetuning
from bertsmith.runs.learning_set import LearningSet
from bertsmith.tasks.classify import TextAnswer, TextExample
from bertsmith.tasks.task import EncodedTexts
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.device import choose_device

SENTENCES = (
    "The window is drawn again when the user moves its border.",
    "Wait until all threads have finished their work.",
    "Send the message to the server and read what it answers.",
    "A name is bound to an object when it is assigned.",
)
"""Written for this: what the fine-tuned model is asked."""
TRAIN, DEV = "train.csv", "dev.csv"

_MAX_TOKENS = 64
_MOST_EPOCHS = 3.0
_FEWEST_EPOCHS = 0.5
_SECONDS_BESIDE = 6.0
"""Of reading, saving, scoring and drawing."""
_TOLD_LABELS = 3
ChapterSet = LearningSet[TextExample, EncodedTexts, TextAnswer]


@dataclass(frozen=True, kw_only=True)
class ChapterRun:
    """What is fine-tuned where."""

    model: Path
    """The pre-trained run."""
    files: Path
    """The folder of the labelled files."""
    directory: Path
    """The run of fine-tuning."""
    seed: int


def write_chapters(folder: Path, documents: Sequence[InterpreterDocument], held_out: float) -> None:
    """Writes train.csv and dev.csv; dev.csv holds those documents that pre-training holds out."""
    is_dev = BuildRules(held_out=held_out).is_held_out(np.arange(len(documents)))
    is_dev[:1] = False  # as the corpus has it
    pairs = list(zip(documents, is_dev.tolist(), strict=True))
    train = chapter_sentences(document for document, is_out in pairs if not is_out)
    known = [sentence.text for sentence in train]
    dev = chapter_sentences((document for document, is_out in pairs if is_out), known)
    for name, sentences in ((TRAIN, train), (DEV, dev)):
        write_text(folder / name, _as_csv(sentences))


def learn_chapters(asked: ChapterRun, seconds: float, console: Console) -> list[str]:
    """Fine-tunes for about `seconds`, and returns what a person should read of it, line by line."""
    source, learning = chapter_set(asked.files)
    request = {"model": str(asked.model.resolve()), "examples": source, "max_tokens": _MAX_TOKENS}
    job = Job(
        model=str(asked.model),
        run=_run(asked.seed, _MOST_EPOCHS),
        directory=asked.directory,
        request=request,
        command=f"bertsmith finetune {shlex.quote(str(asked.model))} {learning.options}",
        device=choose_device(),
    )
    run = _run(asked.seed, _epochs(job, learning, seconds))
    fine_tune(replace(job, run=run, request={**request, "run": to_json(run)}), learning, console)
    return [*_answers(asked.directory), _comparison(learning)]


def chapter_set(files: Path) -> tuple[dict[str, object], ChapterSet]:
    """What names the files on a command line, and what they hold, read as any person's are."""
    named = TaskFiles(texts=files / TRAIN, dev=files / DEV)
    source = source_of(named, TaskValues(metrics=("accuracy", "macro_f1")))
    return source, learning_set(source, _MAX_TOKENS)


def _run(seed: int, epochs: float) -> FinetuneRun:
    """Differs from the paper: ten times its rate, for a model a hundredth of the size.

    The last model is kept, so that the Dev examples choose nothing and their score is honest.
    """
    return replace(
        glue(),
        name="quickstart",
        epochs=epochs,
        seed=seed,
        optimizer=OptimizerConfig(learning_rate=5e-4),
        evaluate_every=min(0.5, epochs),
        save_every=_MOST_EPOCHS,
        keep_best=False,
        log_every=200,
    )


def _epochs(job: Job, learning: ChapterSet, seconds: float) -> float:
    """As many as fit into the seconds by a measured rate, in tenths."""
    ready = prepared(job, learning)
    if ready.state.step:
        return ready.record.run.epochs
    with unfused():
        cost = measure_finetuning(
            ready.record.run, ready.model, ready.plan, ready.dev.labelled, job.device
        )
    whole = cost.seconds(ready.plan, ready.record.run, ready.dev.labelled, 0)
    epochs = _MOST_EPOCHS * (seconds - _SECONDS_BESIDE) / whole
    return min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, int(10 * epochs) / 10))


def _answers(directory: Path) -> list[str]:
    """What the fine-tuned model says of the sentences, each with its likeliest labels."""
    lines = []
    for answer in Predictor.load(directory, precision="fp32").classify(SENTENCES):
        ranked = sorted(answer.probabilities.items(), key=lambda each: -each[1])
        told = "  ".join(f"{label} {share:.0%}" for label, share in ranked[:_TOLD_LABELS])
        lines.append(f"{answer.texts[0]}\n    {told}")
    return lines


def _comparison(learning: ChapterSet) -> str:
    """What an answer that never changes would reach on Dev."""
    counts = Counter(label for example in learning.dev for label in example.labels or ())
    label, count = counts.most_common(1)[0]
    return (
        f"always saying '{label}' would be right for {count / len(learning.dev):.1%} of these "
        f"{len(learning.dev):,} sentences, from documents that the model never saw"
    )


def _as_csv(sentences: Sequence[ChapterSentence]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["text", "label", "document"])
    writer.writerows([each.text, each.chapter, each.document] for each in sentences)
    return text.getvalue()
