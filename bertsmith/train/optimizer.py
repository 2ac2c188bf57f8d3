"""Gradients -> weights: BERT's own Adam, AdamW or LAMB, with float32 masters and clipping.

The update runs over flat buffers in one fused pass (`train.updates`); the same numbers come out as
from the plain definition in the tests. It knows no schedule (the loop hands it each step's rate),
no BERT and no files.

Source: google-research/bert optimization.py; You et al. 2020.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from bertsmith.train.config import OptimizerConfig
from bertsmith.train.flat import Group, Piece, Run, count_as_changed, grouped
from bertsmith.train.scaler import LossScaler
from bertsmith.train.updates import Rates, Update, Updates

_SCALE = frozenset({"loss_scale", "clean_steps"})
"""What a state says of the loss scale."""
_PROBLEMS_TOLD = 6
"""Of a state that does not fit; one of another model has hundreds."""


class Optimizer:
    """Holds the moments, and the float32 masters of half-precision parameters.

    Make it last: after the model was moved, cast and loaded, since the parameters become views of
    the optimizer's buffers. Tied parameters are taken once, frozen ones not at all. float64
    parameters keep float64 moments.
    """

    def __init__(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]], config: OptimizerConfig
    ) -> None:
        self.config = config
        self._groups: list[Group] = grouped(named_parameters)
        is_fp16 = any(piece.parameter.dtype == torch.float16 for piece in self._pieces())
        self.scaler = LossScaler() if is_fp16 else None
        """Scales the loss of float16 models; None for every other type."""
        self.skipped = False
        """True when the latest `step` left everything as it was, for float16 overflow."""

    @torch.no_grad()
    def step(self, learning_rate: float) -> Tensor:
        """Updates every parameter that has a gradient; returns the norm before clipping.

        The norm is global, a scalar tensor on the device, in float32 (float64 for float64). A
        parameter without a gradient keeps its weight, moments and count. On a float16 model an
        overflowing step changes nothing but the loss scale, and sets `skipped`.
        """
        runs = [run for group in self._groups for run in group.runs()]
        if not runs:
            raise ValueError("no parameter has a gradient: call backward() before step()")
        updates = Updates([self._update_of(run, learning_rate) for run in runs])
        scale = 1.0 if self.scaler is None else self.scaler.scale
        norm = updates.squared_norm().sqrt() / scale
        if self.scaler is not None:
            self.skipped = not bool(torch.isfinite(norm))
            self.scaler.update(overflowed=self.skipped)
            if self.skipped:
                return norm
        updates.take(self._clip_factor(norm) / scale)
        updated = [piece for run in runs for piece in run.pieces]
        for piece in updated:
            piece.updates += 1
        count_as_changed(updated)
        return norm

    def zero_grad(self) -> None:
        """Drops every gradient."""
        for piece in self._pieces():
            piece.parameter.grad = None

    def parameters(self) -> list[nn.Parameter]:
        """Every parameter it updates, once."""
        return [piece.parameter for piece in self._pieces()]

    def masters(self) -> dict[str, Tensor]:
        """The weights by parameter name, float32 (float64 for float64): what a checkpoint keeps.

        Views, of this moment: the next step changes them, some of them not before they are asked
        for again. To set some, ask first; nobody is told of it.
        """
        return {name: weight for name, (weight, _, _) in self._named_views().items()}

    def state(self) -> dict[str, Tensor]:
        """Everything the next step depends on, by name, as plain tensors: views like `masters`."""
        state: dict[str, Tensor] = {}
        for name, (weight, exp_avg, exp_avg_sq) in self._named_views().items():
            state[f"weight.{name}"] = weight
            state[f"exp_avg.{name}"] = exp_avg
            state[f"exp_avg_sq.{name}"] = exp_avg_sq
        for piece in self._pieces():
            state[f"updates.{piece.name}"] = torch.tensor(piece.updates)
        if self.scaler is not None:
            state["loss_scale"] = torch.tensor(self.scaler.scale, dtype=torch.float64)
            state["clean_steps"] = torch.tensor(self.scaler.clean_steps)
        return state

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Takes over what `state` gave, weights included, to the bit.

        A loss scale goes from one float16 model to another: elsewhere it is left out, and where
        there was none, it is the first one. Raises ValueError naming the first missing, unexpected
        and mis-shaped entries together.
        """
        own = self.state()
        if own.keys() ^ state.keys() >= _SCALE:  # one of the two has a scale, whole
            own, state = (
                {name: each[name] for name in each if name not in _SCALE} for each in (own, state)
            )
        _check_entries(own, state)
        for name, tensor in own.items():
            tensor.copy_(state[name])
        for group in self._groups:
            group.refresh()
        for piece in self._pieces():
            piece.updates = int(state[f"updates.{piece.name}"])
        if self.scaler is not None and state.keys() >= _SCALE:
            self.scaler.scale = float(state["loss_scale"])
            self.scaler.clean_steps = int(state["clean_steps"])

    def _update_of(self, run: Run, learning_rate: float) -> Update:
        """What a run is to take, all of whose parameters have had as many updates."""
        config, decays, time = self.config, run.group.decays, run.pieces[0].updates + 1
        corrects = config.name != "bert_adam"
        rates = Rates(
            learning_rate,
            config.weight_decay if decays else 0.0,
            config.beta1,
            1.0 - config.beta1,
            config.beta2,
            1.0 - config.beta2,
            config.epsilon,
            1.0 / (1.0 - config.beta1**time) if corrects else 1.0,
            1.0 / math.sqrt(1.0 - config.beta2**time) if corrects else 1.0,
        )
        by_tensor = config.name == "lamb" and decays
        sizes = [piece.end - piece.start for piece in run.pieces] if by_tensor else None
        return Update(run.flat, run.gradient, rates, run.sleepers, sizes)

    def _clip_factor(self, norm: Tensor) -> Tensor:
        # Differs from the paper's code on TPUs: the norm is global, not of each core's share.
        # TensorFlow's rule, clip / max(norm, clip); torch's own adds 1e-6 to the norm.
        clip = self.config.clip_norm
        return torch.ones_like(norm) if clip is None else clip / norm.clamp(min=clip)

    def _pieces(self) -> Iterator[Piece]:
        return (piece for group in self._groups for piece in group.pieces)

    def _named_views(self) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
        views = {}
        for group in self._groups:
            group.settle()
            for piece in group.pieces:
                flat, shape = group.stretch(piece.start, piece.end), piece.parameter.shape
                views[piece.name] = (
                    flat.weight.view(shape),
                    flat.exp_avg.view(shape),
                    flat.exp_avg_sq.view(shape),
                )
        return views


def _check_entries(own: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    problems = [f"missing {name}" for name in own if name not in state]
    problems += [f"unexpected {name}" for name in state if name not in own]
    problems += [
        f"{name} has shape {tuple(state[name].shape)}, expected {tuple(own[name].shape)}"
        for name in own
        if name in state and state[name].shape != own[name].shape
    ]
    if problems:
        more = len(problems) - _PROBLEMS_TOLD
        told = [*problems[:_PROBLEMS_TOLD], *([f"and {more:,} more"] if more > 0 else [])]
        raise ValueError("the optimizer's state does not fit the model: " + "; ".join(told))
