"""Layers of a GPU by CUDA graphs: which batch may go, and on a GPU the numbers of layer by layer.

What is filled up is tested by `interpreted_layer`. Needs torch, numpy and pytest only.
"""

from __future__ import annotations

import copy
import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bertsmith.model import gpu_graphs, gpu_layer, gpu_layers
from bertsmith.model.config import sized
from bertsmith.model.gpu_graphs import Size
from bertsmith.model.gpu_layers import Graphs
from bertsmith.model.init import initialise
from bertsmith.model.layer import Layer, in_turn
from bertsmith.model.layer_rules import LearningLayer
from bertsmith.model.stream import Stream
from tests.model.plain import random_packed


def layers_of(width: int, count: int = 3) -> nn.ModuleList:
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config = replace(sized(count, width, width // 64 or 1), **rates)
    layers = nn.ModuleList(Layer(config, number) for number in range(count))
    initialise(layers, std=0.05, seed=3)
    return layers


def learning_of(layers: nn.ModuleList) -> list[LearningLayer]:
    return [whole for each in layers if isinstance(each, Layer) and (whole := each.learning())]


def stream_of(lengths: list[int], step: int = 0, device: str = "cpu") -> Stream:
    return Stream.of(random_packed(lengths, 60), device=device, dropout=(5, step))


class TestSizes:
    @pytest.mark.parametrize("lengths", [[1], [128] * 100, [3, 500, 70], [64] * 17, [65]])
    @pytest.mark.parametrize("num_asked", [None, 1, 33, 1000])
    def test_they_hold_the_batch_and_are_few(
        self, lengths: list[int], num_asked: int | None
    ) -> None:
        rows = None if num_asked is None else torch.zeros(num_asked, dtype=torch.int64)
        size = Size.of(stream_of(lengths), rows, is_learning=True)
        num_tokens = sum(lengths)
        assert num_tokens <= size.num_rows <= num_tokens * 17 / 16 + 1
        num_fillers = -(-(size.num_rows - num_tokens) // 64)
        assert size.num_sequences >= max(16, len(lengths) + num_fillers)
        assert size.num_sequences.bit_count() == 1
        assert size.longest >= max(lengths)
        assert size.longest == 64 or size.longest % 128 == 0
        assert (size.num_asked is None) == (num_asked is None)
        assert num_asked is None or num_asked <= size.num_asked <= num_asked * 17 / 16 + 1

    def test_one_is_for_batches_that_differ_a_little(self) -> None:
        rows = torch.zeros(32, dtype=torch.int64)
        rng = np.random.default_rng(0)
        sizes = {
            Size.of(stream_of(rng.integers(20, 60, 32).tolist()), rows, is_learning=True)
            for _ in range(100)
        }
        assert len(sizes) < 12


@pytest.fixture
def _layers_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of a GPU's layer: states are doubled, and so are gradients."""

    def forward(hidden: Tensor, *given: Any) -> tuple[Tensor, list[Any]]:
        rows = given[1]
        return 2 * (hidden if rows is None else hidden[rows]), [hidden.clone()]

    def backward(gradient: Tensor, kept: Any, *given: Any) -> tuple[Tensor, list[Tensor]]:
        weights = given[1]
        total = kept[0].sum()
        return 2 * gradient, [torch.full_like(each, total) for each in weights]

    monkeypatch.setattr(gpu_layer, "forward", forward)
    monkeypatch.setattr(gpu_layer, "backward", backward)


@pytest.mark.usefixtures("_layers_double")
class TestTurns:
    def test_one_batch_after_the_other(self) -> None:
        layers = layers_of(64)
        graphs = Graphs(learning_of(layers))
        for number, lengths in enumerate(([5, 3], [7], [5, 3])):
            hidden = torch.randn(sum(lengths), 64, requires_grad=True)
            states = graphs.through(hidden, stream_of(lengths), None)
            assert states is not None
            assert torch.equal(states, 8 * hidden)
            states.sum().backward()
            assert torch.equal(hidden.grad, torch.full_like(hidden, 8.0))
            bias = layers[1].attention.qkv.bias
            torch.testing.assert_close(bias.grad[0], 2 * hidden.sum())
            bias.grad = None
            assert len(graphs._pairs) == min(number + 1, 2)

    def test_who_comes_while_another_has_to_return_is_sent_away(self) -> None:
        graphs = Graphs(learning_of(layers_of(64)))
        hidden, stream = torch.randn(5, 64, requires_grad=True), stream_of([5])
        first = graphs.through(hidden, stream, None)
        assert graphs.through(hidden, stream, None) is None
        with torch.no_grad():
            assert graphs.through(hidden, stream, None) is None
        del first  # whoever drops it does not go back
        second = graphs.through(hidden, stream, None)
        assert second is not None
        second.sum().backward(retain_graph=True)
        second.sum().backward()  # as long as nobody else came
        assert torch.equal(hidden.grad, torch.full_like(hidden, 16.0))

    def test_going_back_after_another_went_forward_is_an_error(self) -> None:
        graphs = Graphs(learning_of(layers_of(64)))
        hidden, stream = torch.randn(5, 64, requires_grad=True), stream_of([5])
        first = graphs.through(hidden, stream, None)
        assert first is not None
        first.sum().backward(retain_graph=True)
        second = graphs.through(hidden, stream, None)
        assert second is not None
        with pytest.raises(RuntimeError, match=r"read another batch since|modified by an inplace"):
            first.sum().backward()

    def test_answers_take_turns_too(self) -> None:
        graphs = Graphs(learning_of(layers_of(64)))
        hidden, rows = torch.randn(9, 64), torch.tensor([8, 0])
        with torch.inference_mode():
            found = graphs.through(hidden, stream_of([5, 4]), rows)
        assert found is not None
        assert torch.equal(found, 8 * hidden[rows])
        with torch.no_grad():
            again = graphs.through(hidden.flip(0), stream_of([4, 5]), rows)
        assert torch.equal(found, 8 * hidden[rows]), "what was given stays"
        assert torch.equal(again, 8 * hidden.flip(0)[rows])

    def test_weights_that_changed_since_are_an_error(self) -> None:
        layers = layers_of(64)
        graphs = Graphs(learning_of(layers))
        states = graphs.through(torch.randn(5, 64, requires_grad=True), stream_of([5]), None)
        with torch.no_grad():
            layers[0].attention.qkv.bias.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            states.sum().backward()

    def test_the_oldest_size_is_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu_layers, "MOST_PAIRS", 2)
        graphs = Graphs(learning_of(layers_of(64)))
        for length in (5, 7, 5, 9):
            with torch.no_grad():
                graphs.through(torch.randn(length, 64), stream_of([length]), None)
        assert [size.num_rows for size in graphs._pairs] == [5, 9]

    def test_weights_elsewhere_and_other_rules_are_not_theirs(self) -> None:
        layers = layers_of(64)
        graphs = Graphs(learning_of(layers))
        assert graphs.are_of(learning_of(layers))
        layers[1].attention.dropout = layers[1].feed_forward.dropout = 0.2
        assert not graphs.are_of(learning_of(layers))
        layers[1].attention.dropout = layers[1].feed_forward.dropout = 0.1
        layers[2].feed_forward.up.weight.data = layers[2].feed_forward.up.weight.data.clone()
        assert not graphs.are_of(learning_of(layers))

    def test_who_was_moved_meanwhile_is_told(self) -> None:
        layers = layers_of(64)
        graphs = Graphs(learning_of(layers))
        states = graphs.through(torch.randn(5, 64, requires_grad=True), stream_of([5]), None)
        weight = layers[2].feed_forward.up.weight
        weight.data = weight.data.clone()
        with pytest.raises(RuntimeError, match="weights were moved"):
            states.sum().backward()

    def test_an_answer_ends_what_could_go_back_again(self) -> None:
        graphs = Graphs(learning_of(layers_of(64)))
        states = graphs.through(torch.randn(5, 64, requires_grad=True), stream_of([5]), None)
        states.sum().backward(retain_graph=True)
        with torch.no_grad():
            assert graphs.through(torch.randn(500, 64), stream_of([500]), None) is not None
        with pytest.raises(RuntimeError, match=r"read another batch since|modified by an inplace"):
            states.sum().backward()

    def test_what_was_captured_is_not_copied(self) -> None:
        layers = layers_of(64)
        layers[0]._graphs = Graphs(learning_of(layers))
        assert copy.deepcopy(layers)[0]._graphs is None

    def test_nothing_is_captured_before_all_of_it_ran_by_hand(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        tried: list[object] = []

        def captured(*given: object) -> None:
            tried.append(given)
            raise RuntimeError("no graph here")

        monkeypatch.setattr(gpu_graphs, "captured", captured)
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
        graphs = Graphs(learning_of(layers_of(64)))
        graphs._captures = True
        hidden = torch.randn(5, 64, requires_grad=True)
        for has_returned in (False, False, True):
            assert not tried
            states = graphs.through(hidden, stream_of([5]), None)
            assert states is not None
            if has_returned:
                states.sum().backward()
            del states
        for _ in range(2):  # tried once, and then by hand
            states = graphs.through(hidden, stream_of([5]), None)
            assert torch.equal(states, 8 * hidden)
            states.sum().backward()
        assert len(tried) == 1
        assert caplog.messages == ["warning: no CUDA graphs here: no graph here"]


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
        batches = [[40, 5, 64, 1] * 4, [40, 5, 64, 3] * 4, [130, 7], [40, 9, 60, 1] * 4, [150, 1]]
        with monkeypatch.context() as without:
            without.setattr(gpu_layers, "MOST_STATES", 0)
            without.setattr(gpu_layers, "MOST_ROUND_STATES", 0)
            expected = [
                outcome(layers, each, step, is_asked=is_asked) for step, each in enumerate(batches)
            ]
        for _ in range(3):  # by hand, captured, replayed
            found = [
                outcome(layers, each, step, is_asked=is_asked) for step, each in enumerate(batches)
            ]
            for one, other in zip(expected, found, strict=True):
                assert_near(other, one)
        graphs = layers[0]._graphs
        assert graphs is not None
        assert all(len(pair._graphs) == 2 for pair in graphs._pairs.values())
        again = [
            outcome(layers, each, step, is_asked=is_asked) for step, each in enumerate(batches)
        ]
        for one, other in zip(found, again, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))

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
        assert all(pair.has_graphs for pair in layers[0]._graphs._pairs.values())

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
        assert layers[0]._graphs._pairs.popitem()[1].has_graphs
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
        assert layers[0]._graphs._pairs.popitem()[1].has_graphs

    def test_sizes_come_and_go(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gpu_layers, "MOST_PAIRS", 1)
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
