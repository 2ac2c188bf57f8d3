"""Whether weights are those that they were, whatever memory others lie in."""

import torch
from torch import nn

from bertsmith.model.origins import Origins


def test_weights_that_come_to_lie_where_others_were_are_no_longer_those():
    linear = nn.Linear(64, 192)
    origins = Origins([(linear, "weight")])
    assert origins.are_here()
    for _ in range(100):  # the block let go of last is the first to be given
        linear.weight.data = torch.zeros(192, 64)
        assert not origins.are_here()
