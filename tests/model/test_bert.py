from dataclasses import replace

import pytest
import torch

from bertsmith.model.bert import Bert
from bertsmith.model.config import sized
from bertsmith.model.init import initialise
from bertsmith.model.stream import Stream
from tests.model.plain import random_packed


@pytest.mark.parametrize(
    ("layer_kind", "direction"),
    [
        ("transformer", "bidirectional"),
        ("transformer", "left_to_right"),
        ("transformer", "two_way"),
        ("lstm", "left_to_right"),
        ("lstm", "right_to_left"),
        ("lstm", "two_way"),
    ],
)
@pytest.mark.parametrize("dropout", [None, (1, 7)])
@pytest.mark.parametrize("is_rounded", [False, True])
def test_rows_asked_for_alone_are_those_among_all_in_values_and_gradients(
    layer_kind, direction, dropout, is_rounded
):
    config = replace(sized(2, 32, 4), vocab_size=60, max_position_embeddings=64)
    config = replace(config, layer_kind=layer_kind, direction=direction)
    bert = Bert(config, with_pooler=False)
    initialise(bert, std=0.2, seed=3)
    bert.double()
    packed = random_packed([5, 30, 1, 17], 60)
    rows = torch.tensor([3, 4, 20, 35, 51, 0, 5, *range(6, 32)])  # 33: 34 in a round number
    weights = torch.randn(len(rows), 32, dtype=torch.float64)

    among_all = bert(Stream.of(packed, dropout=dropout))[rows]
    (among_all * weights).sum().backward()
    expected = {name: p.grad.clone() for name, p in bert.named_parameters()}
    bert.zero_grad()
    alone = bert(Stream.of(packed, dropout=dropout, is_rounded=is_rounded), rows)
    (alone * weights).sum().backward()

    torch.testing.assert_close(alone, among_all, rtol=1e-12, atol=1e-12)
    for name, parameter in bert.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-12, atol=1e-12, msg=name)
