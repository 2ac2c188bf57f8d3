import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import multiprocessing

from bertsmith.model.config import sized
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.recipes.pretraining import mini_cpu
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.training import Learner
from bertsmith.train.device import ALONE, Processes
from bertsmith.train.loop import train
from bertsmith.train.optimizer import Optimizer, OptimizerConfig
from bertsmith.train.schedule import ScheduleConfig
from tests.model.plain import random_pretrain_batch
from tests.train.toy import ToyLearner, toy_batches

STEPS = 6
CONFIG = replace(sized(2, 16, 2), vocab_size=60, max_position_embeddings=128)
RUN = replace(mini_cpu(), model=CONFIG, dropout=True)
LENGTHS = [9, 4, 30, 17, 3, 12]


def trained(
    dtype: torch.dtype, accumulation: int, processes: Processes = ALONE
) -> dict[str, torch.Tensor]:
    learner = ToyLearner(dtype)
    optimizer = Optimizer(learner.named_parameters(), OptimizerConfig(learning_rate=0.05))
    steps = train(
        learner,
        optimizer,
        ScheduleConfig(total_steps=10, warmup_steps=2),
        toy_batches(0, STEPS),
        accumulation=accumulation,
        processes=processes,
    )
    measured = [[step.loss, step.grad_norm, *step.sums.values(), step.tokens] for step in steps]
    return {**optimizer.state(), "measured": torch.tensor(measured, dtype=torch.float64)}


def pretrained(
    accumulation: int, processes: Processes = ALONE, run: PretrainRun = RUN
) -> dict[str, torch.Tensor]:
    """Six steps of the real model and learner in float64, with dropout."""
    model = PretrainModel(run.model, run.objectives)
    initialise(model, std=0.1, seed=run.seed)
    model.double()
    optimizer = Optimizer(model.named_parameters(), OptimizerConfig(learning_rate=1e-3))
    batches = [random_pretrain_batch(LENGTHS, CONFIG.vocab_size, step) for step in range(STEPS)]
    steps = train(
        Learner(model, run),
        optimizer,
        ScheduleConfig(total_steps=10, warmup_steps=2),
        batches,
        accumulation=accumulation,
        processes=processes,
    )
    measured = [[step.loss, step.grad_norm, *step.sums.values(), step.tokens] for step in steps]
    return {**optimizer.state(), "measured": torch.tensor(measured, dtype=torch.float64)}


def train_as_one_of_two(rank: int, directory: str) -> None:
    os.environ["BERTSMITH_FUSION"] = "0"
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{directory}/meeting", rank=rank, world_size=2
    )
    processes = Processes(rank=rank, world_size=2, local_rank=rank)
    results = [
        pretrained(1, processes),
        pretrained(2, processes),
        trained(torch.bfloat16, 2, processes),
    ]
    torch.save(results, f"{directory}/rank{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def results_of_two(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, torch.Tensor]]]:
    directory = tmp_path_factory.mktemp("two")
    multiprocessing.spawn(train_as_one_of_two, args=(str(directory),), nprocs=2)
    return [torch.load(Path(directory) / f"rank{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("case", range(3))
def test_both_processes_hold_the_same_bits(
    case: int, results_of_two: list[list[dict[str, torch.Tensor]]]
) -> None:
    first, second = results_of_two[0][case], results_of_two[1][case]
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("case", [0, 1])
def test_two_processes_equal_one_and_four_accumulations(
    case: int, results_of_two: list[list[dict[str, torch.Tensor]]]
) -> None:
    both = results_of_two[0][case]
    for accumulation in (1, 4):
        alone = pretrained(accumulation)
        for name, tensor in alone.items():
            torch.testing.assert_close(both[name], tensor, rtol=1e-12, atol=1e-12, msg=name)


def test_the_losses_compared_are_those_with_dropout() -> None:
    other = pretrained(1, run=replace(RUN, dropout=False))
    assert not torch.allclose(pretrained(1)["measured"][:, 0], other["measured"][:, 0], rtol=1e-3)


def test_half_precision_gradients_are_rounded_once_after_the_sum(
    results_of_two: list[list[dict[str, torch.Tensor]]],
) -> None:
    both, alone = results_of_two[0][2], trained(torch.bfloat16, 4)
    # The first moments: a sum rounded to bfloat16 once is off by at most 2^-9 of itself; six steps
    # of slightly different bfloat16 weights add to it.
    for name in ("exp_avg.out.bias", "exp_avg.out.weight", "exp_avg.table.weight"):
        distance = (both[name] - alone[name]).norm() / alone[name].norm()
        assert float(distance) < 2.0**-6
