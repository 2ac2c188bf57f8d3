"""What there is room for beside CUDA graphs."""

from __future__ import annotations

import pytest
import torch

from bertsmith.model import cpu_training_layers, gpu_layers, gpu_room, gpu_turns
from bertsmith.model.gpu_graphs import Pair, Size
from bertsmith.model.gpu_turns import Graphs
from bertsmith.model.layer import in_turn
from tests.model.several_layers import layers_of, stream_of

SMALL = Size.of(stream_of([5, 4]), None, is_learning=True)


def test_room_is_what_is_free_beside_the_most_that_was_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = torch.device("cuda")
    figures = {"mem_get_info": (30, 100), "memory_reserved": 50, "max_memory_allocated": 40}
    for name, figure in figures.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, figure=figure: figure)
    assert [gpu_room.has_room(device, count) for count in (0, 36, 37)] == [True, True, False]
    assert gpu_room.has_room(torch.device("cpu"), 10**15)


def test_bytes_of_one_place_are_counted_once() -> None:
    tensor, other = torch.zeros(10), torch.zeros(3, dtype=torch.float64)
    assert gpu_room.bytes_of([[tensor, None, other], [tensor.view(2, 5), tensor[3:]]]) == 40 + 24


def test_a_batch_that_is_too_large_is_read_without_the_memory_of_graphs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cpu_training_layers, "may_suit", lambda *_: False)  # as elsewhere than here
    monkeypatch.setattr(gpu_layers, "may_suit", lambda hidden: True)
    monkeypatch.setattr(gpu_layers, "suits", lambda layers, hidden: True)
    monkeypatch.setattr(gpu_layers, "MOST_STATES", 10 * 64)
    monkeypatch.setattr(gpu_layers, "layer_by_layer", lambda layers, hidden, *given: hidden)
    monkeypatch.setattr(Graphs, "through", lambda self, hidden, *given: hidden)
    gpu_turns._warn_once.cache_clear()
    layers = list(layers_of(64))
    in_turn(layers, torch.zeros(9, 64), stream_of([5, 4]))
    graphs = layers[0]._graphs
    assert isinstance(graphs, Graphs)
    graphs._pairs[SMALL] = pair = Pair(graphs.layers, SMALL, graphs._room)
    graphs._captures = True
    for count, num_replays, are_left, may_be_captured in (
        (9, 0, True, True),
        (11, 0, False, True),  # it had none
        (11, 4, False, True),
        (11, 3, False, False),
    ):
        pair._graphs = [None] if num_replays or are_left else []  # as if it had been captured
        graphs._num_replays = num_replays
        in_turn(layers, torch.zeros(count, 64), stream_of([5, count - 5]))
        assert pair.has_graphs is are_left
        assert graphs._captures is may_be_captured
        assert layers[0]._graphs is graphs
    [message] = caplog.messages
    assert message.endswith("batches that are too large for them come too often")
