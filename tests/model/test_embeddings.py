from dataclasses import replace

import pytest
import torch

from bertsmith.model.config import sized
from bertsmith.model.embeddings import Embeddings, Table
from bertsmith.model.gpu_embeddings import summed_by_id
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("num_parts", [1, 3])
def test_a_sparse_gradient_is_the_one_that_is_not(dtype, is_tied, num_parts):
    found = []
    for is_sparse in (False, True):
        torch.manual_seed(0)
        table = Table(50, 3).to(dtype)
        torch.nn.init.normal_(table.weight)
        table.leaves_sparse_gradients = is_sparse
        if num_parts > 1:  # as for micro-batches, whose sum is kept in float32
            table.weight.grad_dtype = torch.promote_types(dtype, torch.float32)
        for _ in range(num_parts):
            rows = table(torch.randint(50, (20,)))
            scores = rows @ table.weight.T if is_tied else rows
            (scores * torch.randn(scores.shape, dtype=dtype)).sum().backward()
        gradient = table.weight.grad
        assert gradient.is_sparse == (is_sparse and not is_tied)
        found.append(gradient.to_dense())
    assert found[0].dtype == found[1].dtype
    assert torch.equal(*found)


def test_looked_up_rows_are_gradients_in_order_and_once():
    table = Table(50, 3)
    torch.nn.init.normal_(table.weight)
    table.leaves_sparse_gradients = True
    table(torch.tensor([7, 3, 7, 49])).sum().backward()
    assert table.weight.grad._indices().tolist() == [[3, 7, 49]]
    assert table.weight.grad._values().tolist() == [[1.0] * 3, [2.0] * 3, [1.0] * 3]


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
