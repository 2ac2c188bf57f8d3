"""What there is room for beside CUDA graphs, and what their capture leaves, by a stand-in."""

from __future__ import annotations

import gc
from contextlib import nullcontext

import pytest
import torch

from bertsmith.model import cpu_training_layers, gpu_layers, gpu_room, gpu_turns
from bertsmith.model.gpu_graphs import Pair, Size
from bertsmith.model.gpu_turns import Graphs
from bertsmith.model.layers import in_turn
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
    graphs = layers[0].graphs
    assert isinstance(graphs, Graphs)
    graphs._pairs[SMALL] = pair = Pair(graphs.layers, SMALL, graphs._room)
    graphs._captures = True
    for count, are_there, num_ahead, are_left, may_be_captured in (
        (9, True, -1, True, True),
        (11, False, -1, False, True),
        (11, True, 0, False, True),
        (11, True, -1, False, False),
    ):
        pair._graphs = [None] * are_there  # as if it had been captured
        graphs._num_ahead = num_ahead
        in_turn(layers, torch.zeros(count, 64), stream_of([5, count - 5]))
        assert pair.has_graphs is are_left
        assert graphs._captures is may_be_captured
        assert layers[0].graphs is graphs
    [message] = caplog.messages
    assert message.endswith("batches that are too large for them come too often")


class Recorder:
    """In place of a graph, and of torch's allocator as far as it knows of one."""

    def __init__(self, failing: list[str], *, ends_what_fails: bool) -> None:
        self.failing = failing
        self.ends_what_fails = ends_what_fails  # as torch 2.13 does, and 2.11 does not
        self.is_captured_into = False
        self.num_holds = 0
        """On the pool, of captures that nobody has ended."""
        self.has_workspaces = True

    def capture_begin(self, pool: object, capture_error_mode: str) -> None:
        assert pool == (0, 1)
        assert capture_error_mode == "thread_local"
        self.is_captured_into, self.num_holds = True, 1

    def work(self) -> None:
        self.has_workspaces = True
        assert not gc.isenabled(), "or it could end another's graph here"
        self.fail("work")

    def capture_end(self) -> None:
        if "capture_end" not in self.failing or self.ends_what_fails:
            self.is_captured_into, self.num_holds = False, 0
        self.fail("capture_end")

    def end_allocating(self, index: int, pool: object) -> None:
        if not self.is_captured_into:
            raise RuntimeError("not currently recording")
        assert (index, pool) == (3, (0, 1))
        self.is_captured_into = False

    def clear_workspaces(self) -> None:
        self.has_workspaces = False

    def release(self, index: int, pool: object) -> None:
        assert (index, pool) == (3, (0, 1))
        self.num_holds -= 1

    def fail(self, here: str) -> None:
        if here in self.failing:
            raise RuntimeError(f"no {here}")


class Idle:
    """In place of a stream."""

    def wait_stream(self, other: object) -> None:
        pass


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Recorder:
    """By which `captured` captures."""
    failing, ends_what_fails = request.param
    recorder = Recorder(failing, ends_what_fails=ends_what_fails)
    for name, part in {
        "CUDAGraph": lambda: recorder,
        "current_stream": lambda device: Idle(),
        "stream": nullcontext,
        "current_device": lambda: 3,
        "current_blas_handle": lambda: 0,
    }.items():
        monkeypatch.setattr(torch.cuda, name, part)
    for name, function in {
        "_cuda_clearCublasWorkspaces": recorder.clear_workspaces,
        "_cuda_endAllocateToPool": recorder.end_allocating,
        "_cuda_releasePool": recorder.release,
    }.items():
        monkeypatch.setattr(torch._C, name, function, raising=False)
    monkeypatch.setattr(gpu_room, "_side", lambda device: Idle())
    return recorder


@pytest.mark.parametrize(
    "recorded",
    [
        (failing, ends_what_fails)
        for failing in ([], ["work"], ["capture_end"], ["work", "capture_end"])
        for ends_what_fails in (False, True)
    ],
    indirect=True,
)
@pytest.mark.parametrize("collects", [False, True])
def test_a_capture_leaves_all_as_it_was_also_where_it_fails(
    recorded: Recorder, collects: bool
) -> None:
    device, pool = torch.device("cuda", 3), torch.cuda._POOL_HANDLE((0, 1))
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(RuntimeError, match="no ") if recorded.failing else nullcontext():
            gpu_room.captured(device, pool, recorded.work)
        assert gc.isenabled() is collects
    finally:
        gc.enable()
    assert not recorded.is_captured_into
    assert recorded.num_holds == 0
    assert not recorded.has_workspaces
