"""A pre-trained model under a task's head: what is drawn, what stays, what a checkpoint keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bertsmith.batch import TaskBatch
from bertsmith.checkpoints import store
from bertsmith.checkpoints.store import Loaded
from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems, TaskPlan
from bertsmith.model.task import TaskHeadConfig
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.finetuning import (
    TaskCheckpoint,
    TaskTrainee,
    begin_task_model,
    task_trainee,
)
from bertsmith.train.loop import Step, train
from bertsmith.train.state import TrainerState, load_state
from tests.checkpoints.tiny import tiny_model, tiny_tokenizer

RUN = FinetuneRun(batch_size=4, precision="fp32", warmup_share=0.0)
PAIR = TaskHeadConfig(kind="sequence_classification", labels=("no", "yes"))
TAGS = TaskHeadConfig(kind="token_classification", labels=("no", "yes"))
NUM_STEPS = 6
CPU = torch.device("cpu")
DRAWS = np.random.default_rng(0)
LENGTHS = DRAWS.integers(3, 20, 10).tolist()
ITEMS = [
    Item(
        token_ids=DRAWS.integers(5, 20, length).astype(np.int32),
        segment_ids=np.zeros(length, np.int32),
        num_unread=0,
    )
    for length in LENGTHS
]
PLAN = TaskPlan(
    labelled=LabelledItems(
        items=ITEMS,
        groups=np.arange(10),
        rows=None,
        targets=[np.array([number % 2]) for number in range(10)],
    ),
    batch_size=4,
    seed=0,
)


def loaded_from(folder: Path, *objectives: str, seed: int = 3) -> Loaded:
    model = tiny_model(*objectives, seed=seed)  # type: ignore[arg-type]
    store.save(folder, model, model.config, tiny_tokenizer())
    return store.load(folder)


def begun(run: FinetuneRun, loaded: Loaded) -> TaskTrainee:
    model, _ = begin_task_model(loaded, PAIR, run)
    return task_trainee(run, model, NUM_STEPS, CPU)


def trained(parts: TaskTrainee, start: int, stop: int) -> list[Step]:
    batches: list[TaskBatch] = [PLAN.step(number) for number in range(start, stop)]
    return list(train(parts.learner, parts.optimizer, parts.schedule, batches, start=start))


def copied(parts: TaskTrainee) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in parts.weights().items()}


def test_the_encoder_is_the_loaded_one_and_the_head_is_drawn_by_the_seed(tmp_path: Path) -> None:
    loaded = loaded_from(tmp_path / "m")
    encoder = {name: each.clone() for name, each in loaded.model.bert.state_dict().items()}
    heads = []
    for seed in (0, 0, 1):
        model, notes = begin_task_model(loaded, PAIR, replace(RUN, seed=seed))
        heads.append(model.head.scores.weight.detach().clone())
        assert f"a new head of 2 scores, drawn by seed {seed}" in notes
        assert "not part of the task's model: masked_lm, next_sentence" in notes
        assert all(torch.equal(each, encoder[n]) for n, each in model.bert.state_dict().items())
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
    assert heads[0].abs().max() <= 2 * loaded.config.initializer_range


def test_a_pooler_is_drawn_where_none_is_there_and_left_aside_where_none_is_read(
    tmp_path: Path,
) -> None:
    without = loaded_from(tmp_path / "without", "masked_lm")
    model, notes = begin_task_model(without, PAIR, RUN)
    assert model.bert.pooler is not None
    assert float(model.bert.pooler.weight.detach().std()) > 0
    assert any("holds no pooler" in note for note in notes)
    model, notes = begin_task_model(loaded_from(tmp_path / "with"), TAGS, RUN)
    assert model.bert.pooler is None
    assert "not part of the task's model: masked_lm, next_sentence, the pooler" in notes


def test_a_model_can_go_on_with_its_own_head_and_only_with_that(tmp_path: Path) -> None:
    first = begun(RUN, loaded_from(tmp_path / "m"))
    trained(first, 0, 2)
    keeper = TaskCheckpoint(tokenizer=tiny_tokenizer(), task={"kind": "none"})
    keeper.write(tmp_path / "tuned", first, TrainerState(step=2, extra={}))
    keeps = replace(RUN, keep_head=True, seed=5)
    model, notes = begin_task_model(store.load(tmp_path / "tuned"), PAIR, keeps)
    assert notes == ["the model's own head is trained on"]
    assert torch.equal(model.head.scores.weight, first.model.head.scores.weight)
    _, notes = begin_task_model(store.load(tmp_path / "tuned"), PAIR, RUN)
    assert notes == ["a new head of 2 scores, drawn by seed 0; the one of the model is left aside"]
    for head, folder, told in (
        (replace(PAIR, labels=("a", "b")), "tuned", "its labels are no, yes, the task's a, b"),
        (TAGS, "tuned", "that one is for sequence_classification, the task needs token_cl"),
        (PAIR, "m", "it has none"),
    ):
        with pytest.raises(ValueError, match=told):
            begin_task_model(store.load(tmp_path / folder), head, keeps)


def test_a_bilstm_on_top_is_drawn_trained_saved_and_gone_on_with(tmp_path: Path) -> None:
    run = replace(RUN, on_top="bilstm", lstm_size=6, lstm_layers=1)
    parts = begun(run, loaded_from(tmp_path / "m"))
    assert parts.model.bert.pooler is None
    before = copied(parts)
    trained(parts, 0, 2)
    changed = {
        name for name, each in parts.weights().items() if not torch.equal(each, before[name])
    }
    assert "head.bilstm.lstm.weight_hh_l0_reverse" in changed
    assert "bert.embeddings.token.weight" in changed
    keeper = TaskCheckpoint(tokenizer=tiny_tokenizer(), task={"kind": "none"})
    keeper.write(tmp_path / "tuned", parts, TrainerState(step=2, extra={}))
    model, notes = begin_task_model(
        store.load(tmp_path / "tuned"), PAIR, replace(run, keep_head=True)
    )
    assert notes == ["the model's own head is trained on"]
    assert model.head.config == parts.model.head.config
    for other in (replace(RUN, keep_head=True), replace(run, keep_head=True, lstm_size=5)):
        with pytest.raises(
            ValueError, match=r"that one stands on a BiLSTM of 1 x 6 .*\(on_top, layers"
        ):
            begin_task_model(store.load(tmp_path / "tuned"), PAIR, other)


def test_frozen_layers_stay_to_the_bit_and_the_others_change(tmp_path: Path) -> None:
    parts = begun(replace(RUN, frozen_layers=1), loaded_from(tmp_path / "m"))
    before = copied(parts)
    trained(parts, 0, 3)
    for name, weight in parts.weights().items():
        is_frozen = name.startswith(("bert.embeddings.", "bert.layers.0."))
        assert torch.equal(weight, before[name]) == is_frozen, name
    _, notes = begin_task_model(loaded_from(tmp_path / "m"), PAIR, replace(RUN, frozen_layers=1))
    assert "not trained: the embeddings and the first 1 of 2 layers" in notes
    with pytest.raises(ValueError, match="frozen_layers is 3, and the model has 2 layers"):
        begin_task_model(loaded_from(tmp_path / "m"), PAIR, replace(RUN, frozen_layers=3))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    "changes", [{}, {"frozen_layers": 1}, {"on_top": "bilstm", "lstm_size": 6}], ids=str
)
@pytest.mark.parametrize("objectives", [("masked_lm",), ("masked_lm", "next_sentence")])
def test_a_run_restored_from_its_checkpoint_ends_with_the_same_bits(
    tmp_path: Path, precision: str, changes: dict[str, object], objectives: tuple[str, ...]
) -> None:
    run = replace(RUN, precision=precision, **changes)  # type: ignore[arg-type]
    whole = begun(run, loaded_from(tmp_path / "m", *objectives))
    losses = [step.loss for step in trained(whole, 0, NUM_STEPS)]
    first = begun(run, loaded_from(tmp_path / "m", *objectives))
    trained(first, 0, 2)
    keeper = TaskCheckpoint(tokenizer=tiny_tokenizer(), task={"kind": "none"})
    keeper.write(tmp_path / "c", first, TrainerState(step=2, extra={"best_step": 1}))
    second = begun(replace(run, keep_head=True), store.load(tmp_path / "c"))
    state = load_state(tmp_path / "c", second.optimizer)
    assert (state.step, state.extra) == (2, {"best_step": 1})
    assert [step.loss for step in trained(second, 2, NUM_STEPS)] == losses[2:]
    expected = whole.weights()
    assert expected.keys() == second.weights().keys()
    assert all(torch.equal(each, expected[name]) for name, each in second.weights().items())


def test_a_checkpoint_holds_the_float32_weights_and_the_task(tmp_path: Path) -> None:
    run = replace(RUN, precision="bf16", frozen_layers=1)
    parts = begun(run, loaded_from(tmp_path / "m"))
    trained(parts, 0, 2)
    keeper = TaskCheckpoint(tokenizer=tiny_tokenizer(), task={"kind": "any"})
    keeper.write(tmp_path / "c", parts, TrainerState(step=2, extra={}))
    loaded = store.load(tmp_path / "c")
    assert loaded.head is not None
    assert loaded.head.config == PAIR
    kept = {f"bert.{name}": each for name, each in loaded.model.bert.state_dict().items()}
    kept |= {f"head.{name}": each for name, each in loaded.head.state_dict().items()}
    weights = parts.weights()
    assert kept.keys() == weights.keys()
    assert all(torch.equal(each, weights[name]) for name, each in kept.items())
    assert (tmp_path / "c" / "task.json").is_file()


def test_dropout_is_the_runs(tmp_path: Path) -> None:
    losses = {
        with_dropout: trained(
            begun(replace(RUN, dropout=with_dropout), loaded_from(tmp_path / "m")), 0, 1
        )[0].loss
        for with_dropout in (True, False)
    }
    plain, _ = begin_task_model(loaded_from(tmp_path / "m"), PAIR, RUN)
    assert losses[False] == pytest.approx(plain(PLAN.step(0)).loss.item(), rel=1e-6)
    assert losses[True] != losses[False]
