from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertsmith import compiler, fusion, native
from bertsmith.compiler import without_native
from bertsmith.fusion import fused, unfused
from bertsmith.model.config import sized
from bertsmith.model.elementwise import drop
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.optimizer import Optimizer
from tests.builds import NEEDS_COMPILER
from tests.model.plain import random_pretrain_batch


@pytest.fixture(autouse=True)
def _without_native() -> Iterator[None]:
    """What is compiled here is C++ on this processor elsewhere."""
    with without_native():
        yield


# Kernels sum in another order and may fuse a multiplication with an addition. A mask drawn wrongly
# in one kernel only changes a gradient by about its own size.
TOLERANCES = {"float64": 1e-10, "float32": 1e-4, "bfloat16": 0.05}


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_compiled_kernels_equal_the_plain_functions_with_dropout_in_values_and_gradients(dtype):
    config = replace(sized(2, 48, 4), vocab_size=60, max_position_embeddings=64)
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=0.2, seed=3)
    model.to(getattr(torch, dtype))
    for lengths in ([5, 30, 17, 17, 40], [20, 20], [64, 3, 9]):
        batch = random_pretrain_batch(lengths, 60)
        loss, gradients = loss_and_gradients(model, batch, plain=False)
        plain_loss, plain_gradients = loss_and_gradients(model, batch, plain=True)
        assert abs(loss - plain_loss) <= TOLERANCES[dtype] * abs(plain_loss)
        for name, gradient in plain_gradients.items():
            error = (gradients[name] - gradient).norm()
            assert error <= TOLERANCES[dtype] * gradient.norm(), name


def loss_and_gradients(model, batch, plain):
    model.zero_grad()
    with unfused(plain):
        losses = model(batch, (1, 7))
        losses.loss.backward()
    gradients = {name: p.grad.double() for name, p in model.named_parameters()}
    return losses.loss.item(), gradients


@pytest.mark.compiled
def test_one_kernel_serves_every_shape_whichever_came_first():
    compiled = fused(_scaled)
    frames = torch._dynamo.utils.counters["frames"]
    compiled(torch.ones(7, 7), torch.ones(7))  # sizes that are equal by chance
    before = frames["total"]
    for rows in range(4, 40, 5):
        expected = torch.full((rows, rows + 1), 2.0)
        assert torch.equal(compiled(torch.ones(rows, rows + 1), torch.ones(rows)), expected)
    assert frames["total"] == before


@pytest.mark.compiled
def test_a_second_dropout_rate_is_not_the_first():
    words = torch.arange(300, dtype=torch.int32)
    rows = torch.ones(300, 40)
    for probability in (0.3, 0.1, 0.5):
        found = drop(rows, words, probability)
        with unfused():
            assert torch.equal(found, drop(rows, words, probability))
        assert abs((found == 0).float().mean() - probability) < 0.02


@pytest.mark.compiled
@pytest.mark.slow
def test_a_run_resumed_at_the_border_of_phases_computes_the_same_bits(tmp_path, monkeypatch):
    # Sizes that are equal by chance (two sequences and two heads; length and width) first and last:
    # the kernels of the run that was never stopped and of the resumed one begin differently.
    phases = [[16, 16], [16, 16], [30, 5, 9], [12, 12, 12], [7, 31], [16, 16]]
    border = 2
    model, optimizer = small_training()
    advance(model, optimizer, phases, 0, border)
    saved = {name: tensor.clone() for name, tensor in optimizer.state().items()}
    losses = advance(model, optimizer, phases, border, len(phases))
    whole = optimizer.state()

    torch.compiler.reset()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    model, resumed = small_training()
    resumed.load_state(saved)
    assert advance(model, resumed, phases, border, len(phases)) == losses
    for name, tensor in resumed.state().items():
        assert torch.equal(tensor, whole[name]), name


def test_what_cannot_be_compiled_runs_plainly(monkeypatch):
    monkeypatch.setattr(fusion, "is_fusing", lambda _: False)
    monkeypatch.setattr(fusion, "_compiled", lambda _: pytest.fail("compiled all the same"))
    assert torch.equal(fused(_scaled)(torch.ones(2, 3), torch.ones(2)), torch.full((2, 3), 2.0))


def test_unfused_holds_inside_the_block_only(monkeypatch):
    monkeypatch.setattr(fusion, "is_available", lambda _: True)
    assert not fusion.is_fusing("cpu")  # the fixture's own unfused() is around this test
    with unfused(False):
        assert not fusion.is_fusing("cpu")
    fusion._PLAIN.set(False)
    with unfused():
        assert not fusion.is_fusing("cpu")
    assert fusion.is_fusing("cpu")
    fusion._PLAIN.set(True)


def test_beside_functions_in_cpp_nothing_is_compiled_for_a_cpu(monkeypatch):
    monkeypatch.setattr(fusion, "is_available", lambda _: True)
    monkeypatch.setattr(fusion, "_PLAIN", ContextVar("plain", default=False))
    for is_there in (True, False):
        monkeypatch.setattr(native, "is_there", lambda it=is_there: it)
        assert fusion.is_fusing("cpu") is not is_there
        assert fusion.is_eager_on_cpu(torch.ones(1)) is is_there
        assert fusion.is_fusing("cuda")


