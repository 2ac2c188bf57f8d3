"""When a fine-tuning run evaluates and saves, and what the evaluations decide."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.data.labelled import TaskPlan
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.directory import checkpoint_path
from bertsmith.runs.finetune_ongoing import DevProgress, OngoingFinetuning
from bertsmith.runs.finetuning import TaskCheckpoint
from tests.checkpoints.tiny import tiny_tokenizer
from tests.runs.test_finetuning import PLAN, RUN, begun, loaded_from, trained


def ongoing(run: FinetuneRun) -> OngoingFinetuning:
    plan = TaskPlan(labelled=PLAN.labelled, batch_size=run.batch_size, seed=0)
    return OngoingFinetuning(
        directory=Path("nowhere"),
        run=run,
        parts=None,  # type: ignore[arg-type]  # only an update reads it
        plan=plan,
        keeper=None,  # type: ignore[arg-type]
        measure=lambda model: {},
        start=0,
        progress=DevProgress(),
        log=None,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("batch_size", "epochs", "every", "due"),
    [
        (5, 3.0, 1.0, [2, 4, 6]),
        (4, 3.0, 1.0, [3, 5, 7]),  # 7.5 steps: an epoch ends within a step, and the run with its 7
        (1, 1.0, 0.1, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (5, 2.0, 10.0, [4]),
        (5, 2.0, 0.01, [1, 2, 3, 4]),
        (32, 0.1, 1.0, [1]),
    ],
)
def test_epochs_are_counted_in_examples_and_the_end_always_counts(
    batch_size: int, epochs: float, every: float, due: list[int]
) -> None:
    run = ongoing(FinetuneRun(batch_size=batch_size, epochs=epochs))
    assert [n for n in range(1, run.num_steps + 1) if run.is_due(n, every)] == due


def test_the_first_of_equal_scores_is_the_best() -> None:
    progress = DevProgress()
    assert [progress.add(*each) for each in ((2, -0.5), (4, 0.5), (6, 0.5), (8, 0.1))] == [
        True, True, False, False,
    ]  # fmt: skip
    assert (progress.best_score, progress.best_step, progress.num_worse) == (0.5, 4, 2)


@pytest.mark.parametrize(("patience", "end"), [(0, 8), (1, 5), (2, 6)])
def test_patience_ends_a_run_that_gets_no_better(patience: int, end: int) -> None:
    run = ongoing(FinetuneRun(batch_size=5, epochs=4.0, patience=patience))
    scores = [0.1, 0.2, 0.3, 0.4, 0.3, 0.2, 0.5, 0.6]
    for step, score in enumerate(scores, 1):
        run.progress.add(step, score)
        if run.decide_end(step):
            break
    assert step == end
    assert run.progress.is_finished
    assert list(run.batches()) == []


def test_what_is_kept_is_the_best_or_the_last() -> None:
    run = ongoing(FinetuneRun(batch_size=5))
    run.progress.best_step, run.progress.last_step = 2, 6
    assert run.kept_step == 2
    assert replace(run, run=FinetuneRun(batch_size=5, keep_best=False)).kept_step == 6


def test_the_best_model_is_a_copy_of_a_checkpoint_wherever_a_run_dies(tmp_path: Path) -> None:
    """Of none before its checkpoint is whole; an older one is made good where the run goes on."""
    scores = iter([0.5, 0.4, 0.6])
    parts, run, best = (
        begun(RUN, loaded_from(tmp_path / "m")),
        tmp_path / "run",
        "model.safetensors",
    )

    def going_on() -> OngoingFinetuning:
        keeper = TaskCheckpoint(tokenizer=tiny_tokenizer(), task={"kind": "none"})
        return OngoingFinetuning.set_up(
            run, RUN, parts, PLAN, keeper, lambda model: {"accuracy": next(scores)}
        )

    def weights(place: Path) -> bytes:
        return (place / best).read_bytes()

    ongoing = going_on()
    for step, kept in ((2, 2), (4, 2), (6, 6)):
        trained(parts, step - 2, step)
        before = weights(run / "best") if step > 2 else b""
        ongoing.evaluate(step)
        assert ongoing.is_best(step) is (step == kept)
        assert (weights(run / "best") if (run / "best").exists() else b"") == before
        if step == 6:
            shutil.copytree(run / "best", tmp_path / "older")
        ongoing.save(step)
        expected = weights(checkpoint_path(run, step)) if step == kept else before
        assert weights(run / "best") == expected
    ongoing.close()
    assert not list((run / "best").glob("trainer*"))
    shutil.rmtree(run / "best")
    shutil.copytree(tmp_path / "older", run / "best")  # as if it had died before the copy
    going_on().close()
    assert weights(run / "best") == weights(checkpoint_path(run, 6)) != weights(tmp_path / "older")
