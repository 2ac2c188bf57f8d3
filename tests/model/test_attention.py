from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from bertsmith.compiler import without_native
from bertsmith.fusion import unfused
from bertsmith.model import block_attention, blocks, inference_attention
from bertsmith.model.attention import attend
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.bert import Bert
from bertsmith.model.block_attention import attention_probabilities
from bertsmith.model.block_cells import heads_of
from bertsmith.model.config import BertConfig, sized
from bertsmith.model.dropout import site_words
from bertsmith.model.inference_attention import attend_without_gradient
from bertsmith.model.init import initialise
from bertsmith.model.stream import Rectangle, Stream
from tests.model.plain import plain_bias, plain_hidden, random_packed

CONFIG = replace(sized(2, 32, 4), vocab_size=60, max_position_embeddings=64)
LENGTHS = [5, 30, 1, 17, 17, 40, 2, 31]
DIRECTIONS = ["bidirectional", "left_to_right", "right_to_left"]


@pytest.fixture(autouse=True)
def _without_native():
    """`test_cpu_attention.py` has the functions of a CPU; here are the blocks they must equal."""
    with without_native():
        yield


def small_bert(config: BertConfig) -> Bert:
    bert = Bert(config)
    initialise(bert, std=0.2, seed=3)
    return bert.double()


@pytest.fixture
def many_blocks(monkeypatch):
    """Blocks as where their scores are many: cut when they are not nearly full."""
    monkeypatch.setattr(blocks, "MAX_BLOCK_WASTED_SCORES", -1)


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("is_rounded", [False, True])
@pytest.mark.parametrize("lengths", [LENGTHS, [11] * 13, [1]], ids=["mixed", "equal", "one token"])
def test_packed_encoder_equals_the_plain_definition_in_values_and_gradients(
    direction, is_rounded, lengths
):
    bert = small_bert(replace(CONFIG, direction=direction))
    packed = random_packed(lengths, CONFIG.vocab_size)
    weights = torch.randn(packed.num_tokens, CONFIG.hidden_size, dtype=torch.float64)

    stream = Stream.of(packed, is_rounded=is_rounded)
    assert (len(stream.blocks) > 1) is (lengths == LENGTHS)
    assert stream.has_spare_rows is (is_rounded and len(lengths) > 1)  # 143 tokens, 144 rows
    hidden = bert(stream)
    (hidden * weights).sum().backward()
    gradients = {name: p.grad.clone() for name, p in bert.named_parameters() if p.grad is not None}
    bert.zero_grad()

    token_ids = torch.from_numpy(packed.token_ids).long().split(lengths)
    segment_ids = torch.from_numpy(packed.segment_ids).long().split(lengths)
    plain = torch.cat(
        [plain_hidden(bert, t, s) for t, s in zip(token_ids, segment_ids, strict=True)]
    )
    (plain * weights).sum().backward()

    torch.testing.assert_close(hidden, plain, rtol=1e-11, atol=1e-11)
    assert len(gradients) > 20
    for name, parameter in bert.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(
                gradients[name], parameter.grad, rtol=1e-9, atol=1e-10, msg=name
            )


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [LENGTHS, sorted(LENGTHS, reverse=True), [9] * 4, [1]], ids=str)
def test_without_gradients_the_encoder_gives_the_same_values(direction, lengths):
    bert = small_bert(replace(CONFIG, direction=direction))
    stream = Stream.of(random_packed(lengths, CONFIG.vocab_size))
    expected = bert(stream)
    assert expected.requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(bert(stream), expected.detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("num_sequences", "length", "num_together"),
    # scores of a sequence: 2 heads * length ** 2; at least 2 ** 15 together, at most 2 ** 19
    [(3, 24, 0), (40, 24, 40), (1, 128, 1), (20, 128, 16), (1, 520, 0)],
)
def test_in_bfloat16_products_and_kernel_give_the_same_contexts(
    direction, num_sequences, length, num_together
):
    one = Rectangle(start=4, num_sequences=num_sequences, length=length)
    expected = num_together if direction == "bidirectional" else 0
    assert inference_attention._together(one, 2, torch.bfloat16, direction) == expected
    assert inference_attention._together(one, 2, torch.float32, direction) == 0
    torch.manual_seed(num_sequences)
    qkv = torch.randn(one.end, 3 * 2 * 16)
    stream = SimpleNamespace(
        num_tokens=one.end,
        rectangles=(Rectangle(start=0, num_sequences=1, length=4), one),
        device="cpu",
    )
    with torch.inference_mode():
        plain, rounded = (
            attend_without_gradient(values, stream, 2, direction).double()
            for values in (qkv.double(), qkv.bfloat16())
        )
    # Scores below 8, rounded to 8 bits: probabilities are off by a 64th of themselves at most.
    torch.testing.assert_close(rounded, plain, atol=0.05, rtol=0.02)
    assert (rounded - plain).abs().mean() < 0.004


