"""The function of `cpu_float16_loss.cpp`, beside float64, which is the definition.

What it has in common with that of `cpu_whole_loss.cpp` is tested there.
"""

import functools

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
