"""Fine-tuning does not know where examples come from, nor what kind of task they are."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from bertsmith import fusion
from bertsmith.checkpoints.store import load
from bertsmith.commands.finetune import fine_tune
from bertsmith.reading.conll import TaggedSentence
from bertsmith.reading.squad_json import Answer, Question
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.finetune_job import Job
from bertsmith.runs.learning_set import LearningSet
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.squad_answers import Candidate, FoundAnswer
from bertsmith.tasks.stored import read_task
from bertsmith.tasks.tag import TagConfig
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import AnyTask, MultipleChoice, SpanAnswering, Tagging, to_json
from bertsmith.train.config import OptimizerConfig
from tests.commands.small_files import drawn
from tests.commands.small_task import score_lines, write_model

WORDS = ("the", "dog", "cat", "likes", "my", "he", "is")
PLACES = ("paris", "london", "france")
SPANS = SquadConfig(max_tokens=16, doc_stride=4, max_question_tokens=4, max_answer_tokens=2)


def sentences(count: int, key: int) -> list[TaggedSentence]:
    found = []
    for number, (first, second, third, place) in enumerate(drawn(count, key)):
        words = (WORDS[first], PLACES[place], WORDS[3 + second], WORDS[third])
        found.append(
            TaggedSentence(
                place=f"x:{number}",
                words=words,
                tags=("O", "B-LOC", "O", "O"),
                document=number // 4,
            )
        )
    return found


def questions(count: int, key: int) -> list[Question]:
    found = []
    for number, (first, second, third, place) in enumerate(drawn(count, key)):
        passage = f"{WORDS[first]} {WORDS[second]} {PLACES[place]} {WORDS[third]} the dog my cat"
        answer = Answer(text=PLACES[place], start=passage.index(PLACES[place]))
        found.append(
            Question(
                key=f"{key}-{number}", question="is he ?", passage=passage, answers=(answer,),
                place=f"x:{number}",
            )
        )  # fmt: skip
    return found


def choices(count: int, key: int) -> list[ChoiceExample]:
    found = []
    for number, (first, second, label, place) in enumerate(drawn(count, key)):
        endings = [f"my {WORDS[(first + k) % 3]}" for k in range(2 + second)]
        endings[label % len(endings)] = f"my {PLACES[place]}"
        found.append(
            ChoiceExample(
                text="he likes", choices=tuple(endings), label=label % len(endings),
                place=f"x:{number}",
            )
        )  # fmt: skip
    return found


def found_answer(key: str, text: str) -> FoundAnswer:
    best = Candidate(text=text, start=0, probability=1.0, start_score=0.0, end_score=0.0)
    return FoundAnswer(key=key, text=text, best=best, null_odds=-math.inf, candidates=(best,))


def learning_set(task: AnyTask, train: list[Any], dev: list[Any]) -> LearningSet[Any, Any, Any]:
    return LearningSet(
        name="small", task=task, task_json=to_json(task), train=train, dev=dev, options="--mine",
        train_balance="as it is", dev_balance="as it is",
    )  # fmt: skip


SETS = {
    "tagging": learning_set(
        Tagging(scheme=TagScheme.of(sentences(40, 1)), config=TagConfig(max_tokens=16)),
        sentences(40, 1),
        sentences(12, 2),
    ),
    "spans": learning_set(SpanAnswering(config=SPANS), questions(40, 1), questions(12, 2)),
    "choice": learning_set(MultipleChoice(max_tokens=16), choices(40, 1), choices(12, 2)),
}


PICTURES = {
    "tagging": ["by-entity"],
    "spans": [],
    "choice": [],
}
"""Of each kind, beside those that all have; a single part makes none."""


@pytest.mark.parametrize("kind", SETS)
def test_every_kind_is_learned_and_its_directory_is_whole(kind: str, tmp_path: Path) -> None:
    learning, console = SETS[kind], Console(file=io.StringIO(), width=200)
    job = Job(
        model=str(write_model(tmp_path / "model")),
        run=FinetuneRun(
            epochs=20.0, batch_size=8, precision="fp32", evaluate_every=4.0,
            optimizer=OptimizerConfig(learning_rate=2e-3), save_every=20.0,
        ),
        directory=tmp_path / "run",
        request={"kind": kind},
        command="bertsmith finetune",
        device=torch.device("cpu"),
    )  # fmt: skip
    with fusion.unfused():
        fine_tune(job, learning, console)
    assert isinstance(console.file, io.StringIO)
    *_, next_command = console.file.getvalue().splitlines()
    assert next_command == f"bertsmith evaluate {tmp_path / 'run'} --mine"
    loaded = load(tmp_path / "run")
    assert loaded.head is not None
    assert loaded.head.config.labels == learning.task.head.labels
    assert read_task(loaded.directory) == learning.task
    pictures = {path.stem for path in (tmp_path / "run").glob("*.png")}
    assert pictures == {"curves", "calibration", *PICTURES[kind]}
    first, *_ = score_lines(console.file.getvalue().splitlines())
    assert float(first.split()[1]) > (90 if kind == "spans" else 0.9)


def test_a_question_that_is_drawn_twice_counts_twice() -> None:
    learning = SETS["spans"]
    first, second = learning.dev[:2]
    right, wrong = (
        found_answer(each.key, text)
        for each, text in ((first, first.answers[0].text), (second, "nothing"))
    )
    scores = learning.task.score([first, first, second, second], [right, right, wrong, wrong])
    assert scores == {"f1": 50.0, "exact": 50.0}
    scores = learning.task.score([first, first, first, second], [right, right, right, wrong])
    assert scores == {"f1": 75.0, "exact": 75.0}
