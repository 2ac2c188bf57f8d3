"""Scores of finished runs, as rows of a file: what is there is not run again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.machine import RESULTS, append_row
from bertsmith.train.config import Precision

System = Literal["bertsmith", "transformers", "random weights"]
SYSTEMS: tuple[System, ...] = ("bertsmith", "transformers", "random weights")
ROWS = "finetuning"


@dataclass(frozen=True, kw_only=True)
class Key:
    """What makes a run one of its own."""

    set: str
    model: str
    system: System
    seed: int
    precision: Precision
    """Of all systems alike; the machine's best."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run reached on Dev with the model of its last step."""

    scores: dict[str, float]
    """The first one is the set's."""
    seconds: float
    """From the loaded examples to the scores, on a machine that may have been busy."""
    is_resumed: bool = False
    """Whether it went on after a stop: then the seconds are of its last part."""


def stored(file: Path | None = None) -> dict[Key, dict[str, Any]]:
    """The rows so far; the newest of each key."""
    path = file or RESULTS / f"{ROWS}.jsonl"
    if not path.is_file():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {key_of(row): row for row in rows}


def key_of(row: Mapping[str, Any]) -> Key:
    """A stored row's key; the first rows, which name no precision, are float32."""
    return Key(
        set=row["set"],
        model=row["model"],
        system=row["system"],
        seed=row["seed"],
        precision=row.get("precision", "fp32"),
    )


def store(key: Key, result: Result, settings: dict[str, object]) -> None:
    """Appends a row."""
    append_row(
        ROWS,
        {
            "set": key.set,
            "model": key.model,
            "system": key.system,
            "seed": key.seed,
            "precision": key.precision,
            **settings,
            "scores": result.scores,
            "seconds": round(result.seconds, 1),
            **({"is_resumed": True} if result.is_resumed else {}),
        },
    )
