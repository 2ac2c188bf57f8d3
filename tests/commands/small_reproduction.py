"""Text, labelled sets and a scale with which `bertsmith reproduce` takes seconds: none a stub."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bertsmith import fusion
from bertsmith.commands.reproduce_options import Reproduce
from bertsmith.commands.reproduction import carry_out
from bertsmith.commands.reproduction.making import Workshop, make
from bertsmith.commands.text_options import ReadingChoices
from bertsmith.randomness import integers
from bertsmith.recipes.experiments.experiment import Cell, Experiment, Model, Row, Score
from bertsmith.recipes.experiments.scales import Scale, tiny
from bertsmith.recipes.run import Phase
from tests.commands import small_files
from tests.commands.small_run import OBJECTS, SUBJECTS, write_text
from tests.commands.small_task import write_glue

NUM_STEPS = 20
LABELS = ("entailment", "neutral", "contradiction")


def small_scale() -> Scale:
    """Two layers of 32, twenty steps."""
    begun = tiny()
    model = replace(
        begun.base.model,
        num_hidden_layers=2,
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=64,
    )
    run = replace(
        begun.base,
        name="small",
        model=model,
        phases=(Phase(steps=NUM_STEPS, sequence_length=32, batch_size=4),),
        warmup_steps=2,
        evaluate_every=5,
        evaluate_sequences=8,
        save_every=2,
        precision="fp32",
    )
    windows = {"doc_stride": 8, "max_question_tokens": 8}
    return replace(
        begun,
        base=run,
        vocab_size=300,
        lstm_size=8,
        max_tokens=32,
        restarts=2,
        small_restarts=2,
        options=dict.fromkeys(("SQuAD 1.1", "SQuAD 2.0", "TriviaQA"), windows),
    )


def write_files(folder: Path) -> Path:
    """Text and what there is of labelled sets: SST-2, SWAG and CoNLL-2003."""
    write_text(folder / "text")
    write_glue(folder / "data" / "glue")
    for name in ("conll2003", "swag"):
        (folder / "data" / name).mkdir()
    for name, key in (("eng.train", 1), ("eng.testa", 2)):
        small_files.tagged(folder / "data" / "conll2003" / name, 12, key)
    for name, key in (("train.csv", 1), ("val.csv", 2)):
        small_files.swag(folder / "data" / "swag" / name, 12, key)
    return folder


def write_mnli(glue: Path, *names: str) -> None:
    """Pairs of words; the second says which of the three labels is right."""
    (glue / "MNLI").mkdir(parents=True, exist_ok=True)
    for key, name in enumerate(names):
        lines = ["sentence1\tsentence2\tgold_label"]
        for first, second in integers(3, key, np.arange(160)).reshape(80, 2).tolist():
            words = (SUBJECTS[first], 4 * f"{OBJECTS[second]} ")
            lines.append(f"{words[0]}\t{words[1].strip()}\t{LABELS[second]}")
        (glue / "MNLI" / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_squad(folder: Path, *names: str) -> None:
    """Questions for a place, in SQuAD's layout."""
    for key, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        small_files.squad(folder / name, 12, key)


def experiment(*cells: Cell | None) -> Experiment:
    """A table of one cell a row, `row 0` and on, in place of one of the paper's."""
    return Experiment(
        name="table1",
        title="",
        source="Table 1",
        columns=("score",),
        rows=tuple(Row(title=f"row {at}", cells=(each,)) for at, each in enumerate(cells)),
    )


def options(folder: Path, *names: str, **changes: object) -> Reproduce:
    asked = Reproduce(
        experiments=names,  # type: ignore[arg-type]
        text=(folder / "text",),
        data=folder / "data",
        out=folder / "out",
        reading=ReadingChoices(workers=1),
        threads=1,
    )
    return replace(asked, **changes)  # type: ignore[arg-type]


def reproduced(folder: Path, *names: str, **changes: object) -> str:
    """What it prints."""
    console = Console(file=io.StringIO(), width=200)
    with fusion.unfused():
        carry_out.reproduce_at(small_scale(), options(folder, *names, **changes), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def made_by(monkeypatch: pytest.MonkeyPatch) -> list[Model | Score]:
    """What is made from now on."""
    made: list[Model | Score] = []

    def watched(what: Model | Score, workshop: Workshop) -> None:
        made.append(what)
        make(what, workshop)

    monkeypatch.setattr(carry_out, "make", watched)
    return made


def rows_of(folder: Path, name: str) -> dict[str, dict[str, str]]:
    """The rows of an experiment's CSV, of one column, by title."""
    text = (folder / "out" / f"{name}-tiny.csv").read_text("utf-8")
    return {row["row"]: row for row in csv.DictReader(text.splitlines())}
