"""The encoder on a GPU against the plain definition and against the CPU.

Needs torch, numpy and pytest only, so that it runs on a machine without the package's other
requirements, as the other `test_gpu*.py` here and those of training and of benchmarks do:
`python -m pytest -m gpu tests/model/test_gpu*.py tests/train/test_gpu.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from bertsmith import fusion
from bertsmith.model import block_attention, flash_attention, vocabulary_loss
from bertsmith.model.attention import attend
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.bert import Bert
from bertsmith.model.config import BertConfig, sized
from bertsmith.model.dropout import dropped, keep_factors, mix32, site_words
from bertsmith.model.embeddings import Table
from bertsmith.model.init import initialise
from bertsmith.model.stream import Stream
from tests.conftest import BOTH_KERNELS
from tests.model.plain import plain_hidden, random_packed

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]

CONFIG = replace(sized(2, 128, 4), vocab_size=1000, max_position_embeddings=128)
LENGTHS = [5, 128, 1, 61, 61, 100, 2, 97]
DIRECTIONS = pytest.mark.parametrize(
    "direction", ["bidirectional", "left_to_right", "right_to_left"]
)


@pytest.fixture(autouse=True)
def _exact_float32() -> Iterator[None]:
    """TF32 rounds the inputs of a matrix multiplication to ten bits, which 1e-4 would notice."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def bert_of(config: BertConfig) -> Bert:
    bert = Bert(config)
    initialise(bert, std=0.05, seed=3)
    return bert


def plain_stream(bert: Bert) -> torch.Tensor:
    """(T, H) hidden states of the test's stream by the plain definition, on the CPU."""
    packed = random_packed(LENGTHS, CONFIG.vocab_size)
    token_ids = torch.from_numpy(packed.token_ids).long().split(LENGTHS)
    segment_ids = torch.from_numpy(packed.segment_ids).long().split(LENGTHS)
    return torch.cat(
        [plain_hidden(bert, t, s) for t, s in zip(token_ids, segment_ids, strict=True)]
    )


def test_a_stream_on_a_gpu_holds_what_the_cpus_holds() -> None:
    packed = random_packed(LENGTHS, CONFIG.vocab_size)
    here, there = (Stream.of(packed, device=d, dropout=(11, 5)) for d in ("cpu", "cuda"))
    for name in ("token_ids", "segment_ids", "positions", "first_rows", "last_rows", "cell_rows"):
        assert torch.equal(getattr(here, name), getattr(there, name).cpu()), name
    for block, other in zip(here.blocks, there.blocks, strict=True):
        assert torch.equal(block.rows, other.rows.cpu())
        assert torch.equal(block.lengths, other.lengths.cpu())
        assert block.width == other.width


@pytest.mark.usefixtures("kernels")
@BOTH_KERNELS
@DIRECTIONS
def test_packed_encoder_on_a_gpu_equals_the_plain_definition(direction: str) -> None:
    bert = bert_of(replace(CONFIG, direction=direction))
    packed = random_packed(LENGTHS, CONFIG.vocab_size)
    weights = torch.randn(
        packed.num_tokens, CONFIG.hidden_size, generator=torch.Generator().manual_seed(1)
    )
    expected = plain_stream(bert)
    (expected * weights).sum().backward()
    gradients = {name: p.grad for name, p in bert.named_parameters() if p.grad is not None}
    bert.zero_grad(set_to_none=True)

    bert.to("cuda")
    hidden = bert(Stream.of(packed, device="cuda"))
    (hidden * weights.to("cuda")).sum().backward()

    # float32 sums of up to 512 terms in another order, through two layers.
    torch.testing.assert_close(hidden.cpu(), expected, rtol=1e-4, atol=1e-4)
    assert len(gradients) > 20
    for name, parameter in bert.named_parameters():
        if name in gradients:
            assert parameter.grad is not None, name
            difference = (parameter.grad.cpu() - gradients[name]).norm()
            # A key's bias shifts all scores of a query alike: its gradient is rounding alone.
            assert difference <= 1e-4 * gradients[name].norm() + 1e-4, name


@pytest.mark.usefixtures("kernels")
@BOTH_KERNELS
@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left", "two_way"])
def test_an_lstm_on_a_gpu_equals_that_on_the_cpu(direction: str) -> None:
    bert = Bert(replace(CONFIG, direction=direction, layer_kind="lstm"), with_pooler=False)
    initialise(bert, std=0.05, seed=3)
    packed = random_packed(LENGTHS, CONFIG.vocab_size)
    found = []
    for device in ("cpu", "cuda"):
        bert.to(device).zero_grad(set_to_none=True)
        hidden = bert(Stream.of(packed, device=device, dropout=(11, 5)))
        hidden.square().sum().backward()
        # Copied: the way to the GPU takes gradients along.
        found.append(
            [each.cpu().clone() for each in (hidden, *(p.grad for p in bert.parameters()))]
        )
    for expected, other in zip(*found, strict=True):
        # float32 sums in another order, carried on through up to 128 places of two layers.
        assert (other - expected).norm() <= 1e-3 * expected.norm()


