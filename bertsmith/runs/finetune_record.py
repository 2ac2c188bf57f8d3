"""The directory of a fine-tuning run: what stands in it, and its `run.json`.

RUN/run.json, metrics.jsonl, best/ (the model that answers, where the best is kept),
checkpoints/step-00000100/ (the newest, with the trainer's state), scores.json, README.md, worst.md
and the pictures.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertsmith.checkpoints.searches import SEARCH
from bertsmith.files import read_json, write_json
from bertsmith.recipes.finetuning import FinetuneRun, from_json, to_json
from bertsmith.runs.directory import FINE_TUNING, RECORD

SCORES = "scores.json"


@dataclass(frozen=True, kw_only=True)
class FinetuneRecord:
    """What `run.json` holds."""

    run: FinetuneRun
    """Every choice, the precision decided."""
    num_steps: int
    """Updates, when nothing stops it earlier."""
    model: str
    """Where the pre-trained model lies: a directory, or the prefix of a TensorFlow checkpoint."""
    model_fingerprint: str
    """SHA-256 of its weights as they were loaded."""
    examples_fingerprint: str
    """SHA-256 of all that is learned and measured, as the model reads it."""
    task: dict[str, object]
    """The task as JSON values."""
    request: dict[str, object]
    """What was asked for; the same command again continues the run."""
    command: str
    """What was typed."""
    notes: tuple[str, ...]
    """What was drawn, left aside and cut, a sentence each."""
    versions: dict[str, str]
    """Python, the packages, and what else of the machine the bits depend on."""
    ancestry: tuple[str, ...] = ()
    """The runs that the model came out of, the newest first."""
    train_fingerprint: str = ""
    """SHA-256 of what is learned alone: where other examples came, it says which."""
    label_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How often each label occurs, of `training` and `Dev`."""


def write_finetune_record(directory: Path, record: FinetuneRecord) -> None:
    """Writes run.json atomically."""
    lists = {"notes": list(record.notes), "ancestry": list(record.ancestry)}
    content = {**vars(record), "run": to_json(record.run), **lists}
    write_json(directory / RECORD, {"kind": FINE_TUNING, **content})


def read_finetune_record(directory: Path) -> FinetuneRecord:
    """Reads run.json. Raises FileNotFoundError where no run is, ValueError for another kind."""
    path = directory / RECORD
    if not path.is_file():
        where = shlex.quote(str(directory))
        if (directory / SEARCH).is_file():
            raise FileNotFoundError(
                f"{directory} holds a search, whose runs lie in directories of it: continue one of "
                f"these, or the search with `bertsmith search --resume {where}`"
            )
        raise FileNotFoundError(
            f"{directory} is not the directory of a run: it has no {RECORD}; start one with "
            f"`bertsmith finetune MODEL ... --out {where}`"
        )
    content: dict[str, Any] = read_json(path)
    if content.pop("kind", None) != FINE_TUNING:
        raise ValueError(
            f"{directory} holds a pre-training run: continue it with `bertsmith pretrain --resume "
            f"{shlex.quote(str(directory))}`, or fine-tune its model: `bertsmith finetune "
            f"{shlex.quote(str(directory))} ...`"
        )
    try:
        tuples = {name: tuple(content.get(name, ())) for name in ("notes", "ancestry")}
        return FinetuneRecord(**{**content, **tuples, "run": from_json(content["run"])})
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path} was not written by this version of bertsmith ({error}); start the run again "
            f"in another directory"
        ) from error
