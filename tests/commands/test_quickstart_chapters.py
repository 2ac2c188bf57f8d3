"""The quickstart's labelled set, and the model that learns it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bertsmith.commands.preparation import corpus_of
from bertsmith.commands.quickstart import write_interpreter_text
from bertsmith.commands.quickstart_chapters import (
    DEV,
    SENTENCES,
    TRAIN,
    ChapterRun,
    chapter_set,
    learn_chapters,
    write_chapters,
)
from bertsmith.commands.text_options import ReadingChoices, TextChoices
from bertsmith.corpus.store import Corpus
from bertsmith.fusion import unfused
from bertsmith.reading.interpreter import InterpreterDocument
from tests.commands.small_task import write_model

MODULES = ("asyncio", "tkinter", "email", "importlib")
DOCUMENTS = [
    InterpreterDocument(
        name=f"{MODULES[number % 4]}.part{number}",
        paragraphs=(
            f"Part {number} says that the dog likes the cat. My dog was in paris number {number}.",
            f"In it he is hairy and likes my cat, part {number}. The cat was in france {number}.",
        ),
    )
    for number in range(40)
]
HELD_OUT = 0.3


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def numbers_of(corpus: Corpus) -> set[str]:
    """The numbers that the documents of a corpus begin with."""
    tokenizer = corpus.tokenizer()
    first = (corpus.document_sentences(number)[0] for number in range(corpus.num_documents))
    return {tokenizer.decode(sentence.tolist()).split()[1] for sentence in first}


def test_dev_holds_the_documents_that_pretraining_holds_out_and_only_those(
    tmp_path: Path,
) -> None:
    write_chapters(tmp_path / "chapters", DOCUMENTS, HELD_OUT)
    train, dev = (rows_of(tmp_path / "chapters" / name) for name in (TRAIN, DEV))
    assert not {row["document"] for row in train} & {row["document"] for row in dev}
    assert not {row["text"] for row in train} & {row["text"] for row in dev}
    write_interpreter_text(tmp_path / "text" / "python.jsonl", DOCUMENTS)
    choices = TextChoices(
        vocab_size=300, held_out=HELD_OUT, reading=ReadingChoices(language="en", workers=1)
    )
    path = corpus_of([tmp_path / "text"], choices, tmp_path, Console(quiet=True))
    for split, rows in (("train", train), ("held_out", dev)):
        assert numbers_of(Corpus.open(path, split)) == {
            row["document"].partition("part")[2] for row in rows
        }


@pytest.mark.parametrize(("seconds", "epochs"), [(1e6, 3.0), (0.0, 0.5)])
def test_a_model_is_fine_tuned_within_the_time_and_answers(
    tmp_path: Path, seconds: float, epochs: float
) -> None:
    write_chapters(tmp_path / "chapters", DOCUMENTS, HELD_OUT)
    _, learning = chapter_set(tmp_path / "chapters")
    asked = ChapterRun(
        model=write_model(tmp_path / "model"),
        files=tmp_path / "chapters",
        directory=tmp_path / "run",
        seed=0,
    )
    console = Console(file=io.StringIO(), width=200)
    with unfused():
        lines = learn_chapters(asked, seconds, console)
        record = json.loads((tmp_path / "run" / "run.json").read_text())
        assert record["run"]["epochs"] == epochs
        assert lines == learn_chapters(asked, seconds / 2, console)
    for text, line in zip(SENTENCES, lines, strict=False):
        first, answer = line.splitlines()
        assert first == text
        assert "% " in answer
    majority = f"of these {len(learning.dev):,} sentences, from documents that the model never saw"
    assert majority in lines[-1]
