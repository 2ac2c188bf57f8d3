import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from bertsmith.fusion import unfused
from bertsmith.model import vocabulary_loss
from bertsmith.model.vocabulary_loss import language_model_loss

ROWS, WORDS, WIDTH = 23, 57, 12


def inputs(dtype=torch.float64, rows=ROWS):
    generator = torch.Generator().manual_seed(5)
    shapes = ((rows, WIDTH), (WORDS, WIDTH), (WORDS,))
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    learned = [tensor.to(dtype).requires_grad_() for tensor in tensors]
    return *learned, torch.randint(0, WORDS, (rows,), generator=generator)


def plain(rows, embedding, bias, targets):
    logits = functional.linear(rows, embedding, bias)
    total = functional.cross_entropy(logits, targets, reduction="sum")
    return total, (logits.argmax(dim=1) == targets).sum()


def loss_and_gradients(function, tensors, factor=1.0):
    total, correct = function(*tensors)
    return total, correct, *torch.autograd.grad(total * factor, tensors[:3])


@pytest.fixture(params=[1, 5, 7, ROWS, 100])
def rows_a_chunk(request, monkeypatch):
    monkeypatch.setattr(vocabulary_loss, "CHUNK_LOGITS", request.param * WORDS + WORDS // 2)
    return request.param


@pytest.mark.parametrize("is_plain", [True, pytest.param(False, marks=pytest.mark.compiled)])
def test_loss_and_gradients_are_those_of_all_logits_at_once(rows_a_chunk, is_plain):
    tensors = inputs()
    with unfused(is_plain):
        found = loss_and_gradients(language_model_loss, tensors, factor=0.3)
    expected = loss_and_gradients(plain, tensors, factor=0.3)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_without_a_gradient_the_loss_is_the_same(rows_a_chunk):
    tensors = inputs()
    with torch.no_grad():
        found = language_model_loss(*tensors)
    torch.testing.assert_close(found, plain(*tensors), rtol=1e-12, atol=1e-12)
    assert not found[0].requires_grad


def test_no_matrix_is_larger_than_a_chunk_forward_or_backward(monkeypatch):
    monkeypatch.setattr(vocabulary_loss, "CHUNK_LOGITS", 5 * WORDS)
    largest = Largest()
    with unfused(), largest:
        loss_and_gradients(language_model_loss, inputs())
    assert largest.num_elements == max(5 * WORDS, WORDS * WIDTH)
    with unfused(), largest:
        loss_and_gradients(plain, inputs())
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


def test_no_rows_have_no_loss():
    tensors = inputs(rows=0)
    total, correct, *gradients = loss_and_gradients(language_model_loss, tensors)
    assert (total, correct) == (0, 0)
    for gradient, tensor in zip(gradients, tensors[:3], strict=True):
        assert torch.equal(gradient, torch.zeros_like(tensor))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_rounds_products_but_not_sums_over_chunks_nor_the_factor(dtype, monkeypatch):
    exact = [tensor.detach() for tensor in inputs(dtype)]
    wide = [tensor.double().requires_grad_() for tensor in exact[:3]]
    expected = loss_and_gradients(plain, (*wide, exact[3]), factor=1 / 3)
    unit = torch.finfo(dtype).eps
    for chunk in (1, 100):
        monkeypatch.setattr(vocabulary_loss, "CHUNK_LOGITS", chunk * WORDS)
        tensors = (*(tensor.requires_grad_() for tensor in exact[:3]), exact[3])
        total, _, *gradients = loss_and_gradients(language_model_loss, tensors, factor=1 / 3)
        assert total.dtype == torch.float32
        assert abs(total.double() / expected[0] - 1) < unit
        for found, right in zip(gradients, expected[2:], strict=True):
            assert found.dtype == dtype
            # Logits, their gradient, its product and the scaled product are each rounded once.
            assert (found.double() - right).norm() < 2 * unit * right.norm()
            # A factor rounded to the dtype would show here: of random roundings little is left.
            assert abs((found.double() * right).sum() / right.square().sum() - 1) < unit / 4


def test_a_frozen_part_gets_no_gradient_and_the_others_theirs():
    rows, embedding, bias, targets = inputs()
    total, _ = language_model_loss(rows, embedding.detach(), bias, targets)
    found = torch.autograd.grad(total, (rows, bias))
    expected = torch.autograd.grad(plain(rows, embedding, bias, targets)[0], (rows, bias))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_gradient_of_the_gradient_is_refused():
    tensors = inputs()
    total, _ = language_model_loss(*tensors)
    (first,) = torch.autograd.grad(total.square(), tensors[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
