"""What a chunk's logits become operator by operator, beside float64, which is the definition."""

import pytest
import torch
from torch.nn import functional

from bertsmith.model import vocabulary_pieces
from bertsmith.model.vocabulary_pieces import loss, loss_and_gradient

ROWS = 37
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def inputs(num_words, dtype, num_rows=ROWS):
    generator = torch.Generator().manual_seed(num_words)
    logits = 4 * torch.randn(num_rows, num_words, generator=generator, dtype=torch.float64)
    bias = torch.randn(num_words, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, num_words, (num_rows,), generator=generator)
    targets[::2] = logits[::2].argmax(dim=1)  # or hardly one would be right
    return logits.to(dtype), bias.to(dtype), targets


def expected(logits, bias, targets):
    """By torch, in float64."""
    logits, bias = (each.double().clone().requires_grad_() for each in (logits, bias))
    scores = logits + bias
    total = functional.cross_entropy(scores, targets, reduction="sum")
    total.backward()
    return total.detach(), (scores.argmax(dim=1) == targets).sum(), logits.grad, bias.grad[None]


@pytest.mark.parametrize("rows_a_piece", [5, ROWS])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("num_words", [1, 2, 57, 127, 128, 129, 256, 1000])
def test_loss_guesses_and_gradients_are_those_of_the_definition(
    num_words, dtype, rows_a_piece, monkeypatch
):
    monkeypatch.setattr(vocabulary_pieces, "PIECE_LOGITS", rows_a_piece * num_words + 1)
    logits, bias, targets = inputs(num_words, dtype)
    total, correct, of_logits, of_bias = expected(logits, bias, targets)
    alone = loss(logits, bias, targets)
    found = loss_and_gradient(logits, bias, targets)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert found[0].dtype == found[2].dtype == wide
    assert logits.dtype == dtype
    assert torch.equal(found[0], alone[0])
    assert found[1] == alone[1] == correct
    near = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(found[0].double(), total, rtol=near, atol=near)
    torch.testing.assert_close(found[2].double(), of_bias, rtol=near, atol=near)
    rounded = near if dtype == torch.float64 else max(near, torch.finfo(dtype).eps)
    smallest = near if dtype == torch.float64 else 2e-7  # what is left of 1 in float32
    torch.testing.assert_close(logits.double(), of_logits, rtol=rounded, atol=smallest)


@pytest.mark.parametrize("num_words", [1, 57, 127, 128, 129, 255, 256, 300, 1000])
def test_of_equal_scores_the_first_is_the_guess(num_words):
    """Of few values, so that the highest stands in groups, and behind them, again and again."""
    generator = torch.Generator().manual_seed(num_words)
    for highest in (1, 3, 200):
        scores = torch.randint(0, highest + 1, (ROWS, num_words), generator=generator).float()
        values, places = vocabulary_pieces._first_of_highest(scores)
        assert torch.equal(values, scores.amax(dim=1, keepdim=True))
        first = [row.index(max(row)) for row in scores.tolist()]
        assert places[:, 0].tolist() == first


@pytest.mark.parametrize("place", [0, 127, 128, 255, 256, 299])
def test_the_highest_is_found_wherever_it_stands(place):
    scores = torch.zeros(2, 300)
    scores[:, place] = 1.0
    values, places = vocabulary_pieces._first_of_highest(scores)
    assert values.tolist() == [[1.0], [1.0]]
    assert places.tolist() == [[place], [place]]


def test_a_word_that_is_all_but_impossible_has_its_loss():
    """Its probability vanishes in float32; its loss and gradient do not."""
    logits = torch.zeros(1, 300)
    logits[0, 7] = -500.0
    total, _, _ = loss_and_gradient(logits, torch.zeros(300), torch.tensor([7]))
    torch.testing.assert_close(total, 500.0 + torch.log(torch.tensor(299.0)))
    assert logits[0, 7] == -1.0


def test_a_word_that_is_all_but_certain_keeps_a_gradient():
    """A rounded probability of 1 less 1 would leave nothing."""
    logits = torch.zeros(1, 300, dtype=torch.bfloat16)
    logits[0, 7] = 14.0
    loss_and_gradient(logits, torch.zeros(300), torch.tensor([7]))
    rest = 299 * torch.exp(torch.tensor(-14.0))
    torch.testing.assert_close(logits[0, 7].float(), -rest / (1 + rest), rtol=1e-2, atol=0.0)


@pytest.mark.parametrize("place", [130, 290])
def test_what_is_no_number_stays_none(place):
    """In a group, and behind them."""
    logits = torch.zeros(2, 300)
    logits[1, place] = torch.nan
    total, _, _ = loss_and_gradient(logits, torch.zeros(300), torch.tensor([7, 7]))
    assert total.isnan()
    assert logits[1].isnan().all()
    assert not logits[0].isnan().any()


@pytest.mark.parametrize("num_words", [57, 256, 300])
def test_no_rows_have_no_loss(num_words):
    logits, bias, targets = inputs(num_words, torch.float32, num_rows=0)
    total, correct, of_bias = loss_and_gradient(logits, bias, targets)
    assert total == correct == 0
    assert torch.equal(of_bias, torch.zeros(1, num_words))
