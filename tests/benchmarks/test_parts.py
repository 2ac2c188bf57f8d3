from dataclasses import dataclass, field

import pytest
import torch
from torch.profiler import profile, record_function

from benchmarks import parts
from benchmarks.parts import ORDER, RANGES, parts_of, product_flops, ranges
from bertsmith.model import linear
from bertsmith.model.stream import Stream


@dataclass
class Event:
    name: str
    self_cpu_time_total: float = 0.0
    sequence_nr: int = -1
    input_shapes: list = field(default_factory=list)
    cpu_children: list = field(default_factory=list)


def node(name, number, *children):
    inner = Event(name, 1e6, number, cpu_children=list(children))
    return Event(f"autograd::engine::evaluate_function: {name}", 0.0, number, cpu_children=[inner])


def product(seconds, *shapes):
    name = "aten::addmm" if len(shapes) > 2 else "aten::mm"
    return Event(name, 1e6 * seconds, -1, list(shapes))


def seconds_of(*children):
    step = Event("the step", 3e6, cpu_children=list(children))
    return {name: part.seconds for name, part in parts_of(step).items() if part.seconds}


def test_every_range_names_a_function_and_a_part():
    for owner, name, part in RANGES:
        assert callable(getattr(owner, name))
        assert any(each == part or each.startswith(f"{part}, ") for each in ORDER)


def test_own_time_belongs_to_the_innermost_range_and_the_rest_to_other():
    inner = Event("part: GELU", 1e6, cpu_children=[Event("aten::gelu", 2e6)])
    outer = Event("part: embeddings", 4e6, cpu_children=[inner, Event("aten::add", 8e6)])
    assert seconds_of(outer) == {"GELU, forward": 3, "embeddings, forward": 12, "other": 3}


def test_a_backward_node_belongs_where_its_operator_was_called_last_of_those_with_its_number():
    seen = Event("part: GELU", 0.0, cpu_children=[Event("aten::empty", 0.0, 7)])
    made = Event("part: attention", 0.0, cpu_children=[Event("_Attention", 0.0, 7)])
    found = seconds_of(seen, made, node("_AttentionBackward", 7, Event("aten::sum", 1e6)))
    assert found == {"attention, backward": 2, "other": 3}


def test_our_own_gradients_of_weights_and_biases_are_one_part():
    made = Event("part: linear layers", 0.0, cpu_children=[Event("_Linear", 0.0, 5)])
    of_rows = Event("aten::matmul", 0.0, cpu_children=[product(4, [4, 3], [3, 2])])
    step = Event("the step", 0.0, cpu_children=[made, node("_LinearBackward", 5, of_rows)])
    of_rows, of_weights = (
        parts_of(step)[f"linear layers, {name} gradients"] for name in ("input", "weight")
    )
    assert (of_rows.seconds, of_weights.seconds) == (4, 1)
    assert of_rows.flops == of_weights.flops == 2 * 4 * 3 * 2


def test_a_linear_layers_gradients_are_told_apart_by_their_order():
    shapes = ([4, 2], [2, 3])
    made = Event(
        "part: linear layers", 0.0, cpu_children=[Event("aten::addmm", 0.0, 5, [[3], *shapes])]
    )
    backward = node("AddmmBackward0", 5, product(10, *shapes), product(20, *shapes))
    backward.cpu_children.append(Event("aten::sum", 40e6))
    found = parts_of(Event("the step", 0.0, cpu_children=[made, backward]))
    assert found["linear layers, input gradients"].seconds == 10
    assert found["linear layers, weight gradients"].seconds == 20
    assert found["linear layers, bias gradients"].seconds == 41
    for name in (", forward", ", input gradients", ", weight gradients"):
        assert found["linear layers" + name].flops == 2 * 4 * 2 * 3


def test_operations_of_products_follow_from_their_shapes():
    assert product_flops(Event("aten::mm", input_shapes=[[4, 5], [5, 6]])) == 2 * 4 * 5 * 6
    assert product_flops(Event("aten::addmm", input_shapes=[[6], [4, 5], [5, 6]])) == 2 * 4 * 5 * 6
    assert product_flops(Event("aten::bmm", input_shapes=[[3, 4, 5], [3, 5, 6]])) == 2 * 3 * 120
    assert product_flops(Event("aten::add", input_shapes=[[4, 5], [4, 5]])) == 0
    laid_out = Event("mkldnn::_linear_pointwise", input_shapes=[[4, 5], [6, 5], [6]])
    assert product_flops(laid_out) == 2 * 4 * 5 * 6


def test_ranges_are_laid_for_the_block_and_change_nothing():
    before = {(owner, name): vars(owner)[name] for owner, name, _ in RANGES}
    layer, rows = linear.Linear(3, 4), torch.ones(2, 3)
    expected = layer(rows)
    with ranges():
        assert torch.equal(layer(rows), expected)
        with profile() as profiler:
            layer(rows)
        assert "part: linear layers" in {event.name for event in profiler.events()}
        assert isinstance(vars(Stream)["of"], staticmethod)
    assert {(owner, name): vars(owner)[name] for owner, name, _ in RANGES} == before


def test_parts_add_up_to_a_profiled_step():
    layer = linear.Linear(64, 64)
    rows = torch.randn(32, 64, requires_grad=True)
    with ranges(), profile(record_shapes=True) as profiler, record_function("the step"):
        layer(rows).square().sum().backward()
    [step] = [event for event in profiler.events() if event.name == "the step"]
    found = parts_of(step)
    assert list(found) == list(ORDER)
    assert sum(part.seconds for part in found.values()) == pytest.approx(
        step.cpu_time_total / 1e6, rel=1e-6
    )
    once = 2 * 32 * 64 * 64
    for name in (", forward", ", input gradients", ", weight gradients"):
        assert found[parts.LINEAR + name].flops == once
        assert found[parts.LINEAR + name].seconds > 0
    assert found["other"].seconds > 0
