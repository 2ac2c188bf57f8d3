"""Every check of the optimizer, the schedule and first weights fails on one that is wrong."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from bertsmith.certificate import training
from bertsmith.certificate.training import CHECKS
from bertsmith.model.init import initialise
from bertsmith.train import flat, optimizer, updates
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.schedule import ScheduleConfig
from tests.certificate.breaking import Break, names, status


def optimized(**changes: object) -> Break:
    return lambda patch: patch.setattr(
        training, "OptimizerConfig", partial(OptimizerConfig, **changes)
    )


def everything_decays(patch: pytest.MonkeyPatch) -> None:
    whole = flat.Group.__init__

    def init(self, named_parameters, *, decays):
        whole(self, named_parameters, decays=True)

    patch.setattr(flat.Group, "__init__", init)


def clipped_as_torch_does(patch: pytest.MonkeyPatch) -> None:
    def factor(self, norm):
        return (1.0 / (norm + 1e-6)).clamp(max=1.0)

    patch.setattr(optimizer.Optimizer, "_clip_factor", factor)


def norm_of_the_largest_run(patch: pytest.MonkeyPatch) -> None:
    def squared_norm(self):
        native = [] if self._native is None else self._native._updates
        return max(each.gradient.whole.square().sum() for each in [*native, *self._others])

    patch.setattr(updates.Updates, "squared_norm", squared_norm)


def rates(change) -> Break:
    whole = ScheduleConfig.rate
    return lambda patch: patch.setattr(
        ScheduleConfig, "rate", lambda self, finished: change(whole, self, finished)
    )


def decay_from_the_end_of_warm_up(whole, schedule, finished):
    warmup, total = schedule.num_warmup_steps, schedule.total_steps
    if finished < warmup:
        return whole(schedule, finished)
    return max(0.0, (total - finished) / max(1, total - warmup))


def first(change) -> Break:
    def changed(model, *, std, seed):
        initialise(model, std=std, seed=seed)
        torch.manual_seed(0)
        for name, parameter in model.named_parameters():
            change(name, parameter.data, std)

    return lambda patch: patch.setattr(training, "initialise", changed)


def untruncated(name, values, std):
    if values.ndim >= 2:
        values.normal_(0.0, std)


def untruncated_but_bounded(name, values, std):
    if values.ndim >= 2:
        values.normal_(0.0, std).clamp_(-2 * std, 2 * std)


def as_wide_as_the_name_says(name, values, std):
    if values.ndim >= 2:
        values.div_(0.88).clamp_(-2 * std, 2 * std)


def uniform_biases(name, values, std):
    if name.endswith("bias"):
        values.uniform_(-0.1, 0.1)


def pad_row_zero(name, values, std):
    if name == "embeddings.token.weight":
        values[0] = 0.0


BREAKS: list[tuple[str, Break]] = [
    ("optimizer", optimized(name="adamw")),
    ("optimizer", optimized(name="lamb")),
    ("optimizer", optimized(weight_decay=0.0)),
    ("optimizer", optimized(epsilon=1e-8)),
    ("optimizer", optimized(beta2=0.98)),
    ("optimizer", optimized(clip_norm=None)),
    ("optimizer", everything_decays),
    ("optimizer", clipped_as_torch_does),
    ("clipping", norm_of_the_largest_run),
    ("schedule", rates(lambda whole, schedule, n: whole(schedule, n + 1))),
    ("schedule", rates(lambda whole, schedule, n: whole(schedule, max(n - 1, 0)))),
    ("schedule", rates(decay_from_the_end_of_warm_up)),
    ("distribution", first(untruncated)),
    ("distribution", first(untruncated_but_bounded)),
    ("distribution", first(as_wide_as_the_name_says)),
    ("constants", first(uniform_biases)),
    ("pad_row", first(pad_row_zero)),
]


@pytest.mark.parametrize("check", CHECKS)
def test_this_installation_passes(check) -> None:
    assert status(check) == "passed"


@pytest.mark.parametrize(("name", "break_it"), BREAKS)
def test_a_check_fails_on_training_that_is_wrong_in_its_way(
    name: str, break_it: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    assert status(vars(training)[name]) == "failed"


def test_every_check_was_shown_to_fail() -> None:
    assert {name for name, _ in BREAKS} == names(CHECKS)
