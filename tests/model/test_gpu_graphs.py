"""For what CUDA graphs are captured. What is filled up is tested by `interpreted_layer`."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from bertsmith.model import gpu_layers
from bertsmith.model.gpu_graphs import Size
from bertsmith.model.gpu_turns import Graphs
from bertsmith.model.layers import forget, in_turn, lay_out
from tests.model.several_layers import layers_of, learning_of, stream_of


@pytest.mark.parametrize("lengths", [[1], [128] * 100, [3, 500, 70], [64] * 17, [65]])
@pytest.mark.parametrize("num_asked", [None, 1, 33, 1000])
def test_they_hold_the_batch_and_are_few(lengths: list[int], num_asked: int | None) -> None:
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


def test_one_is_for_batches_that_differ_a_little() -> None:
    rows = torch.zeros(32, dtype=torch.int64)
    rng = np.random.default_rng(0)
    sizes = {
        Size.of(stream_of(rng.integers(20, 60, 32).tolist()), rows, is_learning=True)
        for _ in range(100)
    }
    assert len(sizes) < 12


def test_weights_elsewhere_and_other_rules_are_not_theirs() -> None:
    layers = layers_of(64)
    graphs = Graphs(learning_of(layers))
    assert graphs.are_of(learning_of(layers))
    layers[1].attention.dropout = layers[1].feed_forward.dropout = 0.2
    assert not graphs.are_of(learning_of(layers))
    layers[1].attention.dropout = layers[1].feed_forward.dropout = 0.1
    layers[2].feed_forward.up.weight.data = layers[2].feed_forward.up.weight.data.clone()
    assert not graphs.are_of(learning_of(layers))


def test_another_weight_in_the_same_place_is_not_theirs() -> None:
    layers = layers_of(64)
    graphs = Graphs(learning_of(layers))
    qkv = layers[1].attention.qkv
    qkv.weight = nn.Parameter(qkv.weight.detach())  # as `functional_call` may do
    assert not graphs.are_of(learning_of(layers)), "its gradient would go to the one before"


def test_what_was_captured_is_not_copied() -> None:
    layers = layers_of(64)
    layers[0].graphs = Graphs(learning_of(layers))
    assert copy.deepcopy(layers)[0].graphs is None


@pytest.mark.parametrize("leave", [nn.Module.cpu, nn.Module.float, forget, lay_out])
def test_what_was_captured_ends_where_layers_are_moved_or_forgotten(
    leave: Callable[[nn.Module], object],
) -> None:
    layers = layers_of(64)
    layers[0].graphs = Graphs(learning_of(layers))
    captured = weakref.ref(layers[0].graphs)
    leave(layers)
    assert captured() is None


@pytest.mark.parametrize("hooked", ["0", "1", "2.feed_forward.up"])
def test_what_was_captured_ends_where_somebody_hooks_into_a_layer(
    hooked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = layers_of(64)
    layers[0].graphs = graphs = Graphs(learning_of(layers))
    layers.get_submodule(hooked).register_forward_hook(lambda *given: None)
    in_turn(list(layers), torch.zeros(9, 64), stream_of([5, 4]))
    assert layers[0].graphs is graphs, "as while somebody else captures, who must not end a graph"
    monkeypatch.setattr(gpu_layers, "may_suit", lambda hidden: True)
    in_turn(list(layers), torch.zeros(9, 64), stream_of([5, 4]))
    assert layers[0].graphs is None