def test_rectangles_are_neighbours_of_equal_length():
    found = Stream.of(random_packed([5, 3, 3, 3, 1, 3], 60)).rectangles
    assert [(one.start, one.end, one.num_sequences, one.length) for one in found] == [
        (0, 5, 1, 5),
        (5, 14, 3, 3),
        (14, 15, 1, 1),
        (15, 18, 1, 3),
    ]


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_hidden_keys_get_exactly_zero_weight(direction):
    packed = random_packed([7, 4], 60)
    stream = Stream.of(packed)
    rules = AttentionRules(num_heads=2, direction=direction, probability=0.0)
    assert len(stream.blocks) == 2
    for block, length in zip(stream.blocks, [7, 4], strict=True):
        weights = attention_probabilities(torch.randn(11, 48), block, rules)
        expected = plain_bias(length, direction, torch.float32).exp() > 0
        assert torch.equal((weights[0, 0] > 0), expected)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("lengths", "inside"), [([5, 64, 17, 1], torch.float32), ([5, 65, 18, 1], torch.bfloat16)]
)
def test_in_bfloat16_contexts_and_gradients_are_those_of_float64(direction, lengths, inside):
    rules = AttentionRules(num_heads=2, direction=direction, probability=0.1)
    stream = Stream.of(random_packed(lengths, 60), dropout=(1, 2), is_rounded=True)
    rows = len(stream.token_ids)
    assert rows > stream.num_tokens
    torch.manual_seed(4)
    qkv = torch.randn(rows, 3 * 32).bfloat16()
    gradient = torch.randn(rows, 32).bfloat16()
    gradient[stream.num_tokens :] = 0.0
    assert heads_of(qkv, stream.blocks[0], 2).dtype == inside

    found = []
    for dtype in (torch.bfloat16, torch.float64):
        leaf = qkv.to(dtype, copy=True).requires_grad_()
        context = attend(leaf, stream.row_keys, stream, rules)
        context.backward(gradient.to(dtype))
        assert context.dtype == leaf.grad.dtype == dtype
        assert not context[stream.num_tokens :].any()
        assert not leaf.grad[stream.num_tokens :].any()
        found.append((context.detach().double(), leaf.grad.double()))
    for ours, exact in zip(*found, strict=True):
        # bfloat16 rounds to 1/512 at most: once at the end, or four to six times on the way.
        assert (ours - exact).norm() < (0.003 if inside == torch.float32 else 0.01) * exact.norm()


def test_without_gradients_spare_rows_are_zero():
    stream = Stream.of(random_packed([5, 35, 1], 60), is_rounded=True)
    assert (stream.num_tokens, len(stream.token_ids)) == (41, 42)
    qkv = torch.randn(42, 3 * 32)
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True)  # fresh memory is full of NaN
    try:
        with torch.no_grad():
            context = attend_without_gradient(qkv, stream, 2, "bidirectional")
    finally:
        torch.use_deterministic_algorithms(False)
    assert context.isfinite().all()
    assert not context[41:].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("lengths", [[5, 70, 1], [66, 66]], ids=str)
