"""The function of `cpu_float16_loss.cpp`, beside float64, which is the definition."""

import functools
import math

import pytest
import torch

from bertsmith.compiler import without_native
from bertsmith.model import cpu_whole_loss
from bertsmith.model.cpu_whole_loss import suits
from bertsmith.native import multiplies_float16
from tests.model.test_cpu_whole_loss import assert_near, defined, drawn

# Eleven bits of both factors, and sums of 64 that lose as many, relative to the largest number; in
# bfloat16 it is 2^-7.
WITHIN = 4e-3

pytestmark = pytest.mark.skipif(not multiplies_float16(), reason="no products of float16 here")

loss_and_gradients = functools.partial(cpu_whole_loss.loss_and_gradients, in_float16=True)


@pytest.mark.parametrize(
    ("num_rows", "num_words", "width"),
    [
        *[(1, 1, 2), (1, 47, 8), (5, 3, 16), (33, 49, 24), (64, 131, 64), (9, 50, 7)],
        *[(75, 769, 100), (129, 1537, 312), (301, 2051, 64)],
    ],
)
def test_loss_and_gradients_are_near_those_of_the_definition(num_rows, num_words, width):
    tensors = drawn(torch.float32, num_rows, num_words, width)
    (total, correct), exact = defined(*tensors)
    (found_total, found_correct), found = loss_and_gradients(*tensors)
    assert abs(float(found_total) - float(total)) <= 1e-3 * max(1.0, float(total))
    assert abs(int(found_correct) - int(correct)) <= 1  # of two that are nearly equal
    for ours, theirs in zip(found, exact, strict=True):
        assert ours.dtype == torch.float32
        assert_near(ours, theirs, WITHIN)


def test_threads_change_no_bit():
    results = []
    for threads in (1, 2, 3):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            (total, correct), gradients = loss_and_gradients(*drawn(torch.float32, 131, 2051, 72))
            results.append((total, correct, *gradients))
        finally:
            torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(*pair) for pair in zip(results[0], other, strict=True))


def scored(scores, targets):
    """Of (M, V) logits, which an embedding that is one at one place each makes of the rows."""
    scores = torch.as_tensor(scores)
    return loss_and_gradients(
        scores, torch.eye(scores.shape[1]), torch.zeros(scores.shape[1]), torch.tensor(targets)
    )


@pytest.mark.parametrize(("target", "right"), [(50, 1), (51, 0), (120, 0), (0, 0), (49, 0)])
def test_of_equal_logits_the_first_is_the_guess(target, right):
    scores = torch.zeros(1, 130)
    scores[0, [50, 51, 120]] = 5.0
    assert scored(scores, [target])[0][1] == right


@pytest.mark.parametrize("score", [80.0, 1e4, 3e38])
def test_large_logits_neither_overflow_nor_vanish(score):
    scores = torch.zeros(2, 137)
    scores[:, 5] = score
    (total, correct), (by_rows, _, by_bias) = scored(scores, [5, 106])
    torch.testing.assert_close(float(total), score, rtol=1e-3, atol=0.0)
    assert correct == 1
    torch.testing.assert_close(by_rows[1, [5, 106]], torch.tensor([1.0, -1.0]))
    torch.testing.assert_close(by_bias[0, [5, 106]], torch.tensor([1.0, -1.0]))


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_broken_row_breaks_its_own_gradient_alone(broken):
    rows, embedding, bias, targets = drawn(torch.float32, 70, 100, 64)
    rows[1, 40] = broken
    (total, _), (by_rows, _, _) = loss_and_gradients(rows, embedding, bias, targets)
    assert total.isnan()
    assert by_rows[1].isnan().all()
    rest = torch.arange(70) != 1
    _, (sound, _, _) = loss_and_gradients(rows[rest], embedding, bias, targets[rest])
    torch.testing.assert_close(by_rows[rest], sound, rtol=0, atol=0)


def test_words_that_are_no_target_are_not_lost():
    """Beside gradients at targets that are so large that the rest could be nothing."""
    tensors = drawn(torch.float32, 129, 1537, 64)
    _, embedding, _, targets = tensors
    embedding[targets] = 0.0  # what rows learn comes of the others alone
    _, (exact, _, _) = defined(*tensors)
    _, (found, _, _) = loss_and_gradients(*tensors)
    assert (found.double() - exact).norm() < WITHIN * exact.norm()


def test_it_is_taken_beside_float32_alone():
    rows, embedding, bias, targets = drawn(torch.float32, 5, 40, 8)
    assert suits(rows, embedding, bias, targets, in_float16=True)
    assert not suits(rows.bfloat16(), embedding.bfloat16(), bias, targets, in_float16=True)
    assert not suits(rows.double(), embedding.double(), bias, targets, in_float16=True)
    with without_native():
        assert not suits(rows, embedding, bias, targets, in_float16=True)
