"""Layers of a GPU by CUDA graphs: which batch may go, and on a GPU the numbers of layer by layer.

What is filled up is tested by `interpreted_layer`. Needs torch, numpy and pytest only.
"""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bertsmith.model import gpu_layers, gpu_turns
from bertsmith.model.layers import in_turn
from tests.model.several_layers import layers_of, learning_of, stream_of


@pytest.mark.parametrize(
    ("count", "length", "width", "are_few"),
    [
        (512, 128, 768, True),  # whole, and a round number of rows
        (514, 128, 768, False),
        (512, 128, 1024, True),
        (1024, 128, 768, False),
        (85, 514, 768, True),  # 43,690 rows, filled up to 45,056
        (1, 43_690, 768, True),
        (1, 43_691, 768, False),
        (256, 128, 1024, True),
        (32, 40, 768, True),
    ],
)
def test_large_batches_take_graphs_only_where_none_has_to_be_filled_up(
    count: int, length: int, width: int, are_few: bool
) -> None:
    stream = stream_of([length] * count)
    hidden = torch.empty(count * length, width, device="meta", dtype=torch.bfloat16)
    assert gpu_layers.are_few(hidden, stream) is are_few
    uneven = stream_of([length - 1, length + 1, *[length] * (count - 2)] if count > 1 else [length])
    is_filled_up = hidden.numel() <= gpu_layers.MOST_STATES
    assert gpu_layers.are_few(hidden, uneven) is is_filled_up


def moved(layers: nn.ModuleList) -> nn.ModuleList:
    layers = layers.to("cuda", torch.bfloat16)
    for name, parameter in layers.named_parameters():
        if "norm" in name:
            parameter.data = parameter.data.float()
    return layers


def outcome(
    layers: nn.ModuleList, lengths: list[int], step: int, *, is_asked: bool
) -> list[Tensor]:
    """States, and the gradients of hidden states and of all that learns."""
    stream = stream_of(lengths, step, "cuda")
    generator = torch.Generator().manual_seed(step)
    hidden = torch.randn(stream.num_tokens, 192, generator=generator).to("cuda", torch.bfloat16)
    hidden.requires_grad_()
    rows = stream.first_rows.flip(0) if is_asked else None
    layers.zero_grad(set_to_none=True)
    states = in_turn(list(layers), hidden, stream, rows)
    weights = torch.randn(states.shape, generator=generator).to(states)
    (states * weights).sum().backward()
    return [states.detach(), hidden.grad, *(each.grad for each in layers.parameters())]


def assert_near(found: list[Tensor], expected: list[Tensor]) -> None:
    for other, one in zip(found, expected, strict=True):
        error = (other.double() - one.double()).norm()
        # The same kernels; products of other sizes may add up in another order.
        assert error <= 4 * torch.finfo(torch.bfloat16).eps * one.double().norm() + 1e-3


