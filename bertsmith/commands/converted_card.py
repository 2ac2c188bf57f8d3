"""A converted model -> its card: the model's own where that still tells the truth, else a new one.

Source: the cards of the Hub tell of a format, of heads, of number types and of files.
"""

from __future__ import annotations

from pathlib import Path

from bertsmith.checkpoints import places
from bertsmith.checkpoints.card import Card
from bertsmith.checkpoints.exports import Export, written_head
from bertsmith.checkpoints.names import HELD_ELSEWHERE
from bertsmith.checkpoints.original_card import OriginalCard
from bertsmith.checkpoints.store import Loaded
from bertsmith.files import read_json
from bertsmith.model.padded import outputs_of
from bertsmith.runs.origin import origin_of

CARD = "README.md"


def is_still_true(loaded: Loaded, export: Export, directory: Path) -> bool:
    """Whether the model's own card tells nothing that is not so of the files in `directory`.

    They must be of the same format and number type, hold every tensor that the model's files hold,
    and be there under every name that is there now.
    """
    config = loaded.directory / places.CONFIG
    if export.format != "hugging-face" or loaded.sentence is not None or not config.is_file():
        return False
    content = read_json(config)
    stored = content.get("dtype") or content.get("torch_dtype") or "float32"
    return (
        str(stored).removeprefix("torch.") == export.dtype
        and set(loaded.left_aside) <= HELD_ELSEWHERE
        and _files(loaded.directory) <= _files(directory)
    )


def new_card(
    loaded: Loaded, export: Export, model: str, name: str, original: OriginalCard | None
) -> Card:
    """What is known of the model as it is written; `model` is what it was called by."""
    origin, language = origin_of(loaded.directory)
    is_encoder_alone = export.format == "sentence-transformers"
    head = written_head(loaded, export)
    outputs = outputs_of(loaded.model, export.sentence, head)
    return Card(
        name=name,
        format=export.format,
        config=loaded.config,
        objectives=() if is_encoder_alone else loaded.model.objectives,
        head=head.config if head is not None else None,
        dtype=export.dtype,
        sentence=export.sentence,
        outputs=export.outputs or outputs,
        base_model=_hub_id(model, loaded.directory),
        language=None if original and original.language else language,
        origin=origin,
        original=original,
    )


def _files(directory: Path) -> set[str]:
    """Names of the files that a card may tell of: itself and hidden ones are none."""
    found = {file.relative_to(directory) for file in directory.rglob("*") if file.is_file()}
    return {
        str(path) for path in found
        if str(path) != CARD and not any(part.startswith(".") for part in path.parts)
    }  # fmt: skip


def _hub_id(model: str, found: Path) -> str | None:
    """The Hub id of a model that was found in the Hub's cache; None for any other."""
    folder = f"models--{model.replace('/', '--')}"
    return model if folder in found.parts else None
