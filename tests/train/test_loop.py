import pytest
import torch

from bertsmith.train.config import OptimizerConfig
from bertsmith.train.loop import Step, train
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.schedule import ScheduleConfig
from tests.train.toy import ToyBatch, ToyLearner, ToyLosses, toy_batches

SCHEDULE = ScheduleConfig(total_steps=40, warmup_steps=4)
CONFIG = OptimizerConfig(learning_rate=0.05)


def run(
    learner: ToyLearner, stop: int, accumulation: int = 1, config: OptimizerConfig = CONFIG
) -> tuple[Optimizer, list[Step]]:
    optimizer = Optimizer(learner.named_parameters(), config)
    batches = toy_batches(0, stop)
    return optimizer, list(train(learner, optimizer, SCHEDULE, batches, accumulation=accumulation))


def test_training_lowers_the_loss() -> None:
    _, steps = run(ToyLearner(), 40)
    assert steps[-1].loss < 0.5 * steps[0].loss


def test_one_step_is_one_update_with_its_own_rate_number_and_tokens() -> None:
    _, steps = run(ToyLearner(), 7)
    assert [step.number for step in steps] == [1, 2, 3, 4, 5, 6, 7]
    assert [step.tokens for step in steps] == [30, 31, 32, 30, 31, 32, 30]
    assert [step.learning_rate for step in steps] == [0.05 * SCHEDULE.rate(s) for s in range(7)]
    assert all(step.seconds > 0 and not step.skipped for step in steps)


def test_first_update_changes_no_weight() -> None:
    learner = ToyLearner()
    before = [parameter.detach().clone() for parameter in learner.parameters()]
    run(learner, 1)
    assert all(torch.equal(a, b) for a, b in zip(before, learner.parameters(), strict=True))


def test_sums_are_those_of_the_whole_step() -> None:
    _, (step,) = run(ToyLearner(), 1, accumulation=4)
    (batch,) = toy_batches(0, 1)
    whole = ToyLearner()(batch, 0)
    assert step.sums["count"] == 30
    assert step.sums["correct"] == int(whole.sums["correct"])
    assert step.loss == pytest.approx(whole.loss.item(), rel=1e-14)
    assert step.sums["loss_sum"] == pytest.approx(whole.sums["loss_sum"].item(), rel=1e-14)


def test_the_gradient_norm_is_that_of_the_whole_step() -> None:
    learner = ToyLearner()
    (batch,) = toy_batches(0, 1)
    learner(batch, 0).loss.backward()
    squares = [p.grad.square().sum() for p in learner.parameters() if p.grad is not None]
    _, (step,) = run(ToyLearner(), 1, accumulation=3)
    assert step.grad_norm == pytest.approx(float(torch.stack(squares).sum().sqrt()), rel=1e-13)


def test_one_equals_four_accumulations() -> None:
    one, _ = run(ToyLearner(), 12)
    four, _ = run(ToyLearner(), 12, accumulation=4)
    for name, tensor in one.state().items():
        torch.testing.assert_close(four.state()[name], tensor, rtol=0, atol=1e-12)


class ConstantGradient(ToyLearner):
    """The gradient on `out.bias` is 1 from the first micro-batch and 2^-9 from every later one."""

    def forward(self, batch: ToyBatch, step: int) -> ToyLosses:
        is_first = bool(batch.rows[0] == 0)
        return ToyLosses(self.out.bias.sum() * (1.0 if is_first else 2.0**-9), {})


def test_half_precision_gradients_are_summed_in_float32() -> None:
    # In bfloat16 1 + 2^-9 is 1 again, and every later micro-batch would be lost.
    learner = ConstantGradient(torch.bfloat16)
    optimizer = Optimizer(learner.named_parameters(), OptimizerConfig(clip_norm=None))
    rows = torch.arange(8)
    batch = ToyBatch(rows, rows, 8)
    next(train(learner, optimizer, SCHEDULE, [batch], accumulation=8))
    moment = optimizer.state()["exp_avg.out.bias"]
    torch.testing.assert_close(moment, torch.full((5,), 0.1 * (1 + 7 * 2.0**-9)))


def test_a_run_continues_at_its_step_number() -> None:
    whole, _ = run(ToyLearner(), 8)
    learner = ToyLearner()
    half, _ = run(learner, 5)
    steps = list(train(learner, half, SCHEDULE, toy_batches(5, 8), start=5))
    assert [step.number for step in steps] == [6, 7, 8]
    assert all(torch.equal(half.state()[name], tensor) for name, tensor in whole.state().items())


class OverflowingLearner(ToyLearner):
    def forward(self, batch: ToyBatch, step: int) -> ToyLosses:
        losses = super().forward(batch, step)
        return ToyLosses(losses.loss * (torch.inf if step == 1 else 1.0), losses.sums)


def test_an_overflowing_float16_step_says_so_and_keeps_the_weights() -> None:
    learner = OverflowingLearner(torch.float16)
    optimizer = Optimizer(learner.named_parameters(), CONFIG)
    steps = train(learner, optimizer, SCHEDULE, toy_batches(0, 3))
    assert not next(steps).skipped
    before = {name: tensor.clone() for name, tensor in optimizer.masters().items()}
    assert next(steps).skipped
    assert all(torch.equal(before[name], now) for name, now in optimizer.masters().items())
    assert not next(steps).skipped
    assert optimizer.scaler is not None
    assert optimizer.scaler.scale == 32_768.0


def test_nothing_runs_before_the_caller_asks() -> None:
    learner = ToyLearner()
    optimizer = Optimizer(learner.named_parameters(), CONFIG)
    asked: list[int] = []

    def batches():
        for number, batch in enumerate(toy_batches(0, 3)):
            asked.append(number)
            yield batch

    steps = train(learner, optimizer, SCHEDULE, batches())
    assert asked == []
    next(steps)
    assert asked == [0]


def test_accumulation_below_one_is_refused() -> None:
    learner = ToyLearner()
    optimizer = Optimizer(learner.named_parameters(), CONFIG)
    with pytest.raises(ValueError, match="accumulation must be at least 1, found 0"):
        next(train(learner, optimizer, SCHEDULE, toy_batches(0, 1), accumulation=0))