@NEEDS_COMPILER
def test_functions_in_cpp_are_there_unless_they_are_switched_off(monkeypatch):
    compiler._LEFT_OUT.set(False)  # the fixture's own is around this test
    assert native.is_there()
    with without_native():
        assert not native.is_there()
    monkeypatch.setattr(compiler, "is_there", lambda: False)
    for is_carried in (True, False):
        monkeypatch.setattr(native, "carries", lambda _, it=is_carried: it)
        assert native.is_there() is is_carried
    monkeypatch.setenv("BERTSMITH_FUSION", "0")
    assert not native.is_there()


@pytest.fixture
def _asked_anew() -> Iterator[None]:
    fusion.is_available.cache_clear()
    yield
    fusion.is_available.cache_clear()


@pytest.mark.usefixtures("_asked_anew")
@pytest.mark.parametrize(("variable", "device"), [("0", "cpu"), ("1", "mps"), ("1", "meta")])
def test_nothing_is_built_when_switched_off_or_on_another_device(
    monkeypatch, caplog, variable, device
):
    monkeypatch.setenv("BERTSMITH_FUSION", variable)
    monkeypatch.setattr(fusion, "_compiled", lambda _: pytest.fail("compiled all the same"))
    assert not fusion.is_available(device)
    assert caplog.records == []


@pytest.mark.usefixtures("_asked_anew")
def test_a_kernel_that_cannot_be_built_is_said_once_with_what_is_missing(monkeypatch, caplog):
    def broken(_):
        raise RuntimeError("backend='inductor' raised:\nx.cpp:1: fatal error: Python.h: not found")

    monkeypatch.setenv("BERTSMITH_FUSION", "1")
    monkeypatch.setattr(fusion, "_compiled", broken)
    assert not fusion.is_available("cpu")
    assert not fusion.is_available("cpu")
    (record,) = caplog.records
    assert record.getMessage() == (
        "warning: no fused kernels, so this is correct but slower: they need a C++ compiler that "
        "torch can use and Python's headers (x.cpp:1: fatal error: Python.h: not found)"
    )


# What a processor computes whose vectors are half as wide, after one that filled the same cache.
FUSED_AND_PLAIN = """
import torch
from bertsmith.compiler import without_native
from bertsmith.fusion import fused

def normed(rows, weight):
    rows = torch.nn.functional.gelu(rows * weight + 1)
    return rows / rows.square().mean(-1, keepdim=True).sqrt()

generator = torch.Generator().manual_seed(1)
rows, weight = torch.randn(37, 129, generator=generator), torch.randn(129, generator=generator)
with without_native():
    torch.testing.assert_close(fused(normed)(rows, weight), normed(rows, weight))
print(torch._inductor.config.cpp.simdlen, torch.backends.cpu.get_cpu_capability())
"""


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX512", reason="has one width of vectors only"
)
def test_kernels_kept_on_disk_by_a_processor_with_wider_vectors_are_not_taken(tmp_path):
    for capability, found in (("avx512", "512 AVX512"), ("avx2", "256 AVX2")):
        done = in_a_process(
            FUSED_AND_PLAIN,
            ATEN_CPU_CAPABILITY=capability,
            TORCHINDUCTOR_CACHE_DIR=str(tmp_path),
        )
        assert (done.returncode, done.stdout.strip()) == (0, found), done.stderr


def small_training() -> tuple[PretrainModel, Optimizer]:
    config = replace(sized(1, 16, 2), vocab_size=60, max_position_embeddings=64)
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=0.2, seed=3)
    return model, Optimizer(model.named_parameters(), OptimizerConfig())


def advance(
    model: PretrainModel, optimizer: Optimizer, steps: list[list[int]], start: int, stop: int
) -> list[str]:
    """Takes steps [start, stop), each of sequences of these lengths; the losses in full digits."""
    losses = []
    for step in range(start, stop):
        found = model(random_pretrain_batch(steps[step], 60, step), (1, step))
        found.loss.backward()
        optimizer.step(1e-2)
        optimizer.zero_grad()
        losses.append(found.loss.item().hex())
    return losses


# Two steps in a process of its own: other dropout masks would change the losses.
TWO_STEPS = """
import torch
from tests.test_fusion import advance, small_training

torch.set_num_threads(1)
print(*advance(*small_training(), [[9, 4, 4]] * 2, 0, 2))
"""


@pytest.fixture(scope="module")
def plain():
    """Two steps where nothing is built."""
    return in_a_process(TWO_STEPS, BERTSMITH_FUSION="0")


@pytest.mark.parametrize("absent", ["no compiler", "broken compiler"])
def test_training_without_a_compiler_is_the_plain_training_with_a_line_of_warning_each(
    absent, plain, tmp_path
):
    program = tmp_path / "c++"
    if absent == "broken compiler":
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
    found = in_a_process(
        TWO_STEPS, CXX=str(program), PATH="", TORCHINDUCTOR_CACHE_DIR=str(tmp_path)
    )
    assert (found.returncode, plain.returncode) == (0, 0), found.stderr + plain.stderr
    assert len(plain.stdout.split()) == 2
    assert found.stdout == plain.stdout
    assert plain.stderr == ""
    for what, line in zip(
        ("fused kernels", "functions in C++"), sorted(found.stderr.splitlines())[::-1], strict=True
    ):
        assert line.startswith(f"warning: no {what}, so this is correct but slower")
        assert str(program) in line


def in_a_process(code: str, **changes: str) -> subprocess.CompletedProcess[str]:
    alone = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    environment = {**os.environ, "BERTSMITH_FUSION": "1", **alone, **changes}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _scaled(rows: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    return rows * factors[:, None] * 2.0
