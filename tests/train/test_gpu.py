"""Training steps on a GPU against the CPU's: float32 equal, half precision sound.

Needs torch, numpy and pytest only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import nn

from bertsmith import fusion
from bertsmith.batch import PretrainBatch
from bertsmith.model.config import sized
from bertsmith.model.init import initialise
from bertsmith.model.objectives import Losses, PretrainModel
from bertsmith.train.config import OptimizerConfig, OptimizerName, Precision
from bertsmith.train.device import cast_, choose_precision
from bertsmith.train.loop import Step, train
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.schedule import ScheduleConfig
from tests.conftest import BOTH_KERNELS
from tests.model.plain import random_pretrain_batch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]

CONFIG = replace(sized(2, 128, 4), vocab_size=1000, max_position_embeddings=128)
BATCH = random_pretrain_batch([5, 128, 61, 61, 100, 2, 97, 40], CONFIG.vocab_size)


@pytest.fixture(autouse=True)
def _exact_float32() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


class Learner(nn.Module):
    def __init__(self, model: PretrainModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: PretrainBatch, step: int) -> Losses:
        losses: Losses = self.model(batch, (0, step))
        return losses


class Training:
    """A small model on a device; every step sees the same batch, with other dropout masks."""

    def __init__(
        self, device: str, precision: Precision = "fp32", name: OptimizerName = "bert_adam"
    ) -> None:
        model = PretrainModel(CONFIG, ("masked_lm", "next_sentence"))
        initialise(model, std=0.02, seed=4)
        model.to(device)
        cast_(model, precision)
        self.model = model
        config = OptimizerConfig(name=name, learning_rate=1e-3)
        self.optimizer = Optimizer(model.named_parameters(), config)

    def steps(self, count: int, accumulation: int = 1) -> list[Step]:
        return list(
            train(
                Learner(self.model),
                self.optimizer,
                # No warm-up: the first update has the full rate.
                ScheduleConfig(total_steps=1000, warmup_steps=0),
                [BATCH] * count,
                accumulation=accumulation,
            )
        )

    def loss(self) -> float:
        """Of the same batch, without dropout."""
        with torch.no_grad():
            losses: Losses = self.model(BATCH)
        return float(losses.loss)


@pytest.mark.usefixtures("kernels")
@BOTH_KERNELS
@pytest.mark.parametrize("name", ["bert_adam", "adamw", "lamb"])
def test_a_step_on_a_gpu_matches_the_cpus_and_decreases_the_loss(name: OptimizerName) -> None:
    gpu = Training("cuda", name=name)
    before = gpu.loss()
    [on_gpu] = gpu.steps(1)
    with fusion.unfused():
        cpu = Training("cpu", name=name)
        [on_cpu] = cpu.steps(1)
    assert on_gpu.loss == pytest.approx(on_cpu.loss, rel=1e-4)
    assert on_gpu.grad_norm == pytest.approx(on_cpu.grad_norm, rel=1e-4)
    for counted in ("masked_lm_count", "next_sentence_count"):
        assert on_gpu.sums[counted] == on_cpu.sums[counted]
    moments, expected = gpu.optimizer.state(), cpu.optimizer.state()
    for entry, tensor in expected.items():
        if entry.startswith("exp_avg."):
            difference = (moments[entry].cpu() - tensor).norm()
            # A tenth of the gradient; what is zero but for rounding (a key's bias) has no digits.
            assert difference <= 1e-4 * tensor.norm() + 1e-6, entry
    for entry, tensor in cpu.optimizer.masters().items():
        # Adam's first update is almost the gradient's sign, so where a gradient is rounding noise
        # one weight may differ by two learning rates; over a tensor that is far below 1e-4 of it.
        if "qkv.bias" not in entry:
            difference = (gpu.optimizer.masters()[entry].cpu() - tensor).norm()
            assert difference <= 1e-4 * tensor.norm() + 1e-4, entry
    assert gpu.loss() < before


@pytest.mark.parametrize("name", ["bert_adam", "adamw", "lamb"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_never_waits_for_the_gpu(name: OptimizerName, precision: Precision) -> None:
    training = Training("cuda", precision, name)
    training.steps(1)  # libraries set themselves up in the first step, and may wait for it
    before = {entry: tensor.clone() for entry, tensor in training.optimizer.masters().items()}
    try:
        torch.cuda.set_sync_debug_mode("error")
        updates = training.steps(2)
        # Waiting is noticed at all: a number of a step is fetched when it is first looked at.
        with pytest.raises(RuntimeError, match="synchronizing"):
            _ = updates[0].loss
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(math.isfinite(each.loss) for each in updates)
    masters = training.optimizer.masters()
    assert not any(torch.equal(tensor, masters[entry]) for entry, tensor in before.items())


@pytest.mark.usefixtures("kernels")
@BOTH_KERNELS
def test_accumulation_on_a_gpu_gives_the_whole_steps_numbers() -> None:
    [whole], [parts] = (Training("cuda").steps(1, accumulation=n) for n in (1, 4))
    assert parts.loss == pytest.approx(whole.loss, rel=1e-4)
    assert parts.grad_norm == pytest.approx(whole.grad_norm, rel=1e-4)


@pytest.mark.usefixtures("kernels")
@BOTH_KERNELS
@pytest.mark.parametrize("accumulation", [1, 2])
def test_bf16_trains_like_fp32_within_its_rounding(accumulation: int) -> None:
    if not torch.cuda.is_bf16_supported(including_emulation=False):
        pytest.skip("this GPU has no bfloat16")
    half, full = Training("cuda", "bf16"), Training("cuda")
    before = half.loss()
    in_half, in_full = half.steps(10, accumulation), full.steps(10, accumulation)
    # bfloat16 keeps eight bits: one part in 256.
    assert in_half[0].loss == pytest.approx(in_full[0].loss, rel=2.0**-8)
    assert in_half[-1].loss == pytest.approx(in_full[-1].loss, rel=2.0**-5)
    assert half.loss() < before
    weight = half.model.get_parameter("bert.layers.0.attention.qkv.weight")
    master = half.optimizer.masters()["bert.layers.0.attention.qkv.weight"]
    assert (weight.dtype, master.dtype) == (torch.bfloat16, torch.float32)
    assert torch.equal(weight, master.to(torch.bfloat16))


@pytest.mark.usefixtures("kernels")
@BOTH_KERNELS
def test_fp16_scales_the_loss_and_skips_steps_that_overflow() -> None:
    training = Training("cuda", "fp16")
    scaler = training.optimizer.scaler
    assert scaler is not None
    before = training.loss()
    first = training.steps(10)
    applied = [step for step in first if not step.skipped]
    assert applied
    # The norm that is reported is of the true gradient, whatever the scale was. It may be that of a
    # later step than float32's first, with other dropout masks.
    full = Training("cuda").steps(1)[0]
    assert applied[0].grad_norm == pytest.approx(full.grad_norm, rel=0.3)
    assert training.loss() < before

    weights = {name: tensor.clone() for name, tensor in training.optimizer.masters().items()}
    scaler.scale = 2.0**60
    [overflowed] = training.steps(1)
    assert overflowed.skipped
    assert scaler.scale == 2.0**59
    assert all(torch.equal(weights[n], t) for n, t in training.optimizer.masters().items())


def test_a_gpu_takes_bf16_where_it_has_it_and_fp16_elsewhere() -> None:
    expected = "bf16" if torch.cuda.get_device_capability() >= (8, 0) else "fp16"
    if torch.version.hip is None:
        assert choose_precision("auto", torch.device("cuda", 0)) == expected
