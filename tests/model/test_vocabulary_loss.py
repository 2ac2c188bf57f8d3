import functools
import weakref

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from bertsmith.compiler import without_native
from bertsmith.fusion import unfused
from bertsmith.model import cpu_whole_loss, vocabulary_loss, vocabulary_pieces
from bertsmith.model.vocabulary_loss import language_model_loss
from bertsmith.native import multiplies_float16

ROWS, WORDS, WIDTH = 23, 57, 12


def inputs(dtype=torch.float64, rows=ROWS, width=WIDTH, size=1.0):
    generator = torch.Generator().manual_seed(5)
    shapes = ((rows, width), (WORDS, width), (WORDS,))
    tensors = [
        size * torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
    ]
    learned = [tensor.to(dtype).requires_grad_() for tensor in tensors]
    return *learned, torch.randint(0, WORDS, (rows,), generator=generator)


def exact(tensors):
    """The same values in float64."""
    return *(each.detach().double().requires_grad_() for each in tensors[:3]), tensors[3]


def plain(rows, embedding, bias, targets):
    logits = functional.linear(rows, embedding, bias)
    total = functional.cross_entropy(logits, targets, reduction="sum")
    return total, (logits.argmax(dim=1) == targets).sum()


def loss_and_gradients(function, tensors, factor=1.0):
    total, correct = function(*tensors)
    return total, correct, *torch.autograd.grad(total * factor, tensors[:3])


def chunks_of(monkeypatch, rows):
    monkeypatch.setattr(vocabulary_loss, "CHUNK_LOGITS", rows * WORDS + WORDS // 2)


@pytest.fixture(params=[1, 5, 7, ROWS, 100])
def rows_a_chunk(request, monkeypatch):
    chunks_of(monkeypatch, request.param)


WAYS = ["whole", "between", "torch", pytest.param("fused", marks=pytest.mark.compiled)]


@pytest.fixture(params=WAYS)
def _every_way(request, monkeypatch):
    """All in C++, products too; what stands between torch's products; nothing; that compiled."""
    has_them = request.param == "whole"
    monkeypatch.setattr(cpu_whole_loss, "has_fast_products", lambda *_, **__: has_them)
    with without_native(request.param == "torch"), unfused(request.param != "fused"):
        yield


every_way = pytest.mark.usefixtures("_every_way")
FUSED = [True, pytest.param(False, marks=pytest.mark.compiled)]


@pytest.mark.parametrize("is_plain", FUSED)
@pytest.mark.usefixtures("rows_a_chunk")
def test_loss_and_gradients_are_those_of_all_logits_at_once(is_plain):
    tensors = inputs()
    with unfused(is_plain):
        found = loss_and_gradients(language_model_loss, tensors, factor=0.3)
    expected = loss_and_gradients(plain, tensors, factor=0.3)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("num_rows", [0, 1, 7, ROWS])
def test_a_few_rows_of_logits_at_a_time_give_the_gradients_of_all(dtype, num_rows, monkeypatch):
    """As they are made where every operator is a pass over memory."""
    tensors = inputs(dtype, rows=num_rows)
    at_once = []
    scored = vocabulary_pieces._scored

    def counted(logits, *others):
        at_once.append(len(logits))
        return scored(logits, *others)

    with unfused(), without_native():
        expected = loss_and_gradients(language_model_loss, tensors)
        monkeypatch.setattr(vocabulary_pieces, "_scored", counted)
        monkeypatch.setattr(vocabulary_pieces, "PIECE_LOGITS", 3 * WORDS + 1)
        found = loss_and_gradients(language_model_loss, tensors)
    assert (max(at_once), sum(at_once)) == (min(3, num_rows), num_rows)
    for place in (0, 4):  # the loss and the gradient of the bias are added up in another order
        torch.testing.assert_close(found[place], expected[place], rtol=1e-6, atol=1e-9)
    for place in (1, 2, 3):
        assert torch.equal(found[place], expected[place])


@pytest.mark.skipif(not multiplies_float16(), reason="no products of float16 here")
@pytest.mark.usefixtures("rows_a_chunk")
def test_by_products_of_float16_it_is_nearly_the_same():
    tensors = inputs(torch.float32)
    expected = loss_and_gradients(plain, exact(tensors), factor=0.3)
    function = functools.partial(language_model_loss, in_float16=True)
    found = loss_and_gradients(function, tensors, factor=0.3)
    assert found[1] == expected[1]
    assert not torch.equal(found[0], loss_and_gradients(language_model_loss, tensors)[0])
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.double() - theirs).norm() <= 3e-3 * theirs.double().norm()


