"""What is asked for of finetune and search, as JSON values -> the examples, and where a run goes.

A run's record keeps the request: the same command again is known by it and goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertsmith.checkpoints.places import project_model
from bertsmith.checkpoints.prefixes import find_prefix
from bertsmith.commands.examples import learning_set, name_of, source_of
from bertsmith.commands.finetune_options import Finetune
from bertsmith.commands.overfitting import require_no_plan_only
from bertsmith.recipes.finetuning import to_json
from bertsmith.runs.learning_set import LearningSet

_BESIDE_RESUME = ("--resume", "--device", "--threads", "--plan-only")
"""Options that a resumed run takes; all others were settled when it began."""


def require_alone(options: Finetune) -> None:
    """Raises ValueError where an option stands beside --resume that would be passed over."""
    told = [name for name in options.typed if name not in _BESIDE_RESUME]
    if told or options.model:
        beside = ", ".join([*filter(None, [options.model]), *told])
        raise ValueError(
            f"--resume takes everything from {options.resume}, {beside} included: leave it out, or "
            f"start anew in another directory"
        )


def request_of(options: Finetune) -> dict[str, object]:
    """The request. Raises ValueError where a typed option would be passed over."""
    require_no_plan_only(options.plan_only, options.overfit_one_batch)
    if options.overfit_one_batch and options.run.approach == "feature_based":
        raise ValueError(
            "--overfit-one-batch trains the encoder too, and --approach feature_based keeps it as "
            "it is: leave one of them out"
        )
    if options.features is not None and options.run.approach != "feature_based":
        raise ValueError(
            "--features keeps hidden states of --approach feature_based, and all weights are "
            "trained here: leave one out or take the other"
        )
    return {
        "model": _settled(options.model),
        "examples": source_of(options.files, options.values),
        "max_tokens": options.max_tokens,
        "run": json.loads(json.dumps(to_json(options.run))),
        **({"features": str(options.features.resolve())} if options.features else {}),
    }


def _settled(model: str) -> str:
    """A path whole, so that it is one in any directory; a name as it is, which comes before one."""
    path = Path(model)
    is_path = path.exists() or (bool(path.name) and find_prefix(path) is not None)
    return str(path.resolve()) if is_path and project_model(model) is None else model


def learning_of(request: Mapping[str, object]) -> LearningSet[Any, Any, Any]:
    """Reads the examples; raises as `learning_set` does."""
    source, max_tokens = request["examples"], request["max_tokens"]
    assert isinstance(source, dict)
    assert max_tokens is None or isinstance(max_tokens, int)
    return learning_set(source, max_tokens)


def features_of(request: Mapping[str, object]) -> Path | None:
    """Where hidden states are kept, where the request says so."""
    return Path(str(request["features"])) if "features" in request else None


def directory_for(request: Mapping[str, object]) -> Path:
    """runs/MODEL-TASK, or runs/MODEL-KIND-FILE."""
    source = request["examples"]
    assert isinstance(source, dict)
    return Path("runs") / f"{Path(str(request['model'])).name}-{name_of(source)}"
