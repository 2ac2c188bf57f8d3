"""The trainer <-> two files: safetensors for what is tensors, JSON for the rest. No pickle.

With these, a killed run goes on as if it had never stopped: weights in float32, moments, counts and
the loss scale to the bit, and the number of finished updates, from which batches, dropout and
learning rate follow. It does not know what else a checkpoint holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from bertsmith import files
from bertsmith.tensor_files import save_tensors
from bertsmith.train.optimizer import Optimizer

TENSORS_NAME = "trainer.safetensors"
FACTS_NAME = "trainer.json"


@dataclass(frozen=True, kw_only=True)
class TrainerState:
    """What `load_state` read beside the optimizer's own state."""

    step: int
    """Finished updates: where the run goes on."""
    extra: dict[str, object]
    """What the caller gave to `save_state`, as JSON keeps it (tuples become lists)."""


def save_state(
    directory: Path, optimizer: Optimizer, step: int, extra: Mapping[str, object]
) -> None:
    """Writes `trainer.safetensors` and `trainer.json` into an existing directory.

    Not atomic by itself: write into the directory that `files.atomic_directory` gives, with the
    rest of the checkpoint. Raises TypeError when `extra` is not JSON.
    """
    tensors = {name: tensor.cpu() for name, tensor in optimizer.state().items()}
    save_tensors(directory / TENSORS_NAME, tensors)
    facts = {"step": step, "optimizer": optimizer.config.name, "extra": dict(extra)}
    files.write_json(directory / FACTS_NAME, facts)


def load_state(directory: Path, optimizer: Optimizer) -> TrainerState:
    """Gives the optimizer, and through it the model, what `save_state` wrote.

    Raises FileNotFoundError when a file is missing, DamagedError when it is damaged, ValueError
    when it belongs to another optimizer or does not fit the model.
    """
    for name in (TENSORS_NAME, FACTS_NAME):
        if not (directory / name).is_file():
            raise FileNotFoundError(
                f"{directory} has no {name}: it is not a checkpoint to continue training from"
            )
    optimizer_name, state = _read_facts(directory / FACTS_NAME)
    if optimizer_name != optimizer.config.name:
        raise ValueError(
            f"{directory / FACTS_NAME} was written by optimizer {optimizer_name!r}, this run "
            f"uses {optimizer.config.name!r}: resume with the same one"
        )
    try:
        tensors = load_file(directory / TENSORS_NAME)
    except SafetensorError as error:
        raise files.DamagedError(f"{directory / TENSORS_NAME} is damaged ({error})") from error
    try:
        optimizer.load_state(tensors)
    except ValueError as error:
        raise ValueError(f"{directory / TENSORS_NAME}: {error}") from error
    return state


def read_state(directory: Path) -> TrainerState:
    """What `load_state` returns, without a look at the tensors. Raises DamagedError."""
    return _read_facts(directory / FACTS_NAME)[1]


def _read_facts(path: Path) -> tuple[str, TrainerState]:
    """The optimizer's name, and the rest."""
    facts = files.read_json(path)
    expected = {"step": int, "optimizer": str, "extra": dict}
    for name, kind in expected.items():
        if not isinstance(facts.get(name), kind):
            raise files.DamagedError(
                f"{path}: expected an object with {name!r} of type {kind.__name__}"
            )
    step, extra = facts["step"], facts["extra"]
    assert isinstance(step, int)
    assert isinstance(extra, dict)
    return str(facts["optimizer"]), TrainerState(step=step, extra=extra)