@pytest.mark.usefixtures("rows_a_chunk")
def test_without_a_gradient_the_loss_is_the_same():
    tensors = inputs()
    with torch.no_grad():
        found = language_model_loss(*tensors)
    torch.testing.assert_close(found, plain(*tensors), rtol=1e-12, atol=1e-12)
    assert not found[0].requires_grad


@pytest.mark.parametrize("num_rows", [1, 19, 20, 21, 39, 41, 300])
def test_chunks_are_as_few_as_can_be_and_nearly_equal(num_rows, monkeypatch):
    chunks_of(monkeypatch, 20)
    rows = torch.arange(num_rows)
    chunks = vocabulary_loss._chunks(rows, rows, WORDS)
    sizes = [len(chunk) for chunk, _ in chunks]
    assert torch.equal(torch.cat([chunk for chunk, _ in chunks]), rows)
    assert len(sizes) == -(-num_rows // 20)
    assert max(sizes) <= 20
    assert max(sizes) - min(sizes) < len(sizes)


def test_no_matrix_is_larger_than_a_chunk_forward_or_backward(monkeypatch):
    chunks_of(monkeypatch, 6)
    largest = Largest()
    with unfused(), largest:
        loss_and_gradients(language_model_loss, inputs(width=4))
    assert largest.num_elements == 6 * WORDS  # of 23 rows in four chunks
    with unfused(), largest:
        loss_and_gradients(plain, inputs(width=4))
    assert largest.num_elements == ROWS * WORDS


class Largest(TorchDispatchMode):
    """Remembers the elements of the largest tensor that was made."""

    num_elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        tensors = made if isinstance(made, (tuple, list)) else [made]
        sizes = [each.numel() for each in tensors if isinstance(each, torch.Tensor)]
        self.num_elements = max(self.num_elements, *sizes, 0)
        return made


def test_the_logits_of_a_chunk_are_gone_before_the_next(monkeypatch):
    chunks_of(monkeypatch, 6)
    whole, seen, living = vocabulary_pieces.loss_and_gradient, [], []

    def scored(logits, bias, targets):
        seen.append(weakref.ref(logits))
        living.append(sum(each() is not None for each in seen))
        return whole(logits, bias, targets)

    monkeypatch.setattr(vocabulary_pieces, "loss_and_gradient", scored)
    with unfused(), without_native():
        total, _ = language_model_loss(*inputs())
    assert living == [1, 1, 1, 1]
    assert not any(each() is not None for each in seen)
    assert total.requires_grad


def test_no_rows_have_no_loss():
    tensors = inputs(rows=0)
    total, correct, *gradients = loss_and_gradients(language_model_loss, tensors)
    assert (total, correct) == (0, 0)
    for gradient, tensor in zip(gradients, tensors[:3], strict=True):
        assert torch.equal(gradient, torch.zeros_like(tensor))


# In half precision what is rounded counts, in float32 the sums of 300 rows and of all words do.
UNITS = {torch.float32: 8, torch.bfloat16: 1, torch.float16: 1}


@every_way
@pytest.mark.parametrize("dtype", UNITS)
def test_rounded_types_round_each_product_once_and_sum_chunks_exactly(dtype, monkeypatch):
    tensors, unit = inputs(dtype, rows=300), torch.finfo(dtype).eps
    expected = loss_and_gradients(plain, exact(tensors))
    for chunk in (1, 1000):
        chunks_of(monkeypatch, chunk)
        total, _, *gradients = loss_and_gradients(language_model_loss, tensors)
        assert total.dtype == torch.float32
        assert abs(total.double() / expected[0] - 1) < unit
        for found, right in zip(gradients, expected[2:], strict=True):
            assert found.dtype == dtype
            assert (found.double() - right).norm() < UNITS[dtype] * unit * right.norm()


@every_way
def test_the_factor_of_the_loss_is_not_rounded_to_the_type_of_the_gradient():
    tensors, unit = inputs(torch.bfloat16, rows=300), torch.finfo(torch.bfloat16).eps
    factor = 1 + 0.49 * unit  # would be rounded to 1
    expected = loss_and_gradients(plain, exact(tensors), factor)
    found = loss_and_gradients(language_model_loss, tensors, factor)
    for one, right in zip(found[2:4], expected[2:4], strict=True):
        # Of many random roundings little is left in the mean.
        assert abs((one.double() * right).sum() / right.square().sum() - 1) < unit / 4


@pytest.mark.compiled
@pytest.mark.parametrize("kinds", [(torch.bfloat16, torch.float32), 2 * (torch.bfloat16,)], ids=str)
def test_scaled_gradients_are_rounded_once_at_most(kinds):
    """As autocast leaves them too, and as other devices than a CPU scale them."""
    was, asked = kinds
    values, factor = torch.randn(500).to(was), torch.tensor(1 / 3)
    expected = (values.float() * factor).to(asked)
    for scaled in (vocabulary_loss._scaled, vocabulary_loss._scaled_in_one_pass):
        found = scaled(values, factor, asked)
        assert found.dtype == asked
        assert torch.equal(found, expected)


def test_under_autocast_gradients_are_scaled_as_they_are_asked_for():
    tensors, factor = inputs(torch.float32), 0.3
    with torch.autocast("cpu", torch.bfloat16):
        plain_ones = loss_and_gradients(language_model_loss, tensors)
        found = loss_and_gradients(language_model_loss, tensors, factor)
    for one, unscaled in zip(found[2:], plain_ones[2:], strict=True):
        assert torch.equal(one, unscaled * factor)


def test_in_float16_the_scale_of_the_loss_comes_before_the_rounding():
    tensors, scale = inputs(torch.float16, rows=1, size=1.6), 2.0**14
    expected = loss_and_gradients(plain, exact(tensors), scale)[4]
    found = loss_and_gradients(language_model_loss, tensors, scale)[4]
    # Of the bias: probabilities. Without the scale these are subnormal; a logit near 16 is rounded
    # by up to 2^-7, and so is what it is the logarithm of.
    is_small = (expected > 1e-8 * scale) & (expected < 1e-5 * scale)
    assert is_small.sum() > 5
    torch.testing.assert_close(found.double()[is_small], expected[is_small], rtol=2**-6, atol=0.0)


@every_way
@pytest.mark.parametrize("score", [120.0, 112.0, 104.0])
def test_targets_that_are_nearly_certain_keep_their_gradient(score):
    # Beyond exp's range, and 1 - p of 1e-4 to 4e-4, where bfloat16 below 1 has steps of 4e-3.
    rows = torch.tensor([[score]], dtype=torch.bfloat16, requires_grad=True)
    embedding = torch.tensor([[1.0], [0.921875], [0.5]], dtype=torch.bfloat16)
    bias = torch.tensor([0.0, 0.3, 0.0], dtype=torch.bfloat16, requires_grad=True)
    target = torch.zeros(1, dtype=torch.int64)
    (found,) = torch.autograd.grad(language_model_loss(rows, embedding, bias, target)[0], bias)
    logits = (rows.double() @ embedding.double().T).bfloat16().double() + bias.double()
    expected = torch.softmax(logits, dim=1)[0] - torch.tensor([1.0, 0.0, 0.0])
    assert 1e-4 < -expected[0] < 5e-4
    torch.testing.assert_close(found.double(), expected, rtol=2**-7, atol=1e-20)


def test_a_gradient_can_be_taken_twice():
    tensors = inputs()
    total, _ = language_model_loss(*tensors)
    first = torch.autograd.grad(total * 0.3, tensors[:3], retain_graph=True)
    again = torch.autograd.grad(total * 0.3, tensors[:3])
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other)


def test_beside_a_frozen_embedding_the_others_get_theirs():
    rows, embedding, bias, targets = inputs()
    total, _ = language_model_loss(rows, embedding.detach(), bias, targets)
    found = torch.autograd.grad(total, (rows, bias))
    expected = torch.autograd.grad(plain(rows, embedding, bias, targets)[0], (rows, bias))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_gradient_of_the_gradient_is_refused():
    tensors = inputs()
    total, _ = language_model_loss(*tensors)
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(total / ROWS, tensors[:3], create_graph=True)


def test_words_that_no_text_has_change_neither_the_loss_nor_a_gradient():
    rows, embedding, bias, targets = inputs()
    right = loss_and_gradients(language_model_loss, (rows, embedding, bias, targets))
    wider, lower = vocabulary_loss._whole_lines(embedding, bias)
    assert len(wider) == len(lower) == 64
    with without_native():  # as on a GPU
        total, correct = language_model_loss(rows, wider, lower, targets)
    found = (total, correct, *torch.autograd.grad(total, (rows, embedding, bias)))
    for one, other in zip(right, found, strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad(), without_native():
        assert torch.equal(language_model_loss(rows, wider, lower, targets)[0], total)
