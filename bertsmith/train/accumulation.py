"""Micro-batches -> one gradient a parameter, summed over time and over processes.

Sums of half-precision gradients are kept in float32 and rounded once. Gradients cross between
processes once a step, inside torch's DistributedDataParallel, as a sum: the losses are already
divided by the whole step's counts.

Source: torch.nn.parallel.DistributedDataParallel, communication hooks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bertsmith.train.device import Processes
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.placement import leave_sparse

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket


class Losses(Protocol):
    """What a learner returns for one micro-batch."""

    @property
    def loss(self) -> Tensor:
        """Scalar with a gradient: a sum over the micro-batch divided by the whole step's count."""

    @property
    def sums(self) -> Mapping[str, Tensor]:
        """Scalars to add up over micro-batches and processes: the same names in every one."""


@dataclass(frozen=True)
class Totals:
    """Losses of this process's micro-batches, added up, without gradients."""

    loss: Tensor
    sums: dict[str, Tensor]


class Accumulator:
    """Runs the learner's forward and backward passes of one step after the other."""

    def __init__(self, learner: nn.Module, optimizer: Optimizer, processes: Processes) -> None:
        self._learner = learner
        self._optimizer = optimizer
        self._earlier: dict[Tensor, Tensor] = {}
        self._parallel: DistributedDataParallel | None = None
        if processes.world_size > 1:
            leave_sparse(learner, False)  # gradients cross between processes in flat buckets
            self._parallel = DistributedDataParallel(learner)
            # Through a lambda: torch refuses annotations that are strings, as all are in this file.
            self._parallel.register_comm_hook(
                self._earlier, lambda earlier, bucket: _sum_over_processes(earlier, bucket)
            )

    def backward(self, parts: Sequence[object], step: int) -> Totals:
        """Leaves the whole step's gradient on the parameters; returns this process's losses."""
        parameters = self._optimizer.parameters()
        if len(parts) > 1:
            for parameter in parameters:
                parameter.grad_dtype = _wide(parameter.dtype)
        totals = [self._run(self._learner, part, step) for part in parts[:-1]]
        if self._parallel is not None and len(parts) > 1:
            self._put_aside(parameters)
        totals.append(self._run(self._parallel or self._learner, parts[-1], step))
        return _added(totals)

    def measured(self, losses: Totals, grad_norm: Tensor) -> Tensor:
        """(2 + sums,) loss, gradient norm and sums of the whole step, over all processes.

        On the device, in float64 (float32 on Apple's GPU, which has no more).
        """
        device = losses.loss.device
        dtype = torch.float32 if device.type == "mps" else torch.float64
        totals = torch.stack([v.to(device, dtype) for v in (losses.loss, *losses.sums.values())])
        if self._parallel is not None:
            dist.all_reduce(totals)
        return torch.cat([totals[:1], grad_norm.to(totals).reshape(1), totals[1:]])

    def _run(self, learner: nn.Module, part: object, step: int) -> Totals:
        losses: Losses = learner(part, step)
        scaler = self._optimizer.scaler
        torch.autograd.backward(losses.loss if scaler is None else losses.loss * scaler.scale)
        sums = {name: value.detach() for name, value in losses.sums.items()}
        return Totals(losses.loss.detach(), sums)

    def _put_aside(self, parameters: Sequence[nn.Parameter]) -> None:
        # DistributedDataParallel takes gradients in the parameter's own type only, so the float32
        # sums of the earlier micro-batches wait here and join the last one inside the hook.
        for parameter in parameters:
            if parameter.grad is not None:
                self._earlier[parameter] = parameter.grad
            parameter.grad = None
            parameter.grad_dtype = parameter.dtype


def _sum_over_processes(
    earlier: dict[Tensor, Tensor], bucket: GradBucket
) -> torch.futures.Future[Tensor]:
    """Adds the earlier micro-batches, sums over processes in float32, rounds once."""
    last = bucket.buffer()
    total = last.to(_wide(last.dtype), copy=True)
    sizes = [parameter.numel() for parameter in bucket.parameters()]
    for view, parameter in zip(torch.split(total, sizes), bucket.parameters(), strict=True):
        if parameter in earlier:
            view.add_(earlier.pop(parameter).reshape(-1))
    summed: torch.futures.Future[list[Tensor]] = dist.all_reduce(total, async_op=True).get_future()
    return summed.then(lambda future: last.copy_(future.value()[0]))


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _added(totals: Sequence[Totals]) -> Totals:
    loss = torch.stack([part.loss for part in totals]).sum()
    names = totals[0].sums
    return Totals(loss, {n: torch.stack([part.sums[n] for part in totals]).sum() for n in names})