@pytest.mark.usefixtures("kernels")
@BOTH_KERNELS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_on_a_gpu_stays_within_its_rounding(dtype: torch.dtype) -> None:
    if dtype == torch.bfloat16 and not torch.cuda.is_bf16_supported(including_emulation=False):
        pytest.skip("this GPU has no bfloat16")
    bert = bert_of(CONFIG)
    packed = random_packed(LENGTHS, CONFIG.vocab_size)
    bert.to(dtype)
    # The same rounded weights in float32: what is left is the rounding of the activations.
    expected = plain_stream(bert_of(CONFIG).to(dtype).float())
    bert.to("cuda")
    for module in bert.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.float()
    with torch.no_grad():
        hidden = bert(Stream.of(packed, device="cuda"))
    assert hidden.dtype == dtype
    # An output is a LayerNorm of deviation one; some ten roundings lie on the way to it, each of at
    # most half a last place.
    last_place = torch.finfo(dtype).eps
    difference = hidden.float().cpu() - expected
    assert difference.square().mean().sqrt() < 2 * last_place
    assert difference.abs().max() < 16 * last_place


@pytest.mark.usefixtures("kernels")
@BOTH_KERNELS
def test_dropout_masks_on_a_gpu_equal_the_cpus_to_the_bit() -> None:
    packed = random_packed(LENGTHS, CONFIG.vocab_size)
    ones = torch.ones(packed.num_tokens, 96)
    streams = [Stream.of(packed, device=d, dropout=(11, 5)) for d in ("cpu", "cuda")]
    assert streams[0].row_keys is not None
    assert streams[1].row_keys is not None
    assert torch.equal(streams[0].row_keys, streams[1].row_keys.cpu())
    for layer, site, probability in ((0, -1, 0.1), (0, 1, 0.1), (7, 2, 0.5)):
        masks = [
            dropped(ones.to(s.row_keys.device), site_words(s.row_keys, layer, site), probability)
            for s in streams
            if s.row_keys is not None
        ]
        assert torch.equal(masks[0], masks[1].cpu())
        assert 0.0 < (masks[0] == 0).float().mean() < 1.0
    # With equal scores and values of one, a context is the sum of the probabilities that were kept.
    rules = AttentionRules(num_heads=4, direction="bidirectional", probability=0.1)
    qkv = torch.zeros(packed.num_tokens, 3 * 16)
    qkv[:, 32:] = 1.0
    contexts = [
        attend(qkv.to(s.token_ids.device), site_words(s.row_keys, 0, 0), s, rules).cpu()
        for s in streams
    ]
    # Equal masks give sums that differ in their last digits; one other mask bit differs by 1/128.
    torch.testing.assert_close(contexts[0], contexts[1], rtol=0.0, atol=1e-4)


def test_the_hash_on_a_gpu_equals_the_cpus_to_the_bit() -> None:
    words = torch.arange(-(2**31), 2**31 - 1, 4_001, dtype=torch.int64).int()
    assert torch.equal(mix32(words), mix32(words.to("cuda")).cpu())
    if fusion.is_available("cuda"):
        compiled = torch.compile(mix32, dynamic=True)
        assert torch.equal(mix32(words), compiled(words.to("cuda")).cpu())
    columns = torch.arange(64, dtype=torch.int32)
    factors = [
        keep_factors(words[:10_000, None].to(d), columns.to(d), 0.1, torch.float32).cpu()
        for d in ("cpu", "cuda")
    ]
    assert torch.equal(factors[0], factors[1])


@pytest.mark.usefixtures("kernels")
@BOTH_KERNELS
def test_dropout_on_a_gpu_gives_the_cpus_hidden_states() -> None:
    bert = bert_of(CONFIG)
    packed = random_packed(LENGTHS, CONFIG.vocab_size)
    with fusion.unfused(), torch.no_grad():
        expected = bert(Stream.of(packed, dropout=(3, 9)))
        without = bert(Stream.of(packed))
    bert.to("cuda")
    with torch.no_grad():
        hidden = bert(Stream.of(packed, device="cuda", dropout=(3, 9)))
    torch.testing.assert_close(hidden.cpu(), expected, rtol=1e-4, atol=1e-4)
    assert (expected - without).abs().max() > 0.1


@pytest.mark.compiled
@DIRECTIONS
@pytest.mark.parametrize(
    ("dtype", "num_heads", "probability"),
    [
        (torch.float32, 12, 0.1),
        (torch.bfloat16, 12, 0.1),
        (torch.bfloat16, 12, 0.0),
        (torch.float16, 12, 0.1),
        (torch.bfloat16, 6, 0.1),  # heads of 128
    ],
)
def test_attention_without_scores_in_memory_equals_the_blocks(
    direction: str, dtype: torch.dtype, num_heads: int, probability: float
) -> None:
    _assert_attention_equals_the_blocks(
        [*LENGTHS, 300, 64, 65], direction, dtype, num_heads, probability
    )


