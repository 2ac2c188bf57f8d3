"""The function of `cpu_whole_loss.cpp`, beside float64, which is the definition."""

import math
import weakref

import pytest
import torch
from torch.nn import functional

from bertsmith import native
from bertsmith.compiler import without_native
from bertsmith.model import cpu_whole_loss, vocabulary_loss
from bertsmith.model.cpu_whole_loss import SOURCE, loss_and_gradients, suits
from bertsmith.model.vocabulary_loss import language_model_loss
from bertsmith.native import has_fast_products, multiplies_float16
from tests.builds import (
    NEEDS_COMPILER,
    fastest_in,
    forget_builds,
    has_tiles,
    names_of_calls,
    tiles_are_imitated,
    tiles_refused,
    with_vectors_of,
    without_tiles,
)

# Relative to the largest number. float32 loses a few of its 24 bits in the sums; in bfloat16
# weights and gradients of logits are rounded, and then the gradient itself.
WITHIN = {torch.float32: 2e-6, torch.bfloat16: 2.0**-7}

pytestmark = NEEDS_COMPILER


def in_float16(*before):
    """A parameter of a test, after others: by products of float16, where there are any."""
    reason = "no products of float16 here"
    return pytest.param(
        *before, True, marks=pytest.mark.skipif(not multiplies_float16(), reason=reason)
    )


anywhere = fastest_in(cpu_whole_loss)
in_any_way = pytest.mark.parametrize(
    ("dtype", "in_float16"), [*((dtype, False) for dtype in WITHIN), in_float16(torch.float32)]
)


def drawn(dtype, num_rows, num_words, width, size=1.0):
    """Rows (M, H), embedding (V, H), bias (V,) and targets (M,)."""
    generator = torch.Generator().manual_seed(num_rows + num_words + width)
    rows = size * torch.randn(num_rows, width, generator=generator)
    embedding = torch.randn(num_words, width, generator=generator) / math.sqrt(width)
    bias = torch.randn(num_words, generator=generator)
    targets = torch.randint(num_words, (num_rows,), generator=generator)
    return rows.to(dtype), embedding.to(dtype), bias, targets


def defined(rows, embedding, bias, targets):
    """What the function gives, in float64."""
    learned = [each.detach().double().requires_grad_() for each in (rows, embedding, bias)]
    logits = functional.linear(*learned)
    total = functional.cross_entropy(logits, targets, reduction="sum")
    by_rows, by_embedding, by_bias = torch.autograd.grad(total, learned)
    return (total.detach(), (logits.argmax(dim=1) == targets).sum()), (
        by_rows,
        by_embedding,
        by_bias[None],
    )


def assert_near(found, exact, within):
    assert found.shape == exact.shape
    assert float((found.double() - exact).abs().max()) <= within * float(exact.abs().max())


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize(
    ("num_rows", "num_words", "width"),
    [
        *[(1, 1, 2), (1, 47, 8), (5, 3, 16), (33, 49, 24), (64, 131, 64)],
        *[(75, 769, 100), (129, 1537, 312), (260, 4200, 64), (420, 300, 416)],
    ],
)
def test_loss_and_gradients_are_those_of_the_definition(dtype, num_rows, num_words, width):
    tensors = drawn(dtype, num_rows, num_words, width)
    (total, correct), exact = defined(*tensors)
    (found_total, found_correct), found = loss_and_gradients(*tensors)
    assert abs(float(found_total) - float(total)) <= 2e-6 * max(1.0, float(total))
    assert found_correct == correct
    assert [each.dtype for each in found] == [dtype, dtype, torch.float32]
    for ours, theirs in zip(found, exact, strict=True):
        assert_near(ours, theirs, WITHIN[dtype])


