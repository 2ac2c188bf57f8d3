from dataclasses import replace

import pytest
import torch

from bertsmith.model.config import sized
from bertsmith.model.embeddings import Embeddings, Table, summed_by_id
from bertsmith.model.init import initialise
from bertsmith.model.stream import Stream
from tests.model.plain import random_packed


def test_the_input_is_the_normalised_sum_of_token_segment_and_position():
    config = replace(sized(1, 32, 4), vocab_size=60, max_position_embeddings=64)
    embeddings = Embeddings(config).double()
    initialise(embeddings, std=0.2, seed=1)
    packed = random_packed([6, 9], 60)
    rows = [
        embeddings.token.weight[packed.token_ids[row]]
        + embeddings.segment.weight[packed.segment_ids[row]]
        + embeddings.position.weight[packed.positions[row]]
        for row in range(15)
    ]
    expected = torch.nn.functional.layer_norm(torch.stack(rows), (32,), eps=1e-12)
    torch.testing.assert_close(embeddings(Stream.of(packed)), expected)


def test_the_gradient_is_that_of_an_ordinary_embedding():
    table = Table(7, 3).double()
    torch.nn.init.normal_(table.weight)
    ids, weights = torch.tensor([1, 5, 1, 1, 0]), torch.randn(5, 3, dtype=torch.float64)
    (table(ids) * weights).sum().backward()
    plain = table.weight.detach().clone().requires_grad_()
    (plain[ids] * weights).sum().backward()
    torch.testing.assert_close(table.weight.grad, plain.grad)


def test_a_frequent_rows_gradient_keeps_growing_in_bf16():
    table = Table(3, 4).to(torch.bfloat16)
    torch.nn.init.zeros_(table.weight)
    ids = torch.ones(3000, dtype=torch.long)
    table(ids).sum().backward()
    # Added one by one in bf16 the sum would stop at 256, where 256 + 1 rounds to 256.
    assert table.weight.grad[1].tolist() == [3008.0] * 4
    assert table.weight.grad[0].tolist() == [0.0] * 4


@pytest.mark.parametrize("num_ids", [2, 700])
def test_a_gpus_sums_are_those_of_an_ordinary_embedding(num_ids):
    generator = torch.Generator().manual_seed(num_ids)
    ids = torch.randint(num_ids, (900,), generator=generator)
    rows = torch.randn(900, 5, generator=generator, dtype=torch.float64)
    expected = torch.zeros(num_ids, 5, dtype=torch.float64).index_add_(0, ids, rows)
    torch.testing.assert_close(summed_by_id(rows, ids, num_ids), expected)