@pytest.mark.parametrize("reads", [False, True])
def test_what_stood_in_fresh_memory_is_in_no_number(dtype, lengths, reads, monkeypatch):
    """Nor where the product reads it, as MPS does."""

    def as_on_mps(product, left, right, *, beta, alpha):
        return product.mul_(beta).add_(left @ right, alpha=alpha)

    if reads:
        monkeypatch.setattr(torch.Tensor, "baddbmm_", as_on_mps)
        monkeypatch.setattr(block_attention, "_reads_what_stood", lambda product: True)
    stream = Stream.of(random_packed(lengths, 60), dropout=(1, 2), is_rounded=True)
    words = site_words(stream.row_keys, 1, 0)
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.3)
    qkv = torch.randn(len(stream.token_ids), 3 * 32).to(dtype).requires_grad_()
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True)  # fresh memory is full of NaN
    try:
        contexts = attend(qkv, words, stream, rules)
        contexts.sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert contexts.isfinite().all()
    assert qkv.grad.isfinite().all()


def test_a_sequence_never_sees_its_neighbours():
    bert = small_bert(CONFIG)
    packed = random_packed([9, 12], CONFIG.vocab_size)
    changed = packed.token_ids.copy()
    changed[9:] = (changed[9:] + 1) % 50
    other = replace(packed, token_ids=changed)
    with torch.no_grad():
        first, second = bert(Stream.of(packed)), bert(Stream.of(other))
    assert torch.equal(first[:9], second[:9])
    assert not torch.allclose(first[9:], second[9:])


def test_attention_dropout_drops_at_its_rate_and_keeps_the_mean():
    packed = random_packed([64] * 8, 60)
    rules = AttentionRules(num_heads=4, direction="bidirectional", probability=0.1)
    # Equal scores and values of one: a context is the sum of the kept probabilities, 1/64 each.
    qkv = torch.zeros(512, 96)
    qkv[:, 64:] = 1.0
    stream = Stream.of(packed, dropout=(1, 2))
    context = attend(qkv, stream.row_keys, stream, rules)[:, ::8]  # (T, A)
    # 512 * 4 * 64 Bernoulli draws: four standard deviations of the mean are 0.0035.
    assert abs(context.mean().item() - 1.0) < 0.0035
    # One context sums 64 draws of variance p / (1 - p) / 64^2.
    assert context.var().item() == pytest.approx(0.1 / 0.9 / 64, rel=0.15)


def test_attention_gradient_with_dropout_is_that_of_the_same_mask():
    packed = random_packed([6, 9, 9], 60)
    stream = Stream.of(packed, dropout=(5, 7))
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.3)
    qkv = torch.randn(24, 24, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda rows: attend(rows, stream.row_keys, stream, rules), (qkv,), fast_mode=True
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("scores", [1, 2 * 4 * 40**2, 10**9])
@pytest.mark.parametrize("lengths", [LENGTHS, [37] * 7], ids=["mixed", "equal"])
def test_without_a_compiler_a_few_sequences_at_a_time_give_the_same(
    direction, scores, lengths, monkeypatch
):
    rules = AttentionRules(num_heads=4, direction=direction, probability=0.3)
    packed = random_packed(lengths, CONFIG.vocab_size)
    stream = Stream.of(packed, dropout=(1, 2), is_rounded=True)
    words = site_words(stream.row_keys, 1, 0)
    torch.manual_seed(0)
    given = torch.randn(len(stream.token_ids), 96, dtype=torch.float64)
    weights = torch.randn(len(given), 32, dtype=torch.float64)
    room = given.new_zeros(stream.num_cells, 32)

    def contexts_and_gradients():
        qkv = given.clone().requires_grad_()
        contexts = attend(qkv, words, stream, rules)
        (contexts * weights).sum().backward()
        return contexts, qkv.grad

    with unfused():
        with monkeypatch.context() as drawn_again:
            drawn_again.setattr(block_attention, "is_eager_on_cpu", lambda rows: False)
            whole = contexts_and_gradients()
        monkeypatch.setattr(block_attention, "_SCORES_IN_CACHE", scores)
        parts = list(block_attention._parts(stream, room, rules.num_heads))
        num_parts = {1: len(lengths), 10**9: len(stream.blocks)}.get(scores)
        assert num_parts is None or len(parts) == num_parts
        assert len(stream.blocks) <= len(parts)
        for found, expected in zip(contexts_and_gradients(), whole, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