def test_an_odd_width_is_taken_in_float32_alone():
    tensors = drawn(torch.float32, 9, 50, 7)
    assert suits(*tensors)
    (total, _), exact = defined(*tensors)
    (found, _), gradients = loss_and_gradients(*tensors)
    torch.testing.assert_close(found.double(), total, rtol=2e-6, atol=0.0)
    for ours, theirs in zip(gradients, exact, strict=True):
        assert_near(ours, theirs, 2e-6)
    assert not suits(*drawn(torch.bfloat16, 9, 50, 7))


def learned():
    """Rows, embedding and bias that learn, with the targets of nine rows, of forty words."""
    torch.manual_seed(0)
    numbers = [torch.randn(shape).requires_grad_() for shape in ((9, 8), (40, 8), 40)]
    return numbers, torch.arange(9)


def test_it_is_these_functions_that_learn(monkeypatch):
    called = names_of_calls(cpu_whole_loss, monkeypatch)
    numbers, targets = learned()
    with torch.no_grad():
        language_model_loss(*numbers, targets)
    with without_native():
        language_model_loss(*numbers, targets)
    assert not called
    total, correct = language_model_loss(*numbers, targets)
    assert called == ["losses"]  # gradients are made for who goes back
    assert not correct.requires_grad
    found = torch.autograd.grad(total, numbers)
    assert called == ["losses", "loss_gradients"]
    _, exact = defined(*numbers, targets)
    for ours, theirs in zip(found, (*exact[:2], exact[2][0]), strict=True):
        assert_near(ours, theirs, 2e-6)


def test_of_more_rows_than_a_chunk_gradients_are_made_beside_the_loss(monkeypatch):
    monkeypatch.setattr(vocabulary_loss, "CHUNK_LOGITS", 5 * 40)
    called = names_of_calls(cpu_whole_loss, monkeypatch)
    numbers, targets = learned()
    total, _ = language_model_loss(*numbers, targets)
    in_turn = 2 * ["losses", "loss_gradients"]
    assert called == in_turn
    found = torch.autograd.grad(total, numbers)
    assert called == in_turn
    _, exact = defined(*numbers, targets)
    for ours, theirs in zip(found, (*exact[:2], exact[2][0]), strict=True):
        assert_near(ours, theirs, 2e-6)


@in_any_way
def test_the_scale_of_the_loss_is_that_of_the_gradients(dtype, in_float16):
    """Powers of two, of which nothing is rounded: bit by bit, however often it is gone back."""
    *numbers, targets = drawn(dtype, 131, 2051, 72)
    _, (by_rows, by_embedding, by_bias) = loss_and_gradients(
        *numbers, targets, in_float16=in_float16
    )
    for each in numbers:
        each.requires_grad_()
    total, _ = cpu_whole_loss.loss(*numbers, targets, in_float16=in_float16)
    for scale in (1.0, 2.0**-9, -4.0):
        found = torch.autograd.grad(total * scale, numbers, retain_graph=True)
        for ours, plain in zip(found, (by_rows, by_embedding, by_bias[0]), strict=True):
            assert torch.equal(ours, plain * scale)


def test_the_gradient_of_the_bias_is_of_its_type():
    rows, embedding, bias, targets = drawn(torch.bfloat16, 9, 40, 8)
    bias = bias.bfloat16().requires_grad_()
    total, _ = cpu_whole_loss.loss(rows, embedding, bias, targets)
    (found,) = torch.autograd.grad(total, bias)
    _, (_, _, exact) = loss_and_gradients(rows, embedding, bias, targets)
    assert torch.equal(found, exact[0].bfloat16())


def test_a_gradient_of_the_gradient_is_refused():
    numbers, targets = learned()
    total, _ = cpu_whole_loss.loss(*numbers, targets)
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(total / 9, numbers, create_graph=True)


def test_beside_a_frozen_embedding_the_others_get_theirs():
    (rows, embedding, bias), targets = learned()
    total, _ = cpu_whole_loss.loss(rows, embedding.detach(), bias, targets)
    found = torch.autograd.grad(total, (rows, bias))
    total, _ = cpu_whole_loss.loss(rows, embedding, bias, targets)
    expected = torch.autograd.grad(total, (rows, embedding, bias))
    assert all(torch.equal(*pair) for pair in zip(found, expected[::2], strict=True))


