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


def test_parts_are_compared_by_what_they_are_and_settings_by_their_values():
    whole = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    origins = Origins([(whole[0], "weight")], wholes=[whole], settings=[(whole[1], "eps")])
    whole[1].eps = float(str(whole[1].eps))
    assert origins.are_here()
    whole[1].eps *= 2.0
    assert not origins.are_here()
    whole[1].eps /= 2.0
    norm, whole[1] = whole[1], nn.LayerNorm(2)
    assert not origins.are_here()
    whole[1] = norm
    assert origins.are_here()
