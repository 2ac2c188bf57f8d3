"""The function of `cpu_vocabulary_loss.cpp`, beside float64, which is the definition."""

import math
import weakref

import pytest
import torch
from torch.nn import functional

from bertsmith.compiler import without_native
from bertsmith.model import cpu_vocabulary_loss, cpu_whole_loss, vocabulary_loss
from bertsmith.model.cpu_vocabulary_loss import loss_and_gradient, suits
from bertsmith.model.vocabulary_loss import language_model_loss
from tests.builds import NEEDS_COMPILER, forget_builds, with_vectors_of

# A gradient is rounded once to its type; float32 loses a few of its 24 bits in the sums.
WITHIN = {torch.float32: 2e-6, torch.bfloat16: 2.0**-8}

pytestmark = NEEDS_COMPILER


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch):
    """As on a processor where torch's products are the fastest."""
    monkeypatch.setattr(cpu_whole_loss, "suits", lambda *_, **__: False)


def drawn(dtype, num_rows, num_words, size=3.0):
    """Logits (m, V), bias (V,) and targets (m,)."""
    generator = torch.Generator().manual_seed(num_rows + num_words)
    logits = size * torch.randn(num_rows, num_words, generator=generator)
    bias = torch.randn(num_words, generator=generator)
    return logits.to(dtype), bias, torch.randint(num_words, (num_rows,), generator=generator)


def defined(logits, bias, targets):
    """Losses (m,), how many are right, and both gradients, in float64."""
    scores = (logits.double() + bias.double()).requires_grad_()
    losses = functional.cross_entropy(scores, targets, reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), scores)
    return losses.detach(), (scores.argmax(dim=1) == targets).sum(), gradient, gradient.sum(dim=0)


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("num_words", [1, 3, 16, 64, 131, 4099])
@pytest.mark.parametrize("num_rows", [1, 32, 75])
def test_loss_and_gradients_are_those_of_the_definition(dtype, num_words, num_rows):
    logits, bias, targets = drawn(dtype, num_rows, num_words)
    losses, correct, gradient, grad_bias = defined(logits, bias, targets)
    total, found, by_bias = loss_and_gradient(logits, bias, targets)
    torch.testing.assert_close(total.double(), losses.sum(), rtol=1e-6, atol=1e-6)
    assert found == correct
    torch.testing.assert_close(logits.double(), gradient, rtol=WITHIN[dtype], atol=1e-7)
    assert by_bias.shape == (1, num_words)
    # The bias's is the sum of what was rounded.
    torch.testing.assert_close(by_bias[0].double(), logits.double().sum(dim=0), rtol=0, atol=2e-6)
    torch.testing.assert_close(
        by_bias[0].double(), grad_bias, rtol=0, atol=WITHIN[dtype] * math.sqrt(num_rows)
    )


def test_it_is_this_function_that_scores(monkeypatch):
    calls, function = [], cpu_vocabulary_loss.loss_and_gradient
    monkeypatch.setattr(
        cpu_vocabulary_loss,
        "loss_and_gradient",
        lambda *given: [calls.append(1), function(*given)][1],
    )
    monkeypatch.setattr(vocabulary_loss, "CHUNK_LOGITS", 5 * 40)
    torch.manual_seed(0)
    learned = [torch.randn(shape).requires_grad_() for shape in ((9, 8), (40, 8), 40)]
    total, _ = language_model_loss(*learned, torch.arange(9))
    found = torch.autograd.grad(total, learned)
    assert len(calls) == 2
    exact = [each.detach().double().requires_grad_() for each in learned]
    logits = functional.linear(*exact)
    loss = functional.cross_entropy(logits, torch.arange(9), reduction="sum")
    for ours, right in zip(found, torch.autograd.grad(loss, exact), strict=True):
        torch.testing.assert_close(ours.double(), right, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        language_model_loss(*learned, torch.arange(9))
    with without_native():
        language_model_loss(*learned, torch.arange(9))
    assert len(calls) == 2


def test_threads_change_no_bit():
    results = []
    for threads in (1, 2, 3):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            logits, bias, targets = drawn(torch.bfloat16, 131, 2051)
            results.append((logits, *loss_and_gradient(logits, bias, targets)))
        finally:
            torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(*pair) for pair in zip(results[0], other, strict=True))


