import pytest
import torch

from benchmarks import gpu_kernels, gpu_step_kernels
from benchmarks.gpu_kernels import lines
from benchmarks.gpu_step_kernels import kernels
from bertsmith.model import gpu_products


@pytest.fixture
def _small(monkeypatch):
    monkeypatch.setattr(gpu_step_kernels, "TOKENS", 1024)
    monkeypatch.setattr(gpu_step_kernels, "MASKED", 100)
    monkeypatch.setattr(gpu_step_kernels, "WEIGHTS", 10_000)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("length", [128, 256])
def test_constants_are_there_and_reach_what_is_launched(monkeypatch, length):
    launched = []
    monkeypatch.setattr("bertsmith.gpu_kernels.launch", lambda *given: launched.append(given[3:]))
    monkeypatch.setattr(gpu_products, "serves", lambda device: True)
    monkeypatch.setattr(gpu_products, "_num_processors", lambda device: 132)
    found = list(kernels(length, torch.device("cpu")))
    assert len(found) == 14
    for kernel in found:
        launches = []
        for constants in kernel.others.values():
            launched.clear()
            with constants.in_place():
                kernel.run()
            launches.append(str(launched))
        if "PROGRAMS" not in str([*kernel.others]):  # of which few rows need fewer
            assert len(launches) == len({*launches}) > 1


@pytest.mark.gpu
@pytest.mark.compiled
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.usefixtures("_small")
def test_every_kernel_runs():
    for kernel in kernels(128, torch.device("cuda")):
        [told] = lines(kernel, 1e12, gpu_kernels.seconds, has_others=False)
        assert " us " in told