@pytest.mark.gpu
@pytest.mark.compiled
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
class TestOnAGpu:
    @pytest.mark.parametrize("is_asked", [False, True])
    def test_graphs_give_what_layers_give(
        self, is_asked: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        layers = moved(layers_of(192))
        batches = [[40, 5, 64, 1] * 4, [40, 5, 64, 3] * 4, [130, 7], [64] * 70, [150, 1]]
        with monkeypatch.context() as without:
            without.setattr(gpu_layers, "MOST_STATES", 0)
            without.setattr(gpu_layers, "MOST_WHOLE_STATES", 0)
            expected = [
                outcome(layers, each, step, is_asked=is_asked) for step, each in enumerate(batches)
            ]
        for _ in range(3):  # by hand, captured, replayed
            found = [
                outcome(layers, each, step, is_asked=is_asked) for step, each in enumerate(batches)
            ]
            for one, other in zip(expected, found, strict=True):
                assert_near(other, one)
        graphs = layers[0].graphs
        assert graphs is not None
        assert all(len(pair._graphs) == 2 for pair in graphs._pairs.values())
        again = [
            outcome(layers, each, step, is_asked=is_asked) for step, each in enumerate(batches)
        ]
        for one, other in zip(found, again, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))

    def test_they_give_way_to_a_large_batch_and_are_captured_anew(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        layers = moved(layers_of(192))
        before = [outcome(layers, [40, 5], 1, is_asked=False) for _ in range(6)][-1]
        graphs = layers[0].graphs
        with monkeypatch.context() as large:
            large.setattr(gpu_layers, "MOST_STATES", 0)
            large.setattr(gpu_layers, "MOST_WHOLE_STATES", 0)
            outcome(layers, [130, 7], 2, is_asked=False)  # behind a replay that may not have ended
        assert layers[0].graphs is graphs
        assert not any(pair.has_graphs for pair in graphs._pairs.values())
        for _ in range(2):
            after = outcome(layers, [40, 5], 1, is_asked=False)
            assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
        assert all(pair.has_graphs for pair in graphs._pairs.values())

    def test_answers_do_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        layers = moved(layers_of(192))
        for lengths in ([40, 5, 64, 1], [300, 20], [1]):
            stream = replace(stream_of(lengths, 1, "cuda"), row_keys=None)
            for number in range(4):
                hidden = torch.randn(stream.num_tokens, 192, device="cuda", dtype=torch.bfloat16)
                with torch.inference_mode():
                    found = in_turn(list(layers), hidden, stream)
                    by_layer = gpu_layers.layer_by_layer(learning_of(layers), hidden, stream, None)
                assert_near([found], [by_layer])
                if number == 0:
                    first, expected = found, found.clone()
            assert torch.equal(first, expected)
        assert all(pair.has_graphs for pair in layers[0].graphs._pairs.values())

    def test_sums_of_two_batches_and_of_one_computed_anew(self) -> None:
        layers = list(moved(layers_of(192)))
        stream = stream_of([40, 5, 64, 1], 1, "cuda")
        hidden = torch.randn(stream.num_tokens, 192, device="cuda", dtype=torch.bfloat16)

        def gradient(*, is_anew: bool) -> Tensor:
            inputs = hidden.clone().requires_grad_()
            if is_anew:
                found = checkpoint(in_turn, layers, inputs, stream, use_reentrant=False)
            else:
                found = in_turn(layers, inputs, stream)
            (found + in_turn(layers, 2 * inputs, stream)).square().sum().backward()
            assert inputs.grad is not None
            return inputs.grad

        for _ in range(3):
            assert_near([gradient(is_anew=True)], [gradient(is_anew=False)])

    def test_two_ways_back_and_sums_of_batches(self) -> None:
        layers = moved(layers_of(192))
        weight = layers[1].feed_forward.up.weight
        stream = stream_of([40, 5, 64, 1], 1, "cuda")
        hidden = torch.randn(stream.num_tokens, 192, device="cuda", dtype=torch.bfloat16)
        found = []
        for _ in range(4):  # by hand, captured, replayed
            weight.grad = None
            inputs = hidden.clone().requires_grad_()
            states = in_turn(list(layers), inputs, stream)
            states.square().sum().backward(retain_graph=True)
            one, first = weight.grad.clone(), inputs.grad.clone()
            states.square().sum().backward()
            assert torch.equal(inputs.grad, 2 * first)
            assert_near([weight.grad], [2 * one])
            in_turn(list(layers), inputs, stream).square().sum().backward()
            assert_near([weight.grad], [3 * one])
            with torch.no_grad():
                weight.mul_(1.01)
            found.append(one)
        assert layers[0].graphs._pairs.popitem()[1].has_graphs
        assert not torch.equal(found[2], found[3]), "weights that learned are read anew"

    def test_other_streams_and_the_users_own_capture_go_layer_by_layer(self) -> None:
        layers = list(moved(layers_of(192)))
        stream = stream_of([40, 5, 64, 1], 1, "cuda")
        hidden = torch.randn(stream.num_tokens, 192, device="cuda", dtype=torch.bfloat16)
        with torch.no_grad():
            expected = [in_turn(layers, hidden, stream) for _ in range(3)][-1]
            side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                assert_near([in_turn(layers, hidden, stream)], [expected])
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(graph):
                found = in_turn(layers, hidden, stream)
            graph.replay()
            assert_near([found], [expected])

    def test_a_replay_never_waits_for_the_gpu(self) -> None:
        layers = moved(layers_of(192))
        for step in range(3):
            outcome(layers, [40, 5, 64, 1], step, is_asked=True)
        stream = stream_of([40, 5, 64, 1], 9, "cuda")
        hidden = torch.randn(110, 192, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        try:
            torch.cuda.set_sync_debug_mode("error")
            in_turn(list(layers), hidden, stream, stream.first_rows).sum().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert hidden.grad is not None
        assert layers[0].graphs._pairs.popitem()[1].has_graphs

    def test_sizes_come_and_go(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu_turns, "MOST_PAIRS", 1)
        layers = list(moved(layers_of(192)))
        for length in (5, 5, 5, 40, 40, 5, 5):
            stream = stream_of([length], 1, "cuda")
            hidden = torch.randn(length, 192, device="cuda", dtype=torch.bfloat16)
            with torch.no_grad():
                found = in_turn(layers, hidden, stream)
                by_layer = gpu_layers.layer_by_layer(
                    learning_of(nn.ModuleList(layers)), hidden, stream, None
                )
            assert_near([found], [by_layer])

    def test_their_memory_is_given_back(self) -> None:
        def used() -> int:
            gc.collect()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            return torch.cuda.memory_reserved()

        layers = moved(layers_of(192))
        outcome(layers, [40, 5], 0, is_asked=False)
        del layers
        before = used()
        layers = moved(layers_of(192))
        for _ in range(3):
            outcome(layers, [40, 5, 64, 1] * 40, 1, is_asked=False)
        del layers
        assert used() <= before + 2**21  # of which the allocator takes one at a time