def test_what_was_changed_since_is_not_gone_back_to():
    numbers, targets = learned()
    total, _ = cpu_whole_loss.loss(*numbers, targets)
    with torch.no_grad():
        numbers[1].mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(total, numbers)


def test_what_the_way_back_needs_is_gone_with_it(monkeypatch):
    kept, made = [], cpu_whole_loss._Call.loss

    def remembered(of):
        told, room = made(of)
        kept.append(weakref.ref(room))
        return told, room

    monkeypatch.setattr(cpu_whole_loss._Call, "loss", remembered)
    numbers, targets = learned()
    total, _ = cpu_whole_loss.loss(*numbers, targets)
    assert kept[0]() is not None
    torch.autograd.grad(total, numbers)
    assert kept[0]() is None


@in_any_way
def test_threads_change_no_bit(dtype, in_float16):
    results = []
    for threads in (1, 2, 3):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            (total, correct), gradients = loss_and_gradients(
                *drawn(dtype, 131, 2051, 72), in_float16=in_float16
            )
            results.append((total, correct, *gradients))
        finally:
            torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(*pair) for pair in zip(results[0], other, strict=True))


def scored(scores, targets, **how):
    """Of (M, V) logits, which an embedding that is one at one place each makes of the rows."""
    words = torch.eye(scores.shape[1], dtype=scores.dtype)
    return loss_and_gradients(scores, words, torch.zeros(len(words)), torch.tensor(targets), **how)


@in_any_way
@pytest.mark.parametrize(
    ("target", "right"), [(50, 1), (51, 0), (120, 0), (140, 0), (0, 0), (49, 0)]
)
def test_of_equal_logits_the_first_is_the_guess(target, right, dtype, in_float16):
    scores = torch.zeros(1, 150, dtype=dtype)
    scores[0, [50, 51, 120, 140]] = 5.0
    assert int(scores.argmax()) == 50
    assert scored(scores, [target], in_float16=in_float16)[0][1] == right


@in_any_way
@pytest.mark.parametrize("score", [80.0, 1e4, 3e38])
def test_large_logits_neither_overflow_nor_vanish(score, dtype, in_float16):
    scores = torch.zeros(2, 138, dtype=dtype)  # even: in bfloat16 it takes no odd width
    scores[:, 5] = score
    (total, correct), (by_rows, _, by_bias) = scored(scores, [5, 130], in_float16=in_float16)
    within = 1e-3 if in_float16 else 1e-6
    torch.testing.assert_close(float(total), float(scores[0, 5]), rtol=within, atol=0.0)
    assert correct == 1
    torch.testing.assert_close(by_rows[1, [5, 130]], torch.tensor([1.0, -1.0], dtype=dtype))
    torch.testing.assert_close(by_bias[0, [5, 130]], torch.tensor([1.0, -1.0]))


@pytest.mark.parametrize("score", [5.0, 8.0])
def test_targets_that_are_nearly_certain_keep_their_gradient(score):
    """In bfloat16 a probability of 0.997 and more is 1 or 0.996."""
    scores = torch.zeros(1, 2).bfloat16()
    scores[0, 1] = score
    _, (by_rows, _, by_bias) = loss_and_gradients(
        scores, torch.eye(2).bfloat16(), torch.zeros(2), torch.tensor([1])
    )
    exact = -1.0 / (1.0 + math.exp(score))
    assert by_rows[0, 1].item() == pytest.approx(exact, rel=2.0**-8)
    assert by_bias[0, 1].item() == pytest.approx(exact, rel=2.0**-8)