@pytest.mark.compiled
@DIRECTIONS
@pytest.mark.parametrize("lengths", [[128, 1, 65, 128, 100], [64, 5, 33, 64]])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_of_short_sequences_equals_the_blocks(
    direction: str, dtype: torch.dtype, lengths: list[int]
) -> None:
    _assert_attention_equals_the_blocks(lengths, direction, dtype, 12, 0.1)


def _assert_attention_equals_the_blocks(
    lengths: list[int], direction: str, dtype: torch.dtype, num_heads: int, probability: float
) -> None:
    rules = AttentionRules(num_heads=num_heads, direction=direction, probability=probability)
    stream = Stream.of(random_packed(lengths, 60), device="cuda", dropout=(11, 5), is_rounded=True)
    num_rows = len(stream.token_ids)
    words = site_words(stream.row_keys, 1, 0) if probability else None
    generator = torch.Generator().manual_seed(3)
    qkv = torch.randn(num_rows, 3 * 768, generator=generator).to("cuda", dtype)
    weights = torch.randn(num_rows, 768, generator=generator).to("cuda", dtype)
    assert flash_attention.suits(qkv, rules)
    found = []
    ways = ((block_attention, torch.float64), (flash_attention, dtype), (flash_attention, dtype))
    for attend_by, computed in ways:
        inputs = qkv.to(computed, copy=True).requires_grad_()  # with a gradient of its own
        context = attend_by.attend(inputs, words, stream, rules)
        (context * weights).sum().backward()
        assert inputs.grad is not None
        found.append([context.detach(), *inputs.grad.split(768, dim=1)])
    within = 1e-5 if dtype == torch.float32 else 2 * torch.finfo(dtype).eps
    for expected, other, again in zip(*found, strict=True):  # of contexts, queries, keys, values
        assert (other.double() - expected).norm() <= within * expected.norm()
        assert torch.equal(other, again)


@BOTH_KERNELS
@pytest.mark.parametrize("num_rows", [1, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_loss_over_a_vocabulary_on_a_gpu_is_that_on_the_cpu(
    dtype: torch.dtype, num_rows: int, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary_loss, "GPU_CHUNK_LOGITS", 128 * 1003)
    generator = torch.Generator().manual_seed(3)
    rows, embedding = (
        torch.randn(size, 64, generator=generator).to(dtype) for size in (num_rows, 1003)
    )
    bias = torch.randn(1003, generator=generator).to(dtype)
    targets = torch.randint(1003, (num_rows,), generator=generator)
    targets[::2] = (rows.double() @ embedding.double().T + bias.double()).argmax(dim=1)[::2]
    found = []
    for device in ("cpu", "cuda"):
        learned = [
            each.to(device, torch.float64 if device == "cpu" else dtype, copy=True)
            for each in (rows, embedding, bias)
        ]
        for each in learned:
            each.requires_grad_()
        total, correct = vocabulary_loss.language_model_loss(*learned, targets.to(device))
        with torch.no_grad():
            again, _ = vocabulary_loss.language_model_loss(*learned, targets.to(device))
        torch.testing.assert_close(total, again, rtol=1e-5, atol=0.0)
        total.backward()
        found.append([total.detach(), correct.float(), *(each.grad for each in learned)])
    within = 1e-5 if dtype == torch.float32 else 4 * torch.finfo(dtype).eps
    # Operators round a probability that is nearly 1 before they take 1 away; kernels do not. That
    # loses a unit of 1 of the loss and of a slope, times what the slope is multiplied by.
    unit = 0.0 if kernels == "compiled" else torch.finfo(torch.float32).eps
    reach = [1.0, 0.0, embedding.double().norm(dim=1).max(), rows.double().norm(), 1.0]
    for expected, other, factor in zip(*found, reach, strict=True):
        away = (other.cpu().double() - expected).norm()
        assert away <= within * expected.norm() + unit * factor


@pytest.mark.parametrize("num_rows", [3000, 5000])
@pytest.mark.parametrize("num_ids", [3, 700])
def test_a_frequent_rows_gradient_is_summed_in_float32_and_always_alike(
    num_rows: int, num_ids: int
) -> None:
    table = Table(num_ids, 64).to("cuda", torch.bfloat16)
    torch.nn.init.zeros_(table.weight)
    ids = torch.randint(num_ids, (num_rows,), generator=torch.Generator().manual_seed(1))
    ids[:2000] = 1
    counts = torch.bincount(ids, minlength=num_ids).to("cuda")
    value = 1 + 2**-7  # sums are exact in float32, and rounded once
    for _ in range(3):
        table.weight.grad = None
        (table(ids.to("cuda")) * value).sum().backward()
        assert table.weight.grad is not None
        expected = (counts * value).to(torch.bfloat16)[:, None].expand(-1, 64)
        assert torch.equal(table.weight.grad, expected)
