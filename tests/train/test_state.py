import json
from pathlib import Path

import pytest
import torch

from bertsmith.train.config import OptimizerConfig
from bertsmith.train.loop import train
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.schedule import ScheduleConfig
from bertsmith.train.state import load_state, save_state
from tests.train.toy import ToyLearner, toy_batches

SCHEDULE = ScheduleConfig(total_steps=10, warmup_steps=2)


def fresh(dtype: torch.dtype, name: str = "bert_adam") -> tuple[ToyLearner, Optimizer]:
    learner = ToyLearner(dtype)
    config = OptimizerConfig(name=name, learning_rate=0.05)
    return learner, Optimizer(learner.named_parameters(), config)


def advance(learner: ToyLearner, optimizer: Optimizer, start: int, stop: int) -> None:
    batches = toy_batches(start, stop)
    for _ in train(learner, optimizer, SCHEDULE, batches, start=start):
        pass


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param("bert_adam", torch.bfloat16, marks=pytest.mark.compiled, id="compiled"),
        ("bert_adam", torch.bfloat16),
        ("bert_adam", torch.float32),
        ("adamw", torch.float16),
        ("lamb", torch.bfloat16),
    ],
)
def test_saved_and_resumed_equals_never_stopped_to_the_bit(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    learner, optimizer = fresh(dtype, name)
    advance(learner, optimizer, 0, 10)
    stopped_learner, stopped = fresh(dtype, name)
    advance(stopped_learner, stopped, 0, 5)
    save_state(tmp_path, stopped, 5, {"seed": 1})
    resumed_learner, resumed = fresh(dtype, name)
    step = load_state(tmp_path, resumed).step
    advance(resumed_learner, resumed, step, 10)
    assert all(torch.equal(resumed.state()[key], kept) for key, kept in optimizer.state().items())
    for one, other in zip(learner.parameters(), resumed_learner.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_callers_own_facts_come_back(tmp_path: Path) -> None:
    _, optimizer = fresh(torch.float32)
    extra = {"fingerprint": "abc", "phases": [1, 2], "minutes": 0.5, "none": None}
    save_state(tmp_path, optimizer, 7, extra)
    state = load_state(tmp_path, optimizer)
    assert (state.step, state.extra) == (7, extra)


def test_a_directory_without_a_state_is_refused(tmp_path: Path) -> None:
    _, optimizer = fresh(torch.float32)
    with pytest.raises(FileNotFoundError, match=r"has no trainer\.safetensors"):
        load_state(tmp_path, optimizer)


def test_another_optimizers_state_is_refused(tmp_path: Path) -> None:
    save_state(tmp_path, fresh(torch.float32, "lamb")[1], 1, {})
    with pytest.raises(ValueError, match="by optimizer 'lamb', this run uses 'adamw'"):
        load_state(tmp_path, fresh(torch.float32, "adamw")[1])


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    _, optimizer = fresh(torch.float32)
    save_state(tmp_path, optimizer, 1, {})
    tensors = tmp_path / "trainer.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"trainer\.safetensors is damaged"):
        load_state(tmp_path, optimizer)
    facts = tmp_path / "trainer.json"
    facts.write_text(json.dumps({"step": "1", "optimizer": "bert_adam", "extra": {}}))
    with pytest.raises(ValueError, match="expected an object with 'step' of type int"):
        load_state(tmp_path, optimizer)
    facts.write_text("{")
    with pytest.raises(ValueError, match=r"trainer\.json is not JSON: .*line 1"):
        load_state(tmp_path, optimizer)
