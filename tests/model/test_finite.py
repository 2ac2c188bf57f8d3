import pytest
import torch

from bertsmith.model.finite import finite


def test_finite_numbers_pass_even_where_their_sum_is_none():
    largest = torch.full((4,), torch.finfo(torch.float32).max)
    assert finite(largest, "sums") is largest
    assert len(finite(torch.empty(0, 3), "nothing")) == 0


@pytest.mark.parametrize(
    ("value", "told"), [("nan", "NaN"), ("inf", "infinity"), ("-inf", "infinity")]
)
def test_a_number_that_is_not_finite_is_named(value, told):
    numbers = torch.tensor([[0.0, 1.0], [float(value), 2.0]])
    with pytest.raises(ValueError, match=f"model's sums are no finite numbers: found {told}"):
        finite(numbers, "sums")
    both = torch.tensor([float("inf"), float("-inf")])
    with pytest.raises(ValueError, match="found infinity"):
        finite(both, "sums")
