"""A layer of a GPU in one function: interpreted and compiled without one, and beside its operators.

Needs torch, numpy, triton and pytest only, as tests of a GPU do.
"""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest
import torch

from benchmarks.gpu_instructions import TYPES, built
from bertsmith import gpu_kernels
from bertsmith.model import (
    attention,
    embeddings,
    flash_attention,
    gpu_embeddings,
    gpu_layer,
    gpu_norm,
    gpu_products,
)
from bertsmith.model.config import BertConfig, sized
from bertsmith.model.init import initialise
from bertsmith.model.layer import Layer
from bertsmith.model.stream import Stream
from tests.model.interpreted_layer import (
    CASES,
    OfGelu,
    OfLayer,
    OfLayers,
    cast,
    embedded,
    outcome_of,
)
from tests.model.plain import random_packed
from tests.model.triton_kernels import IS_HOPPER, SHARED_BYTES, interpreted

pytest.importorskip("triton")

LENGTHS = [5, 128, 1, 61, 61, 100, 2, 97]


@pytest.fixture(scope="module")
def errors() -> list[list[float]]:
    """Of states and gradients, case by case."""
    return interpreted("tests.model.interpreted_layer")


@pytest.mark.parametrize("number", range(len(CASES)), ids=[str(case) for case in CASES])
def test_states_gradients_and_dropout_are_those_of_operators(
    errors: list[list[float]], number: int
) -> None:
    assert len(errors) == len(CASES)
    case = CASES[number]
    counts = {OfLayer: 15, OfLayers: 20, OfGelu: 3}
    assert len(errors[number]) == counts.get(type(case), 6)
    # Of float32, whose own slope of GELU by torch is up to 3e-7 away; none is NaN.
    within = 5e-7 if isinstance(case, OfGelu) else 2e-5
    assert all(error < within for error in errors[number])


KERNELS = {
    "dropout_kernels.site_words": (gpu_layer.WORDS_TILE, gpu_layer.OPTIONS),
    "gelu_kernels.gelu": (gpu_layer.GELU_TILE, gpu_layer.OPTIONS),
    "gelu_kernels.gelu_backward": (gpu_layer.GELU_BACKWARD_TILE, gpu_layer.OPTIONS),
    "norm_kernels.add_and_norm": (gpu_norm.TILE, gpu_norm.OPTIONS),
    "norm_kernels.add_and_norm_backward": (gpu_norm.BACKWARD_TILE, None),
    "norm_kernels.embed_and_norm": (gpu_norm.TILE, gpu_norm.OPTIONS),
    "norm_kernels.embed_and_norm_backward": (gpu_norm.BACKWARD_TILE, None),
}
"""Their tiles and options; None: by the width."""


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("width", [768, 1024, 2048])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile_for_gpus_that_are_not_here(capability: int, width: int, name: str) -> None:
    tile, options = KERNELS[name]
    file, _, function = name.partition(".")
    kernel = getattr(importlib.import_module(f"bertsmith.model.{file}"), function)
    constants = {**gpu_norm.constants(width, 0.1), **tile}
    types = {**TYPES, "inner": "*bf16"}
    options = options or gpu_norm.backward_options(width)
    compiled = built(kernel, capability, types, constants, options)
    assert compiled.metadata.shared <= SHARED_BYTES
    assert compiled.asm["cubin"]


def test_on_a_cpu_the_operators_remain() -> None:
    assert not gpu_layer.may_suit(torch.zeros(3, 96))


@pytest.fixture
def _is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_layer, "may_suit", lambda hidden: True)
    monkeypatch.setattr(gpu_kernels, "run_on", lambda device: True)
    monkeypatch.setattr(flash_attention, "takes_width", lambda *given: True)


def are_taken(layer: Layer, hidden: torch.Tensor) -> bool:
    """Whether the layer's weights are, in one function."""
    whole = layer.learning()
    return whole is not None and gpu_layer.suits(hidden, whole.weights, whole.rules)


@pytest.mark.usefixtures("_is_a_gpu")
def test_what_the_kernels_do_not_do_goes_operator_by_operator() -> None:
    hidden = torch.zeros(3, 128)
    assert are_taken(Layer(sized(1, 128, 2), 0), hidden)
    assert not are_taken(Layer(sized(1, 2112, 33), 0), torch.zeros(3, 2112))
    assert not are_taken(Layer(replace(sized(1, 128, 2), hidden_act="relu"), 0), hidden)
    assert not are_taken(Layer(sized(1, 128, 2), 0), hidden.bfloat16())
    assert not are_taken(Layer(sized(1, 128, 2), 0), hidden[:0])
    frozen = Layer(sized(1, 128, 2), 0)
    frozen.attention.qkv.weight.requires_grad_(False)
    assert not are_taken(frozen, hidden)
    with torch.no_grad():
        assert are_taken(frozen, hidden)
    hooked = Layer(sized(1, 128, 2), 0)
    hooked.feed_forward.up.register_forward_hook(lambda *given: None)
    assert not are_taken(hooked, hidden)
    replaced = Layer(sized(1, 128, 2), 0)
    replaced.attention = torch.nn.Identity()
    assert replaced.learning() is None


