"""The loss over a vocabulary on a GPU: interpreted and compiled without one, and there.

Needs torch, numpy, triton and pytest only, as tests of a GPU do.
"""

from __future__ import annotations

import importlib
import re

import pytest
import torch

from benchmarks.gpu_instructions import TYPES, built
from bertsmith import gpu_kernels
from bertsmith.model import gpu_vocabulary_loss, vocabulary_loss
from tests.model.interpreted_loss import CASES, ODD, Case, differing, errors
from tests.model.triton_kernels import SHARED_BYTES, interpreted

pytest.importorskip("triton")

ON_A_GPU = [
    *CASES,
    *(case._replace(dtype="bfloat16") for case in CASES),
    *(Case(300, 30528, "bfloat16", bias, num_unused=6) for bias in ("float32", "bfloat16")),
]
ROUNDED = {"float32": 0.0, "float16": 2**-11, "bfloat16": 2**-8}
"""What the gradient of the logits loses when it gets their type."""


def assert_near(found: list[float], case: Case, within: float) -> None:
    *shares, of_logits, at_targets, num_differing, unused = found
    assert len(shares) == 3
    assert max(shares) < within  # none is NaN
    assert of_logits < within + ROUNDED[case.dtype]
    assert at_targets < 4 * within + ROUNDED[case.dtype]  # the farthest of them
    assert (num_differing, unused) == (0.0, 0.0)


@pytest.fixture(scope="module")
def found() -> list[list[float]]:
    """Case by case."""
    return interpreted("tests.model.interpreted_loss")


@pytest.mark.parametrize("number", range(len(CASES)), ids=[str(case) for case in CASES])
def test_loss_guesses_and_gradients_are_those_of_the_definition(
    found: list[list[float]], number: int
) -> None:
    assert len(found) == len(CASES) + len(ODD)
    assert_near(found[number], CASES[number], 5e-7)


@pytest.mark.parametrize("number", range(len(ODD)), ids=ODD)
def test_what_is_no_number_is_none_where_operators_have_none(
    found: list[list[float]], number: int
) -> None:
    assert found[len(CASES) + number] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("num_words", [30528, 30522])
@pytest.mark.parametrize(
    ("dtype", "bias"), [("bf16", "bf16"), ("bf16", "fp32"), ("fp32", "fp32"), ("fp16", "fp32")]
)
@pytest.mark.parametrize("name", ["losses", "gradient"])
def test_kernels_compile_for_gpus_that_are_not_here(
    capability: int, num_words: int, dtype: str, bias: str, name: str
) -> None:
    kernels = importlib.import_module("bertsmith.model.vocabulary_kernels")
    precision = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[dtype]
    constants = {
        **gpu_vocabulary_loss.loss_constants(num_words, precision),
        **gpu_vocabulary_loss.TILE,
    }
    types = {**TYPES, "logits": f"*{dtype}", "bias": f"*{bias}"}
    kernel = getattr(kernels, f"vocabulary_{name}")
    compiled = built(kernel, capability, types, constants, gpu_vocabulary_loss.OPTIONS)
    assert compiled.metadata.shared <= SHARED_BYTES
    assert compiled.asm["cubin"]
    if num_words == 30528:  # as they are multiplied by: a thread reads 16 bytes at once
        assert re.search(r"ld\.global(\.cg)?\.v4", compiled.asm["ptx"])


def given(dtype: torch.dtype = torch.bfloat16, num_rows: int = 3) -> list[torch.Tensor]:
    """Logits, a bias and targets."""
    logits, bias = torch.zeros(num_rows, 64, dtype=dtype), torch.zeros(64)
    return [logits, bias, torch.zeros(num_rows, dtype=torch.int64)]


def test_on_a_cpu_the_other_ways_remain() -> None:
    assert not gpu_vocabulary_loss.suits(*given())


@pytest.mark.gpu
@pytest.mark.compiled
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
class TestOnAGpu:
    @pytest.mark.parametrize("case", ON_A_GPU, ids=str)
    def test_loss_guesses_and_gradients_are_those_of_the_definition(self, case: Case) -> None:
        # Powers of two are approximate there.
        assert_near(errors(case, "cuda"), case, 3e-6)

    @pytest.mark.parametrize("kind", ODD)
    def test_what_is_no_number_is_none_where_operators_have_none(self, kind: str) -> None:
        assert differing(kind, "cuda") == [0.0, 0.0, 0.0]

    def test_what_the_kernels_do_not_do_goes_operator_by_operator(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        logits, bias, targets = (each.cuda() for each in given())
        assert gpu_vocabulary_loss.suits(logits, bias, targets)
        assert gpu_vocabulary_loss.suits(logits.half(), bias.bfloat16(), targets)
        assert not gpu_vocabulary_loss.suits(logits.double(), bias.double(), targets)
        assert not gpu_vocabulary_loss.suits(logits, bias, targets.int())
        assert not gpu_vocabulary_loss.suits(logits[:0], bias, targets[:0])
        assert not gpu_vocabulary_loss.suits(logits[:, :32], bias[:32], targets)
        monkeypatch.setattr(gpu_kernels, "run_on", lambda device: False)
        assert not gpu_vocabulary_loss.suits(logits, bias, targets)

    def test_every_run_gives_the_same_bits_and_they_are_taken(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In chunks, of logits that start anywhere, and of as many words as BERT has."""
        monkeypatch.setattr(vocabulary_loss, "_softmax_loss", None)  # which operators call
        monkeypatch.setattr(vocabulary_loss, "GPU_CHUNK_LOGITS", 2**24)
        generator = torch.Generator().manual_seed(3)
        rows, embedding = (
            torch.randn(size, 64, generator=generator).to("cuda", torch.bfloat16)
            for size in (1200, 30522)
        )
        bias = torch.randn(30522, generator=generator).to("cuda", torch.bfloat16)
        targets = torch.randint(30522, (1200,), generator=generator).cuda()
        ways = []
        for _ in range(2):
            learned = [each.clone().requires_grad_() for each in (rows, embedding, bias)]
            total, correct = vocabulary_loss.language_model_loss(*learned, targets)
            total.backward()
            ways.append([total.detach(), correct, *(each.grad for each in learned)])
        assert all(torch.equal(one, other) for one, other in zip(*ways, strict=True))
        with torch.no_grad():
            alone = vocabulary_loss.language_model_loss(rows, embedding, bias, targets)
        torch.testing.assert_close(alone, (ways[0][0], ways[0][1]), rtol=1e-6, atol=0.0)
