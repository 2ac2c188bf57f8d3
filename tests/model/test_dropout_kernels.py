import pytest

from tests.model.draws import PROBABILITIES
from tests.model.triton_kernels import interpreted

pytest.importorskip("triton")


def test_draws_at_the_bound_are_those_of_the_definition():
    """A GPU's kernels fold words and columns apart, and a draw by the bound."""
    found = interpreted("tests.model.interpreted_draws")
    assert len(found) == len(PROBABILITIES)
    for by_rows, by_columns, rarer in found:
        assert (by_rows, by_columns) == (0.0, 0.0)
        assert rarer > 0.0  # kept and dropped are both among them