@pytest.mark.gpu
@pytest.mark.compiled
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("is_asked", [False, True])
@pytest.mark.parametrize(
    ("dtype", "probability"),
    [(torch.float32, 0.1), (torch.bfloat16, 0.1), (torch.bfloat16, 0.0), (torch.float16, 0.1)],
)
def test_a_layer_in_one_function_equals_its_operators(
    dtype: torch.dtype, probability: float, is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {"hidden_dropout_prob": probability, "attention_probs_dropout_prob": probability}
    config = replace(sized(1, 192, 3), **rates)
    assert_equals_operators(config, LENGTHS * 8, dtype, is_asked, monkeypatch)


@pytest.mark.gpu
@pytest.mark.compiled
@pytest.mark.skipif(not IS_HOPPER, reason="no Hopper GPU here")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_so_does_one_with_gelu_in_its_products(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_layer, "_gelu", None)
    monkeypatch.setattr(gpu_layer, "_gelu_backward", None)
    called = []
    for name in ("up_and_gelu", "down_backward"):
        product = getattr(gpu_products, name)
        counted = lambda *given, of=product: called.append(of) or of(*given)  # noqa: E731
        monkeypatch.setattr(gpu_products, name, counted)
    assert_equals_operators(sized(1, 768, 12), [125] * 36, dtype, False, monkeypatch)
    assert len(called) == 2 * 3  # there once more for the way back


def assert_equals_operators(
    config: BertConfig,
    lengths: list[int],
    dtype: torch.dtype,
    is_asked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a layer on a GPU, in this type, beside operators in float64; and twice the same bits."""
    width = config.hidden_size
    layer = Layer(config, 1)
    initialise(layer, std=0.05, seed=3)
    for parameter in layer.parameters():
        parameter.data.add_(0.02)  # biases too
    layer.to("cuda")
    stream = Stream.of(random_packed(lengths, 60), device="cuda", dropout=(11, 5), is_rounded=True)
    rows = torch.arange(0, stream.num_tokens, 7, device="cuda") if is_asked else None
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(len(stream.token_ids), width, generator=generator).to("cuda", dtype)
    weights = torch.randn(len(stream.token_ids), width, generator=generator).to("cuda", dtype)
    weights = weights if rows is None else weights[rows]
    weights[stream.num_tokens :] = 0.0
    with monkeypatch.context() as of_operators:
        of_operators.setattr(gpu_layer, "suits", lambda *given: False)
        found = [outcome_of(layer.double(), hidden.double(), stream, rows, weights)]
    cast(layer, dtype)
    monkeypatch.setattr(attention, "attend", None)  # which operators call
    found += [outcome_of(layer, hidden, stream, rows, weights) for _ in range(2)]
    # Of a matrix's sums over rows, and of what ten roundings on the way leave.
    within = 1e-4 if dtype == torch.float32 else 4 * torch.finfo(dtype).eps
    for expected, other, again in zip(*found, strict=True):
        assert (other.double() - expected).norm() <= within * expected.norm()
        assert torch.equal(other, again)


@pytest.mark.gpu
@pytest.mark.compiled
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize(
    ("dtype", "probability"),
    [(torch.float32, 0.1), (torch.bfloat16, 0.1), (torch.bfloat16, 0.0), (torch.float16, 0.1)],
)
def test_embeddings_in_one_kernel_equal_their_operators(
    dtype: torch.dtype, probability: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(sized(1, 192, 3), vocab_size=500, hidden_dropout_prob=probability)
    parts = embeddings.Embeddings(config)
    initialise(parts, std=0.2, seed=3)
    parts.to("cuda")
    stream = Stream.of(
        random_packed(LENGTHS * 8, 500), device="cuda", dropout=(11, 5), is_rounded=True
    )
    generator = torch.Generator().manual_seed(3)
    weights = torch.randn(len(stream.token_ids), 192, generator=generator).to("cuda")
    weights[stream.num_tokens :] = 0.0
    with monkeypatch.context() as of_operators:
        of_operators.setattr(gpu_embeddings, "suits", lambda *given: False)
        found = [embedded(parts.double(), stream, weights)]
    cast(parts, dtype)
    monkeypatch.setattr(embeddings, "norm_and_drop", None)  # which operators call
    found += [embedded(parts, stream, weights) for _ in range(2)]
    within = 1e-5 if dtype == torch.float32 else 2 * torch.finfo(dtype).eps
    for expected, other, again in zip(*found, strict=True):
        assert (other.double() - expected).norm() <= within * expected.norm()
        assert torch.equal(other, again)
    beyond = replace(stream, token_ids=torch.full_like(stream.token_ids, 500))
    assert bool(parts(beyond).isnan().any(dim=1).all())
