"""When a compiler is waited for; how batches are made is seen in what a predictor answers."""

import contextlib

import torch

from bertsmith import packing
from bertsmith.fusion import unfused
from tests.tasks.predictors import predictor_of


def test_only_long_work_on_a_gpu_waits_for_a_compiler(monkeypatch):
    monkeypatch.setattr(packing, "is_available", lambda _: True)
    monkeypatch.setattr(packing, "_VALUES_BEFORE_FUSING", 14 * 8)

    def of(device):
        return packing.Packing(
            device=torch.device(device),
            dtype=torch.bfloat16,
            values_per_token=8,
            tokens_per_batch=None,
        )

    on_gpu = of("cuda")
    assert [on_gpu._fuses(9), on_gpu._fuses(3), on_gpu._fuses(2)] == [False, False, True]
    assert of("cuda")._fuses(14)  # what is known to come counts at once
    assert not of("cpu")._fuses(14)


def test_nothing_is_compiled_for_answers_on_a_cpu(monkeypatch):
    asked = []

    @contextlib.contextmanager
    def recorded(condition):
        asked.append(condition)
        with unfused():
            yield

    monkeypatch.setattr(packing, "unfused", recorded)
    monkeypatch.setattr(packing, "_VALUES_BEFORE_FUSING", 1)
    predictor_of().fill_mask(["my [MASK] likes the cat"])
    assert asked == [True]
