"""A profiled training step on a CPU -> its parts: every event's own time belongs to exactly one.

`RANGES` is the table: around each of these functions of bertsmith lies a range of the profiler, and
what happens inside belongs to the range, the innermost one. What a backward pass does belongs to
the range of the forward operator that asked for it: autograd gives both one number. Where the loss
over the vocabulary makes its gradient beside itself, nearly all of it counts as forward. Own times
add up to the step; what lies in no range is `other`. It does not know what is trained.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from unittest import mock

from torch import Tensor
from torch.profiler import record_function

from bertsmith.data.labelled import TaskPlan
from bertsmith.data.plan import Plan
from bertsmith.model import (
    attention,
    cpu_linear,
    cpu_training_layers,
    feed_forward,
    float16,
    linear,
    objectives,
)
from bertsmith.model.embeddings import Embeddings
from bertsmith.model.heads import LanguageModelHead, TaskHead
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.model.task_model import TaskModel
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.updates import Updates

LINEAR, ATTENTION, NORM = "linear layers", "attention", "norm, residual, dropout"
LAYERS = "layers"
GELU, EMBEDDINGS, HEAD = "GELU", "embeddings", "head and loss"
DRAWING, LAYOUT = "data: drawing", "data: laid out as tensors"
GRADIENT_NORM, UPDATE = "optimizer: norm of the gradient", "optimizer: update"
OTHER = "other"

RANGES: tuple[tuple[object, str, str], ...] = (
    (Plan, "step", DRAWING),
    (TaskPlan, "step", DRAWING),
    (Stream, "of", LAYOUT),
    (Embeddings, "forward", EMBEDDINGS),
    (linear.Linear, "forward", LINEAR),
    (cpu_linear, "linear", LINEAR),
    (float16, "linear", LINEAR),
    (cpu_training_layers, "through", LAYERS),
    (attention, "attend", ATTENTION),
    (linear, "add_and_norm", NORM),
    (attention, "site_words", NORM),
    (feed_forward, "site_words", NORM),
    (linear, "activate", GELU),
    (LanguageModelHead, "transform", HEAD),
    (objectives, "language_model_loss", HEAD),
    (PretrainModel, "_next_sentence", HEAD),
    (TaskHead, "of_states", HEAD),
    (TaskModel, "losses", HEAD),
    (Updates, "squared_norm", GRADIENT_NORM),
    (Optimizer, "step", UPDATE),
    (Optimizer, "zero_grad", UPDATE),
)
"""A class or module, the function of it, and the part that what it does belongs to."""

_WITH_BACKWARD = (LINEAR, LAYERS, ATTENTION, NORM, GELU, EMBEDDINGS, HEAD)
FORWARD, BACKWARD = ", forward", ", backward"
_LINEAR_GRADIENTS = (", input gradients", ", weight gradients", ", bias gradients")
ORDER = (
    *(LINEAR + side for side in (FORWARD, *_LINEAR_GRADIENTS)),
    *(name + side for name in _WITH_BACKWARD[1:] for side in (FORWARD, BACKWARD)),
    GRADIENT_NORM, UPDATE, DRAWING, LAYOUT, OTHER,
)  # fmt: skip
"""Every part, in the order of tables; stages that functions tell come behind theirs."""

_MARK, _OWN_PRODUCT = "part: ", "product: "
_OWN_PRODUCTS = ("row_gradients", "weight_gradients", "product")
"""Functions of `float16`, in the order of `_LINEAR_GRADIENTS`; its forward product is the last."""
_OWN_GRADIENTS = "_LinearBackward"
_NODE = "autograd::engine::evaluate_function"
_PRODUCTS = {
    "aten::mm": (0, 1, -1),
    "aten::bmm": (0, 1, -1),
    "aten::addmm": (1, 2, -1),
    "aten::baddbmm": (1, 2, -1),
    "aten::baddbmm_": (1, 2, -1),
    "mkldnn::_linear_pointwise": (0, 1, 0),
}
"""Operators that multiply matrices, which of their inputs are multiplied, and which size of the
second is that of the results."""


class Event(Protocol):
    """What is read of torch's `FunctionEvent`."""

    name: str
    sequence_nr: int
    """Autograd's number of the node that comes next, or of the node that is run; -1: none."""
    input_shapes: Sequence[Sequence[int]]
    cpu_children: Sequence[Any]
    self_cpu_time_total: float
    """Microseconds, those of its children left out."""


@dataclass
class Part:
    """What a step spends on one thing."""

    seconds: float = 0.0
    flops: float = 0.0
    """Of its matrix products."""


