"""A model's name, path or Hub id -> the directory that holds its files.

Looked up in this order: a name under the project's `models/`, a path (a checkpoint of any format, a
run, whose chosen or else newest checkpoint answers, or the prefix of a TensorFlow checkpoint), a
Hugging Face Hub id. It does not open the files it finds.
"""

from __future__ import annotations

import re
from pathlib import Path

from huggingface_hub import errors as hub_errors
from huggingface_hub import snapshot_download

from bertsmith.checkpoints import prefixes, searches, sentence_transformers
from bertsmith.checkpoints.project_models import (
    is_plain_name,
    named_places,
    nearest_name,
    project_models,
    require_spelt,
)

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"
PICKLED = "pytorch_model.bin"
PICKLED_INDEX = "pytorch_model.bin.index.json"
GOOGLE_CONFIG = "bert_config.json"
TASK = "task.json"
"""Beside the weights of a fine-tuned model: how its task reads examples."""
BEST = "best"
"""Where a run that chooses among its models keeps the one that it chose."""

RECORD = "run.json"
"""In a run's directory, from its beginning."""
_REPORT = "README.md"
"""There too, once it has ended."""

_FILES_OF_A_MODEL = (
    CONFIG, WEIGHTS, WEIGHTS_INDEX, "model-*-of-*.safetensors", "vocab.txt", "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "README.md", TASK,
    *sentence_transformers.FILES,
)  # fmt: skip
_OLD_FILES = (
    PICKLED, PICKLED_INDEX, "pytorch_model-*-of-*.bin", *sentence_transformers.PICKLED_FILES,
    GOOGLE_CONFIG, "*.index", "*.data-*",
)  # fmt: skip
_STEP = re.compile(r"step-(\d+)")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


def find_model(name_or_path: str | Path) -> Path:
    """The directory of a model's files; downloads it into the Hub's own cache where it must.

    A `Path` is a path alone. Raises FileNotFoundError saying where was looked, and the nearest name
    of the project's models; without asking the Hub where the name nearly spells one of them.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, str) and (named := project_model(text)):
        return named
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return _inside(path)
    if path.name and (prefix := prefixes.find_prefix(path)):
        return prefix
    if path.exists():
        raise FileNotFoundError(
            f"{path} is a file, expected the directory of a checkpoint or of a run"
        )
    if isinstance(name_or_path, Path) or not _HUB_ID.fullmatch(text):
        raise FileNotFoundError(f"no model at {path}: {_tried(text)}{nearest_name(text)}")
    require_spelt(text)
    return _downloaded(text)


def project_model(name: str) -> Path | None:
    """The directory of the project's model of this name; None where it names none."""
    places = (models / name for models in project_models() if is_plain_name(name))
    return next(filter(is_model, places), None)


def newest_checkpoint(run: Path) -> Path | None:
    """The complete checkpoint with the highest step under `run/checkpoints`; None without one."""
    return next(iter(reversed(checkpoints_of(run))), None)


def unfinished_note(name_or_path: str | Path, place: Path) -> str | None:
    """What to tell of the place that was found, where a run was named that has not ended."""
    run = Path(name_or_path).expanduser()
    if not (run / RECORD).is_file() or (run / _REPORT).is_file():
        return None
    if place == run / BEST:
        return f"{run} has not ended: its best model so far answers"
    if place.parent != run / "checkpoints":
        return None
    step = int(place.name.removeprefix("step-"))
    return f"{run} has not ended: its newest checkpoint answers, after step {step:,}"


def checkpoints_of(run: Path) -> list[Path]:
    """The complete checkpoints under `run/checkpoints`, by step; a copy beside them is none."""
    steps = (
        (int(match[1]), directory)
        for directory in (run / "checkpoints").glob("step-*")
        if (match := _STEP.fullmatch(directory.name)) and is_checkpoint(directory)
    )
    return [directory for _, directory in sorted(steps)]


def is_checkpoint(directory: Path) -> bool:
    """True when the directory holds a config and safetensors weights, as those written here do."""
    weights = (directory / WEIGHTS, directory / WEIGHTS_INDEX)
    return (directory / CONFIG).is_file() and any(file.is_file() for file in weights)


def is_model(directory: Path) -> bool:
    """True when the directory holds a config and weights of any format that is read."""
    directory = sentence_transformers.encoder_directory(directory)
    if is_checkpoint(directory):
        return True
    has_config = (directory / CONFIG).is_file() or (directory / GOOGLE_CONFIG).is_file()
    pickled = (directory / PICKLED, directory / PICKLED_INDEX)
    has_bundle = bool(prefixes.prefixes_in(directory))
    return has_config and (has_bundle or any(file.is_file() for file in pickled))


def _inside(directory: Path) -> Path:
    if is_model(directory):
        return directory
    if is_checkpoint(directory / BEST):
        return directory / BEST
    newest = newest_checkpoint(directory)
    if newest is not None:
        return newest
    if (directory / searches.SEARCH).is_file():
        runs = [each for each in sorted(directory.iterdir()) if _holds_run(each)]
        raise FileNotFoundError(searches.told_without_choice(directory, runs))
    found = sorted(file.name for file in directory.iterdir())
    unread = [name for name in found if name.endswith((".pt", ".pth", ".ckpt", ".h5", ".msgpack"))]
    hint = f"; {unread[0]} is of no format that is read here" if unread else ""
    raise FileNotFoundError(
        f"{directory} is neither a checkpoint ({CONFIG} with {WEIGHTS} or {PICKLED}; "
        f"{GOOGLE_CONFIG} with PREFIX.index and PREFIX.data-*) nor a run with a complete one under "
        f"checkpoints/step-*; it holds {', '.join(found[:8]) or 'nothing'}{hint}"
    )


def _holds_run(directory: Path) -> bool:
    return is_checkpoint(directory / BEST) or newest_checkpoint(directory) is not None


def _downloaded(hub_id: str) -> Path:
    try:
        directory = Path(snapshot_download(hub_id, allow_patterns=list(_FILES_OF_A_MODEL)))
        if not is_model(directory):  # an old one: of its pickle only tensors will be read
            snapshot_download(hub_id, allow_patterns=[*_FILES_OF_A_MODEL, *_OLD_FILES])
        dense = sentence_transformers.dense_directory(directory)
        if dense is not None and not (dense / WEIGHTS).is_file():
            patterns = [*_FILES_OF_A_MODEL, *sentence_transformers.PICKLED_DENSE_FILES]
            snapshot_download(hub_id, allow_patterns=patterns)
    except (hub_errors.HfHubHTTPError, hub_errors.HFValidationError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise FileNotFoundError(
            f"no model {hub_id!r}: {_tried(hub_id)}, and the Hugging Face Hub gave none "
            f"({reason[0]}){nearest_name(hub_id)}"
        ) from error
    if not is_model(directory):
        raise FileNotFoundError(f"the Hub's {hub_id} has no {CONFIG} with {WEIGHTS} or {PICKLED}")
    return directory


def _tried(text: str) -> str:
    places = [*named_places(text), str(Path(text).expanduser().absolute())]
    return f"there is no {' and no '.join(places)}"
