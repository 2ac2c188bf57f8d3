"""The directories of a search's runs -> what each has reached, their ensembles, the chosen model.

It trains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bertsmith.checkpoints import store
from bertsmith.checkpoints.places import BEST, find_model
from bertsmith.files import atomic_directory, read_json, write_json
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.directory import copy_model, holds_model
from bertsmith.runs.ensemble import ItemScores, Member, as_one
from bertsmith.runs.failure import Guessing, failure_of, late_loss
from bertsmith.runs.finetune_record import SCORES, read_finetune_record
from bertsmith.runs.finetune_report import answering_model, report
from bertsmith.runs.finetune_start import Start
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, ReadExamples
from bertsmith.runs.search_record import (
    CHOSEN,
    PointEnsemble,
    Results,
    RunResult,
    chosen_run,
    name_of,
    point_name,
)
from bertsmith.tasks.stored import read_task
from bertsmith.tasks.task import SpanAnswering
from bertsmith.train.device import recorded_precision
from bertsmith.train.log import read_metrics


def result_of(directory: Path, seed: int, guessing: Guessing) -> RunResult:
    """What a run that has ended, well or not, has left in its directory."""
    rows = read_metrics(directory / "metrics.jsonl")
    seconds = sum(float(row.get("seconds") or 0.0) for row in rows)
    loss = late_loss(rows)
    if not (directory / SCORES).is_file():
        last = int(rows[-1]["step"] or 0) if rows else 0
        return RunResult(
            name=directory.name,
            seed=seed,
            scores={},
            step=last,
            loss=loss,
            seconds=seconds,
            failure=f"what it computes was no number any more after step {last:,}",
        )
    content: dict[str, Any] = read_json(directory / SCORES)
    return RunResult(
        name=directory.name,
        seed=seed,
        scores=content["scores"],
        step=content["step"],
        loss=loss,
        seconds=seconds,
        failure=failure_of(content["scores"], loss, guessing),
    )


def ensemble_of(
    search: Path,
    point: Sequence[FinetuneRun],
    results: Results,
    start: Start[ExampleT, EncodedT, AnswerT],
    said: Mapping[str, ItemScores],
    device: torch.device,
) -> PointEnsemble | None:
    """The restarts of a point that did not fail, as one; None of fewer than two.

    `said` is what models have said of the Dev items already, by the run's name; others are asked on
    the device, whatever they were trained on.
    """
    names = tuple(name for run in point if not results.runs[name := name_of(run)].failure)
    if len(names) < 2:
        return None
    known = results.ensembles.get(point_name(point[0]))
    if known is not None and known.names == names:
        return known
    members = [
        Member(
            name=name,
            examples=_as_tuned(search / name, start),
            item_scores=said[name] if name in said else _item_scores(search / name, start, device),
        )
        for name in names
    ]
    one = as_one(members)
    scores = report(start.dev, one.examples.decoded(one.item_scores))
    return PointEnsemble(
        names=names,
        scores=scores.values,
        intervals={
            name: None if each is None else (each.low, each.high)
            for name, each in scores.intervals.items()
        },
    )


def keep_best_model(search: Path, name: str) -> None:
    """Puts a copy of the run's model where whoever loads the search's directory finds it.

    The run's name is written with it, so that both change at once.
    """
    chosen = find_model(search / name)
    if chosen_run(search) == name and holds_model(search / BEST, chosen):
        return
    with atomic_directory(search / BEST) as directory:
        copy_model(chosen, directory)
        write_json(directory / CHOSEN, {"run": name})


def _as_tuned(
    directory: Path, start: Start[ExampleT, EncodedT, AnswerT]
) -> ReadExamples[Any, Any, Any]:
    """The Dev examples under the task that the run left: its threshold of no answer is tuned."""
    task: object = start.dev.task
    if not isinstance(task, SpanAnswering):
        return start.dev
    tuned: Any = read_task(find_model(directory)) or task
    return replace(start.dev, task=tuned)


def _item_scores(
    directory: Path, start: Start[ExampleT, EncodedT, AnswerT], device: torch.device
) -> ItemScores:
    """What the model of a run says of the Dev items."""
    record = read_finetune_record(directory)
    precision = recorded_precision(record.run.precision, device)
    return start.dev.item_scores(answering_model(store.load(directory), precision, device))