@in_any_way
@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("column", [0, 40])
def test_a_broken_row_breaks_its_own_gradient_alone(broken, column, dtype, in_float16):
    rows, embedding, bias, targets = drawn(dtype, 70, 100, 64)
    rows[1, column] = broken
    (total, _), (by_rows, _, _) = loss_and_gradients(
        rows, embedding, bias, targets, in_float16=in_float16
    )
    assert total.isnan()
    assert by_rows[1].isnan().all()
    rest = torch.arange(70) != 1
    _, (sound, _, _) = loss_and_gradients(
        rows[rest], embedding, bias, targets[rest], in_float16=in_float16
    )
    torch.testing.assert_close(by_rows[rest], sound, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("word", [0, 47, 48, 127, 128, 199])
def test_a_word_that_cannot_be_has_no_probability(word, dtype):
    rows, embedding, bias, targets = drawn(dtype, 3, 200, 8)
    targets[:] = 7
    bias[word] = -math.inf
    (total, correct), exact = defined(rows, embedding, bias, targets)
    (found, right), (by_rows, by_embedding, by_bias) = loss_and_gradients(
        rows, embedding, bias, targets
    )
    torch.testing.assert_close(found.double(), total, rtol=1e-6, atol=0.0)
    assert right == correct
    assert_near(by_rows, exact[0], WITHIN[dtype])
    assert not by_embedding[word].any()
    assert by_bias[0, word] == 0.0


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_blocks_of_words_that_cannot_be_change_nothing(dtype):
    rows, embedding, bias, targets = drawn(dtype, 3, 300, 8)
    targets[:] = 7
    bias[48:96] = bias[128:256] = -math.inf
    (total, _), exact = defined(rows, embedding, bias, targets)
    (found, _), gradients = loss_and_gradients(rows, embedding, bias, targets)
    torch.testing.assert_close(found.double(), total, rtol=1e-6, atol=0.0)
    for ours, theirs in zip(gradients, exact, strict=True):
        assert_near(ours, theirs, WITHIN[dtype])


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("vector_bytes", ["16", "32"])
def test_narrower_vectors_give_the_same(vector_bytes, dtype, monkeypatch, tmp_path):
    """As for an older processor, and for one of another kind."""
    tensors = drawn(dtype, 70, 231, 72)
    (total, correct), ours = loss_and_gradients(*tensors)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with_vectors_of(vector_bytes, monkeypatch)
    try:
        (other_total, other_correct), theirs = loss_and_gradients(*tensors)
    finally:
        forget_builds()
    assert list(tmp_path.glob("bertsmith/cpu_whole_loss-*.so"))
    torch.testing.assert_close(total, other_total, rtol=2e-6, atol=0.0)
    assert correct == other_correct
    for one, other in zip(ours, theirs, strict=True):
        assert_near(one, other.double(), WITHIN[dtype])


def assert_found_without_tiles(tensors, found):
    (total, correct), ours = found
    with without_tiles():
        (other_total, other_correct), theirs = loss_and_gradients(*tensors)
    torch.testing.assert_close(total, other_total, rtol=2e-6, atol=0.0)
    assert correct == other_correct
    for one, other in zip(ours, theirs, strict=True):
        assert_near(one, other.double(), WITHIN[torch.bfloat16])


@pytest.mark.parametrize("shape", [(70, 231, 72), (160, 300, 256)])
def test_tiles_and_vectors_give_the_same(shape):
    if not has_tiles():
        pytest.skip("no tiles here")
    tensors = drawn(torch.bfloat16, *shape)
    assert_found_without_tiles(tensors, loss_and_gradients(*tensors))


@pytest.mark.skipif(not tiles_are_imitated(), reason="this system keeps nothing back")
def test_where_the_system_keeps_the_unit_back_vectors_multiply():
    tensors = drawn(torch.bfloat16, 70, 231, 72)
    with tiles_refused():
        found = loss_and_gradients(*tensors)
    assert_found_without_tiles(tensors, found)


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_how_tensors_lie_and_the_type_of_the_bias_change_no_bit(dtype):
    rows, embedding, bias, targets = drawn(dtype, 35, 100, 24)
    apart = torch.zeros(70, 30, dtype=dtype)
    apart[::2, 3:27] = rows
    biases, ids = torch.stack([bias, bias], 1).bfloat16(), torch.stack([targets, targets], 1)
    scattered = (apart[::2, 3:27], embedding.T.contiguous().T, biases[:, 0], ids[:, 0])
    assert suits(*scattered)
    assert not any(each.is_contiguous() for each in scattered)
    (total, correct), found = loss_and_gradients(*scattered)
    (other, right), gradients = loss_and_gradients(rows, embedding, biases[:, 0].float(), targets)
    assert torch.equal(total, other)
    assert correct == right
    assert all(torch.equal(*pair) for pair in zip(found, gradients, strict=True))


def test_the_default_device_is_not_asked():
    tensors = drawn(torch.float32, 5, 40, 8)
    with torch.device("meta"):
        (total, _), _ = loss_and_gradients(*tensors)
    assert torch.equal(total, loss_and_gradients(*tensors)[0][0])


def test_rounding_does_not_lose_words_that_are_no_target():
    """In bfloat16, whose gradients at targets are so large that the rest could be nothing."""
    tensors = drawn(torch.bfloat16, 129, 1537, 64)
    _, (_, exact, _) = defined(*tensors)
    _, (_, found, _) = loss_and_gradients(*tensors)
    rest = torch.ones(1537, dtype=torch.bool)
    rest[tensors[3]] = False
    error = (found.double() - exact)[rest].norm()
    assert error < 2.0**-7 * exact[rest].norm()


@pytest.mark.parametrize("target", [-1, 40, 2**40])
def test_a_target_that_is_no_word_is_refused(target):
    rows, embedding, bias, _ = drawn(torch.float32, 2, 40, 8)
    with pytest.raises(ValueError, match="0 to 39; found"):
        loss_and_gradients(rows, embedding, bias, torch.tensor([0, target]))


def test_what_it_does_not_take_is_left_to_the_definition(monkeypatch):
    rows, embedding, bias, targets = drawn(torch.float32, 5, 40, 8)
    assert suits(rows, embedding, bias, targets)
    assert suits(rows.T.contiguous().T, embedding, bias, targets)
    assert suits(rows, embedding, bias.bfloat16(), targets)
    assert not suits(rows.double(), embedding.double(), bias, targets)
    assert not suits(rows.half(), embedding.half(), bias, targets)
    assert not suits(rows.bfloat16(), embedding, bias, targets)
    assert not suits(rows.to("meta"), embedding, bias, targets)
    assert not suits(rows[:0], embedding, bias, targets[:0])
    assert not suits(rows[:, :6], embedding, bias, targets)
    assert not suits(rows, embedding, bias[:1], targets)
    assert not suits(rows, embedding, bias.double(), targets)
    assert not suits(rows, embedding, bias, targets[:2])
    assert not suits(rows, embedding, bias, targets.int())
    assert not suits(rows[:, 0], embedding[:, 0], bias, targets)
    with torch.autocast("cpu", torch.bfloat16):
        assert not suits(rows, embedding, bias, targets)
    with without_native():
        assert not suits(rows, embedding, bias, targets)
    monkeypatch.setattr(cpu_whole_loss, "has_fast_products", lambda *_, **__: False)
    assert not suits(rows, embedding, bias, targets)


def test_where_it_was_not_measured_to_be_faster_it_is_not_taken(monkeypatch):
    monkeypatch.undo()
    single, half = torch.zeros(1), torch.zeros(1).bfloat16()
    instructions = set(native.build().instructions)
    tiles, vectors = {"-mamx-bf16"}, {"-mavx512bf16"}
    assert has_fast_products(SOURCE, single) is ("-DVECTOR_BYTES=64" in native.build().options)
    for has_amx, fast in ((False, vectors | tiles), (True, tiles)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda it=has_amx: {"amx_bf16": it})
        assert has_fast_products(SOURCE, half) is bool(fast & instructions)
