import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, multiprocessing, nn

from bertsmith.batch import PretrainBatch
from bertsmith.data.plan import Plan
from bertsmith.model.config import sized
from bertsmith.model.dropout import FEED_FORWARD_SITE, dropped, site_words
from bertsmith.model.init import initialise
from bertsmith.model.objectives import Losses, PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.recipes.pretraining import mini_cpu
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.runs.learner import Learner
from bertsmith.runs.training import rules_of
from bertsmith.train.device import ALONE, Processes
from bertsmith.train.loop import train
from bertsmith.train.optimizer import Optimizer, OptimizerConfig
from bertsmith.train.schedule import ScheduleConfig
from tests.data.in_memory import InMemoryCorpus, articles
from tests.model.plain import random_pretrain_batch
from tests.train.toy import ToyLearner, toy_batches

STEPS = 6
CONFIG = replace(sized(2, 16, 2), vocab_size=60, max_position_embeddings=128)
RUN = replace(mini_cpu(), model=CONFIG, dropout=True)
LENGTHS = [9, 4, 30, 17, 3, 12]
BATCH_SIZE = 8
FLOAT32_TOLERANCE = 1e-5  # sums of float32 are ordered otherwise


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
        Learner(model, seed=run.seed, with_dropout=run.dropout),
        optimizer,
        ScheduleConfig(total_steps=10, warmup_steps=2),
        batches,
        accumulation=accumulation,
        processes=processes,
    )
    measured = [[step.loss, step.grad_norm, *step.sums.values(), step.tokens] for step in steps]
    return {**optimizer.state(), "measured": torch.tensor(measured, dtype=torch.float64)}


class Watched(nn.Module):
    """A learner that keeps every sequence it is given, with the dropout mask the model drew."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.learner = learner
        self.seen: list[tuple[str, Tensor]] = []
        self._streams: list[Stream] = []
        learner.model.bert.register_forward_pre_hook(
            lambda _, arguments: self._streams.append(arguments[0])
        )

    def forward(self, batch: PretrainBatch, step: int) -> Losses:
        losses: Losses = self.learner(batch, step)
        words = site_words(self._streams.pop().row_keys, 1, FEED_FORWARD_SITE)
        mask = dropped(torch.ones(batch.num_tokens, 16), words, 0.5).numpy()  # (T, 16)
        self.seen += sequences_of(batch, mask, step)
        return losses


def sequences_of(batch: PretrainBatch, mask: np.ndarray, step: int) -> list[tuple[str, Tensor]]:
    """Each sequence's name, and all there is of it in one row: inputs, targets, label, mask."""
    packed, found = batch.packed, []
    for number, (start, length) in enumerate(zip(packed.starts, packed.lengths, strict=True)):
        rows = slice(start, start + length)
        inside = (batch.target_rows >= start) & (batch.target_rows < start + length)
        arrays = (
            [length, batch.next_labels[number], batch.step_targets, batch.step_sequences],
            packed.token_ids[rows],
            packed.segment_ids[rows],
            batch.target_rows[inside] - start,
            batch.target_ids[inside],
            mask[rows].reshape(-1),
        )
        whole = torch.from_numpy(np.concatenate([np.asarray(a, np.float64) for a in arrays]))
        found.append((f"step {step} sequence {packed.keys[number]}", whole))
    return found


def float32_steps(
    accumulation: int, processes: Processes = ALONE
) -> tuple[dict[str, Tensor], list[tuple[str, Tensor]]]:
    """Six steps of a plan in float32, with dropout: moments of the gradients, sequences seen.

    The rate is 0 throughout. Weights that move would grow apart, as Adam makes full steps of
    gradients that are nothing but rounding (those of the keys' biases are).
    """
    phase = Phase(steps=STEPS, sequence_length=32, batch_size=BATCH_SIZE)
    corpus = InMemoryCorpus([articles(15, 10, 3, longest=12)], CONFIG.vocab_size)
    plan = Plan(corpus, rules_of(RUN, phase, seed=RUN.seed))  # type: ignore[arg-type]
    model = PretrainModel(RUN.model, RUN.objectives)
    initialise(model, std=0.1, seed=RUN.seed)
    model.bert.embeddings.token.leaves_sparse_gradients = True  # which several processes end
    learner = Watched(Learner(model, seed=RUN.seed, with_dropout=RUN.dropout))
    optimizer = Optimizer(model.named_parameters(), OptimizerConfig())
    steps = train(
        learner,
        optimizer,
        ScheduleConfig(total_steps=1, warmup_steps=1),
        [plan.step(number) for number in range(STEPS)],
        accumulation=accumulation,
        processes=processes,
    )
    measured = torch.tensor([[step.loss, step.grad_norm] for step in steps], dtype=torch.float64)
    moments = {n: t for n, t in optimizer.state().items() if n.startswith("exp_avg.")}
    return {**moments, "loss": measured[:, 0], "grad_norm": measured[:, 1]}, learner.seen


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
    seen = []
    for accumulation in (1, 2):
        gradients, sequences = float32_steps(accumulation, processes)
        results.append(gradients)
        seen.append(sequences)
    torch.save(results, f"{directory}/rank{rank}.pt")
    torch.save(seen, f"{directory}/seen{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def directory_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("two")
    multiprocessing.spawn(train_as_one_of_two, args=(str(directory),), nprocs=2)
    return directory


@pytest.fixture(scope="module")
def results_of_two(directory_of_two: Path) -> list[list[dict[str, torch.Tensor]]]:
    return [torch.load(directory_of_two / f"rank{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("case", range(5))
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


@pytest.mark.parametrize("case", [3, 4])
def test_in_float32_gradients_differ_by_rounding_only(
    case: int, results_of_two: list[list[dict[str, torch.Tensor]]]
) -> None:
    both = results_of_two[0][case]
    for accumulation in (1, 4):
        alone, _ = float32_steps(accumulation)
        assert len(alone["loss"]) == STEPS
        for name, tensor in alone.items():
            distance = (both[name] - tensor).norm() / tensor.norm()
            assert float(distance) < FLOAT32_TOLERANCE, name


@pytest.mark.parametrize("case", [0, 1])
def test_each_sequence_of_a_step_is_in_one_micro_batch_with_the_mask_it_always_has(
    case: int, directory_of_two: Path
) -> None:
    loaded = [torch.load(directory_of_two / f"seen{rank}.pt")[case] for rank in range(2)]
    whole = dict(float32_steps(1)[1])
    assert len(whole) == STEPS * BATCH_SIZE
    for parts in ([*loaded[0], *loaded[1]], float32_steps(4)[1]):
        assert sorted(name for name, _ in parts) == sorted(whole)
        assert all(torch.equal(sequence, whole[name]) for name, sequence in parts)
    assert all(loaded)


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