@pytest.mark.parametrize(("target", "right"), [(3, 1), (7, 0), (20, 0), (0, 0)])
def test_of_equal_logits_the_first_is_the_guess(target, right):
    logits = torch.zeros(1, 21)
    logits[0, [3, 7, 20]] = 5.0
    assert int(logits.argmax()) == 3
    assert loss_and_gradient(logits, torch.zeros(21), torch.tensor([target]))[1] == right


@pytest.mark.parametrize("score", [80.0, 1e4, 3e38])
def test_large_logits_neither_overflow_nor_vanish(score):
    logits = torch.zeros(2, 37)
    logits[:, 5] = score
    total, correct, _ = loss_and_gradient(logits, torch.zeros(37), torch.tensor([5, 6]))
    torch.testing.assert_close(float(total), score, rtol=1e-6, atol=0.0)
    assert correct == 1
    torch.testing.assert_close(logits[1, 5:7], torch.tensor([1.0, -1.0]))
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("column", [0, 5, 40, 99])
def test_a_broken_logit_breaks_its_row_alone(broken, column):
    logits, bias, targets = drawn(torch.float32, 3, 100)
    logits[1, column] = broken
    total, _, _ = loss_and_gradient(logits, bias, targets)
    assert total.isnan()
    assert logits[1].isnan().all()
    assert logits[[0, 2]].isfinite().all()


@pytest.mark.parametrize("column", [0, 5, 40, 99])
def test_a_word_that_cannot_be_has_no_probability(column):
    logits, bias, targets = drawn(torch.float32, 3, 100)
    targets[:] = 7
    logits[1, column] = -math.inf
    losses, correct, gradient, _ = defined(logits, bias, targets)
    total, found, _ = loss_and_gradient(logits, bias, targets)
    torch.testing.assert_close(total.double(), losses.sum(), rtol=1e-6, atol=0.0)
    assert found == correct
    torch.testing.assert_close(logits.double(), gradient, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("vector_bytes", ["16", "32"])
def test_narrower_vectors_give_the_same(vector_bytes, dtype, monkeypatch, tmp_path):
    """As for an older processor, and for one of another kind."""
    here, bias, targets = drawn(dtype, 40, 131)
    there = here.clone()
    ours = loss_and_gradient(here, bias, targets)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with_vectors_of(vector_bytes, monkeypatch)
    try:
        theirs = loss_and_gradient(there, bias, targets)
    finally:
        forget_builds()
    assert list(tmp_path.glob("bertsmith/cpu_vocabulary_loss-*.so"))
    # Sums of another order: the next number here and there.
    torch.testing.assert_close(here, there, rtol=WITHIN[dtype], atol=1e-7)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-6, atol=1e-3)


def test_the_logits_of_a_chunk_are_gone_before_the_next(monkeypatch):
    seen, living, function = [], [], cpu_vocabulary_loss.loss_and_gradient

    def scored(logits, bias, targets):
        seen.append(weakref.ref(logits))
        living.append(sum(each() is not None for each in seen))
        return function(logits, bias, targets)

    monkeypatch.setattr(cpu_vocabulary_loss, "loss_and_gradient", scored)
    monkeypatch.setattr(vocabulary_loss, "CHUNK_LOGITS", 3 * 40)
    rows, embedding, bias = (torch.randn(shape).requires_grad_() for shape in ((9, 8), (40, 8), 40))
    language_model_loss(rows, embedding, bias, torch.arange(9))
    assert living == [1, 1, 1]
    assert not any(each() is not None for each in seen)


@pytest.mark.parametrize("target", [-1, 40, 2**40])
def test_a_target_that_is_no_word_is_refused(target):
    with pytest.raises(ValueError, match="0 to 39; found"):
        loss_and_gradient(torch.zeros(2, 40), torch.zeros(40), torch.tensor([0, target]))


def test_what_it_does_not_take_is_left_to_the_definition():
    logits, bias, targets = drawn(torch.float32, 5, 40)
    assert suits(logits, bias, targets)
    assert not suits(logits.double(), bias, targets)
    assert not suits(logits.half(), bias, targets)
    assert not suits(logits.to("meta"), bias, targets)
    assert not suits(logits.T.contiguous().T, bias, targets)
    assert not suits(logits[:0], bias, targets[:0])
    assert not suits(logits, bias.double(), targets)
    assert not suits(logits, bias[:1], targets)
    assert not suits(logits, torch.cat([bias, bias]), targets)
    assert not suits(logits, bias, targets[:2])
    with without_native():
        assert not suits(logits, bias, targets)
