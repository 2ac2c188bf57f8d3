"""Which batch may go through graphs of layers, in whose place layers double what they read.

Needs torch, numpy and pytest only.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from bertsmith.model import gpu_graphs, gpu_layer, gpu_turns
from bertsmith.model.gpu_turns import Graphs
from tests.model.several_layers import layers_of, learning_of, stream_of


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


@pytest.fixture
def _not_told_yet() -> None:
    gpu_turns._warn_once.cache_clear()


@pytest.mark.usefixtures("_layers_double", "_not_told_yet")
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
        monkeypatch.setattr(gpu_turns, "MOST_PAIRS", 2)
        graphs = Graphs(learning_of(layers_of(64)))
        for length in (5, 7, 5, 9):
            with torch.no_grad():
                graphs.through(torch.randn(length, 64), stream_of([length]), None)
        assert [size.num_rows for size in graphs._pairs] == [5, 9]

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

    def test_graphs_that_hold_a_batch_do_not_give_way(self) -> None:
        graphs = Graphs(learning_of(layers_of(64)))
        states = graphs.through(torch.randn(5, 64, requires_grad=True), stream_of([5]), None)
        (pair,) = graphs._pairs.values()
        pair._graphs = [None]  # as if it had been captured
        graphs.give_way()
        assert pair.has_graphs
        pair.forget()
        states.sum().backward(retain_graph=True)
        graphs.give_way()
        states.sum().backward(retain_graph=True)  # by hand, so nothing was lost
        pair._graphs = [None]
        graphs.give_way()
        assert not pair.has_graphs
        with pytest.raises(RuntimeError, match="read another batch since"):
            states.sum().backward()

    def test_who_gives_way_waits_for_its_own_stream_alone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waited: list[int] = []

        class Stream:
            """In place of one of a GPU."""

            cuda_stream = 0

            def synchronize(self) -> None:
                waited.append(self.cuda_stream)

        stream = Stream()
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
        monkeypatch.setattr(torch.cuda, "synchronize", None)  # would end another thread's capture
        graphs = Graphs(learning_of(layers_of(64)))
        with torch.no_grad():
            graphs.through(torch.randn(5, 64), stream_of([5]), None)
            graphs._room.device = torch.device("cuda")
            graphs.through(torch.randn(5, 64), stream_of([5]), None)
        (pair,) = graphs._pairs.values()
        for has_graphs in (False, True):
            assert not waited
            pair._graphs = [None] * has_graphs  # as if it had been captured
            graphs.give_way()
            assert not pair.has_graphs
        assert waited == [0]

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
        assert caplog.messages == ["warning: no CUDA graphs from here on: no graph here"]

    @pytest.mark.parametrize(("num_batches", "are_worth_it"), [(1, False), (3, False), (5, True)])
    def test_graphs_that_are_not_replayed_often_enough_are_given_up(
        self, num_batches: int, are_worth_it: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Four sizes, of each so many batches, and then one that is too large; again and again."""

        class Replayed:
            def replay(self) -> None:
                pass

        monkeypatch.setattr(gpu_graphs, "captured", lambda *given: Replayed())
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
        graphs = Graphs(learning_of(layers_of(64)))
        graphs._captures = True
        for _ in range(3):
            for length in (5, 7, 9, 11):
                for _ in range(num_batches):
                    with torch.no_grad():
                        graphs.through(torch.randn(length, 64), stream_of([length]), None)
            graphs.give_way()
        assert graphs._captures is are_worth_it

    def test_none_is_captured_where_a_step_would_not_fit_beside_it(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        asked: list[int] = []
        monkeypatch.setattr(gpu_graphs, "captured", None)
        monkeypatch.setattr(gpu_turns, "has_room", lambda device, count: bool(asked.append(count)))
        graphs = Graphs(learning_of(layers_of(64)))
        graphs._captures = True
        for _ in range(3):
            states = graphs.through(torch.randn(5, 64, requires_grad=True), stream_of([5]), None)
            states.sum().backward()
        assert asked == [3 * 5 * 64 * 4], "what three layers keep, of numbers of four bytes"
        [message] = caplog.messages
        assert message.startswith("warning: no CUDA graphs from here on: a step without them")

    def test_what_the_pool_has_already_is_asked_for_too(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[int] = []
        reserved = iter([100, 130, 130, 150])
        monkeypatch.setattr(gpu_graphs, "captured", lambda *given: None)
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
        monkeypatch.setattr(gpu_turns, "reserved_bytes", lambda device: next(reserved))
        monkeypatch.setattr(
            gpu_turns, "has_room", lambda device, count: asked.append(count) is None
        )
        graphs = Graphs(learning_of(layers_of(64)))
        for length in (5, 7):
            states = graphs.through(
                torch.randn(length, 64).requires_grad_(), stream_of([length]), None
            )
            states.sum().backward()
        for pair in list(graphs._pairs.values()):
            graphs._capture(pair)
        assert asked == [3 * 5 * 64 * 4, 30 + 3 * 7 * 64 * 4]
        assert graphs._pool_bytes == 50

    @pytest.mark.parametrize("in_the_way", ["forward", "backward"])
    def test_who_finds_no_memory_gets_that_of_graphs(
        self, in_the_way: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        graphs = Graphs(learning_of(layers_of(64)))
        with torch.no_grad():
            graphs.through(torch.randn(7, 64), stream_of([7]), None)
        (captured,) = graphs._pairs.values()
        captured._graphs = [None]  # as if it had been
        by_hand = getattr(gpu_layer, in_the_way)

        def short(*given: Any) -> Any:
            if captured.has_graphs:
                raise torch.OutOfMemoryError("no memory")
            return by_hand(*given)

        monkeypatch.setattr(gpu_layer, in_the_way, short)
        hidden = torch.randn(5, 64, requires_grad=True)
        states = graphs.through(hidden, stream_of([5]), None)
        assert torch.equal(states, 8 * hidden)
        states.sum().backward()
        assert torch.equal(hidden.grad, torch.full_like(hidden, 8.0))
        assert not captured.has_graphs
        [message] = caplog.messages
        assert message.endswith("from here on: the memory that they held was needed")
        monkeypatch.setattr(captured, "_graphs", [])

        def never(*given: Any) -> Any:
            raise torch.OutOfMemoryError("no memory at all")

        monkeypatch.setattr(gpu_layer, "forward", never)
        with pytest.raises(torch.OutOfMemoryError, match="at all"):
            graphs.through(hidden, stream_of([5]), None)
