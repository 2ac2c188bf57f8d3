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

from bertsmith.checkpoints import store
from bertsmith.commands.finetune import fine_tune
from bertsmith.corpus.build_rules import BuildRules
from bertsmith.files import write_text
from bertsmith.fusion import unfused
from bertsmith.reading.chapters import ChapterSentence, chapter_sentences
from bertsmith.reading.interpreter import InterpreterDocument
from bertsmith.recipes.finetuning import FinetuneRun, glue, to_json
from bertsmith.runs.finetune_job import Job, prepared
from bertsmith.runs.finetune_measuring import measure_finetuning
from bertsmith.runs.finetune_report import answering_model
from bertsmith.runs.learning_set import LearningSet, ReadExamples
from bertsmith.tasks import task as tasks
from bertsmith.tasks.classify import LabelScheme, TextAnswer, TextExample, balance
from bertsmith.tasks.own.texts import TextColumns, read, require_learned
from bertsmith.tasks.task import Classification, EncodedTexts
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
    learning = chapter_set(asked.files)
    job = Job(
        model=str(asked.model),
        run=_run(asked.seed, _MOST_EPOCHS),
        directory=asked.directory,
        request={
            "model": str(asked.model.resolve()),
            "examples": {name: str(path.resolve()) for name, path in _named(asked.files).items()},
            "max_tokens": _MAX_TOKENS,
        },
        command=shlex.join(["bertsmith", "finetune", str(asked.model), learning.options]),
        device=choose_device(),
    )
    job = replace(job, run=_run(asked.seed, _epochs(job, learning, seconds)))
    fine_tune(replace(job, request={**job.request, "run": to_json(job.run)}), learning, console)
    return [*_answers(learning, asked.directory), _comparison(learning)]


def chapter_set(files: Path) -> ChapterSet:
    """The labelled files as any person's are read."""
    columns = TextColumns()
    train, dev = (read(files / name, columns) for name in (TRAIN, DEV))
    scheme = LabelScheme.of(train.examples)
    require_learned(dev.examples, scheme)
    task = Classification(scheme=scheme, max_tokens=_MAX_TOKENS, metrics=("accuracy", "macro_f1"))
    return LearningSet(
        name="chapters",
        task=task,
        task_json=tasks.to_json(task),
        train=train.examples,
        dev=dev.examples,
        options=shlex.join(
            word for name, path in _named(files).items() for word in (f"--{name}", str(path))
        ),
        train_balance=balance(train.examples, scheme),
        dev_balance=balance(dev.examples, scheme),
        notes=(*train.left_out, *dev.left_out),
    )


def _named(files: Path) -> dict[str, Path]:
    return {"texts": files / TRAIN, "dev": files / DEV}


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
        evaluate_every=min(1.0, epochs),
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


def _answers(learning: ChapterSet, directory: Path) -> list[str]:
    """What the fine-tuned model says of the sentences, each with its likeliest labels."""
    task, loaded = learning.task, store.load(directory)
    assert isinstance(task, Classification)
    examples = [TextExample(texts=(text,), labels=None, place="") for text in SENTENCES]
    asked = ReadExamples(
        task=task, examples=examples, encoded=task.encode(examples, loaded.tokenizer)
    )
    lines = []
    answers = asked.answers(answering_model(loaded, "fp32", choose_device()))
    for text, answer in zip(SENTENCES, answers, strict=True):
        ranked = sorted(zip(answer.scores, task.scheme.names, strict=True), reverse=True)
        told = "  ".join(f"{name} {share:.0%}" for share, name in ranked[:_TOLD_LABELS])
        lines.append(f"{text}\n    {told}")
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