@dataclass
class _Place:
    """Where in the step an event lies."""

    range: str = OTHER
    is_backward: bool = False
    num_products: int = 0
    """Of the backward node, so far."""
    product: str = ""
    """Of our own, whatever it calls meanwhile."""
    is_ours: bool = False
    """Whether it is our own node of a linear layer's gradients."""


@dataclass
class _Step:
    parts: dict[str, Part] = field(default_factory=lambda: {name: Part() for name in ORDER})
    makers: dict[int, str] = field(default_factory=dict)
    """The range in which each of autograd's nodes was made."""


@contextlib.contextmanager
def ranges() -> Iterator[None]:
    """Lays the ranges of `RANGES` around their functions, for the block."""
    with contextlib.ExitStack() as stack:
        for owner, name, part in RANGES:
            stack.enter_context(mock.patch.object(owner, name, _ranged(owner, name, part)))
        for name in _OWN_PRODUCTS:
            stack.enter_context(mock.patch.object(float16, name, _told(name)))
        yield


def parts_of(step: Event) -> dict[str, Part]:
    """The parts of a step from the one event that spans it, in `ORDER`; they add up to it."""
    found = _Step()
    _add(step, _Place(), found)
    return found.parts


def product_flops(event: Event) -> float:
    """Operations of a matrix product; 0 for any other operator."""
    if event.name.startswith(_OWN_PRODUCT):
        return float(event.name.split()[-1])
    if event.name not in _PRODUCTS:
        return 0.0
    left, right, side = _PRODUCTS[event.name]
    return 2.0 * math.prod(event.input_shapes[left]) * event.input_shapes[right][side]


def _add(event: Event, place: _Place, found: _Step) -> None:
    """Adds an event and all that it did to the parts."""
    if event.name.startswith(_MARK):
        place = _Place(range=event.name.removeprefix(_MARK))
    elif event.name.startswith(_NODE):
        place = _Place(range=found.makers.get(event.sequence_nr, OTHER), is_backward=True)
    elif event.sequence_nr >= 0 and not place.is_backward:
        # Of several the last one, which made the node: those before it only saw its number.
        found.makers[event.sequence_nr] = place.range
    elif event.name.startswith(_OWN_PRODUCT):
        place = replace(place, product=event.name.split()[1])
    place.is_ours |= event.name == _OWN_GRADIENTS
    part = found.parts[_name(event, place)]
    part.seconds += event.self_cpu_time_total / 1e6
    part.flops += product_flops(event)
    if place.is_ours:  # those of weights are as many, of which the profiler sees nothing
        found.parts[LINEAR + _LINEAR_GRADIENTS[1]].flops += product_flops(event)
    for child in event.cpu_children:
        _add(child, place, found)


def _name(event: Event, place: _Place) -> str:
    if place.range not in _WITH_BACKWARD:
        return place.range
    if not place.is_backward:
        return place.range + FORWARD
    if place.range != LINEAR:
        return place.range + BACKWARD
    if place.product:
        return LINEAR + _LINEAR_GRADIENTS[_OWN_PRODUCTS.index(place.product)]
    # torch makes the gradient of a layer's input first, then that of its weights; what follows,
    # and what is no product, is for the bias. Our function makes both together.
    others = 1 if place.is_ours else 2
    kind = place.num_products if event.name in _PRODUCTS else others
    place.num_products += event.name in _PRODUCTS
    return LINEAR + _LINEAR_GRADIENTS[min(kind, 2)]


def _told(name: str) -> Callable[..., object]:
    """A function of `float16` with a range that tells its operations around it."""
    function: Callable[..., object] = getattr(float16, name)

    @functools.wraps(function)
    def within(left: Tensor, right: Tensor, *more: object, **kwargs: object) -> object:
        # (T, I) by (O, I), (T, O) by (O, I), (T, O) by (T, I): the side that is not in the first.
        flops = 2 * left.numel() * right.shape[0 if name == "product" else 1]
        with record_function(f"{_OWN_PRODUCT}{name} {flops}"):
            return function(left, right, *more, **kwargs)

    return within


def _ranged(owner: object, name: str, part: str) -> object:
    """The function with a range around it; a static method stays one."""
    found = inspect.getattr_static(owner, name)
    function: Callable[..., object] = getattr(owner, name)

    @functools.wraps(function)
    def within(*args: object, **kwargs: object) -> object:
        with record_function(_MARK + part):
            return function(*args, **kwargs)

    return staticmethod(within) if isinstance(found, staticmethod) else within


def line(name: str, seconds: float, total: float, flops: float, rate: float) -> str:
    """A part as a line of a table: milliseconds, share, GFLOP and what these take at a rate."""
    products = f"{flops / 1e9:,.2f} | {1e3 * flops / rate:,.1f}" if flops else " | "
    return f"| {name} | {1e3 * seconds:,.1f} | {seconds / total:.1%} | {products} |"
