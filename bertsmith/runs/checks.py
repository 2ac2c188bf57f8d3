"""A run and a machine -> what would fail after hours of preparation, found in the first second.

Each check asks the part that would refuse later, so no rule stands here a second time. What only
the text can tell is not known here.
"""

from __future__ import annotations

import torch

from bertsmith.model.objectives import PretrainModel
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.training import rules_of
from bertsmith.train.device import Processes, choose_device, choose_precision


def check_machine(
    run: PretrainRun, device_name: str, processes: Processes, *, goes_on: bool = False
) -> torch.device:
    """The device of the run in this process.

    A run that goes on may find its precision missing (`recorded_precision`), another one not.
    Raises ValueError for a device that is not there, a precision it has not, objectives that
    contradict the model's direction, and steps too small for their micro-batches.
    """
    device = choose_device(device_name, processes)
    if not goes_on:
        choose_precision(run.precision, device)
    with torch.device("meta"):
        PretrainModel(run.model, run.objectives)
    parts = run.accumulation * processes.world_size
    for phase in run.phases:
        rules_of(run, phase, seed=run.seed)
        if phase.batch_size < parts:
            raise ValueError(
                f"a step of {phase.batch_size} sequences cannot be cut into {parts} micro-batches: "
                f"accumulation {run.accumulation} x {processes.world_size} processes; lower "
                f"--accumulation or raise the batch size of the phase"
            )
    return device
