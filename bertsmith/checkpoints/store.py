"""A model, its config and its tokenizer <-> a directory in the Hugging Face layout.

What is written here loads in `transformers` and in every server that reads its files, and what they
write loads here: config.json, model.safetensors, vocab.txt, tokenizer.json, tokenizer_config.json.
Nothing is pickled, ever. This file does not know what a run or a trainer is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bertsmith.checkpoints.config_json import config_from_json, config_to_json
from bertsmith.checkpoints.names import (
    LM_HEAD,
    NEXT_SENTENCE_HEAD,
    POOLER,
    from_hugging_face,
    modern_names,
    to_hugging_face,
)
from bertsmith.checkpoints.places import CONFIG, WEIGHTS, WEIGHTS_INDEX, find_model, is_checkpoint
from bertsmith.files import atomic_directory, read_json, write_json, write_text
from bertsmith.model.bert import Bert
from bertsmith.model.config import DIRECTION_OF, BertConfig, Objective
from bertsmith.model.objectives import PretrainModel
from bertsmith.text.tokenizer import Tokenizer

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True, kw_only=True)
class Loaded(Generic[Model]):
    """A checkpoint in memory."""

    model: Model
    """In evaluation mode, on the CPU."""
    config: BertConfig
    """The encoder's architecture."""
    tokenizer: Tokenizer
    """The vocabulary and rules it was trained with."""
    directory: Path
    """Where it was found."""
    notes: tuple[str, ...]
    """What was left aside or looks odd, a sentence each; empty for a checkpoint of our own."""


def save(
    directory: str | Path,
    model: PretrainModel | Mapping[str, Tensor],
    config: BertConfig,
    tokenizer: Tokenizer,
    *,
    dtype: torch.dtype | None = None,
    card: str | None = None,
) -> None:
    """Writes a checkpoint atomically: the directory appears whole, or the older one stays.

    `model` may be the state of a PretrainModel; `dtype` None keeps each tensor's own; `card`
    becomes README.md. A checkpoint already at `directory` is replaced with everything in it. Raises
    ValueError when the directory holds something else, so that nobody's files are deleted.
    """
    directory = Path(directory)
    if directory.exists() and not is_checkpoint(directory) and any(directory.iterdir()):
        raise ValueError(
            f"{directory} holds files and is no checkpoint; it would be replaced as a whole. "
            f"Choose an empty or a new directory"
        )
    with atomic_directory(directory) as temporary:
        write(temporary, model, config, tokenizer, dtype=dtype, card=card)


def write(
    directory: Path,
    model: PretrainModel | Mapping[str, Tensor],
    config: BertConfig,
    tokenizer: Tokenizer,
    *,
    dtype: torch.dtype | None = None,
    card: str | None = None,
) -> None:
    """Writes a checkpoint's files into an existing directory, one by one.

    For a caller that puts more beside them, such as a trainer's state, in one atomic directory.
    """
    state = model if isinstance(model, Mapping) else model.state_dict()
    written = {
        name: tensor.to(device="cpu", dtype=dtype or tensor.dtype)
        for name, tensor in to_hugging_face(state).items()
    }
    stored = str(Counter(tensor.dtype for tensor in written.values()).most_common(1)[0][0])
    objectives = _objectives(written, config)
    content = config_to_json(config, objectives, dtype=stored.removeprefix("torch."))
    write_json(directory / CONFIG, content)
    save_file(written, directory / WEIGHTS, metadata={"format": "pt"})
    tokenizer.save(directory)
    if card is not None:
        write_text(directory / "README.md", card)


def load(name_or_path: str | Path, *, dtype: torch.dtype = torch.float32) -> Loaded[PretrainModel]:
    """Reads a model by its name under `models/`, its path, or its Hub id, in this order.

    A run's directory stands for its newest checkpoint. Parameters come as `dtype`, whatever the
    file stores. The model gets a next-sentence head when the file holds one. Raises
    FileNotFoundError when nothing is found; ValueError when the file holds no language-model head
    (`load_encoder` reads it), or naming at once every missing config field, or every missing,
    mis-shaped or unexpected tensor.
    """
    files = _Files.read(find_model(name_or_path))
    objectives = _objectives(files.tensors, files.config)
    if not set(objectives) - {"next_sentence"}:
        raise ValueError(
            f"{files.directory} holds no language-model head ({LM_HEAD}*), so it can neither fill "
            f"masks nor be pre-trained further; choose a pre-trained checkpoint"
        )
    # Built without memory or initial values: every parameter is replaced by the file's.
    with torch.device("meta"):
        model = PretrainModel(files.config, objectives)
    return _loaded(model, "", files, dtype)


def load_encoder(name_or_path: str | Path, *, dtype: torch.dtype = torch.float32) -> Loaded[Bert]:
    """Reads the encoder alone of any BERT, with its pooler when the file holds one; else as `load`.

    Heads are left aside, and noted.
    """
    files = _Files.read(find_model(name_or_path))
    with_pooler = any(name.startswith(POOLER) for name in files.tensors)
    with torch.device("meta"):
        encoder = Bert(files.config, with_pooler=with_pooler)
    return _loaded(encoder, "bert.", files, dtype)


@dataclass(frozen=True, kw_only=True)
class _Files:
    """What stands on disk, read but not yet matched with a module."""

    directory: Path
    config: BertConfig
    tensors: Mapping[str, Tensor]

    @staticmethod
    def read(directory: Path) -> _Files:
        config = config_from_json(read_json(directory / CONFIG), str(directory / CONFIG))
        return _Files(
            directory=directory, config=config, tensors=modern_names(_read_tensors(directory))
        )


def _loaded(model: Model, prefix: str, files: _Files, dtype: torch.dtype) -> Loaded[Model]:
    """Fills a module on the meta device, whose parameters are named without `prefix`."""
    expected = {prefix + name: tuple(value.shape) for name, value in model.state_dict().items()}
    state, notes = from_hugging_face(files.tensors, expected, str(files.directory))
    model.load_state_dict(
        {name.removeprefix(prefix): tensor.to(dtype) for name, tensor in state.items()},
        assign=True,
    )
    tokenizer = Tokenizer.load(files.directory)
    return Loaded(
        model=model.eval(),
        config=files.config,
        tokenizer=tokenizer,
        directory=files.directory,
        notes=(*notes, *_vocabulary_notes(tokenizer, files.config, files.directory)),
    )


def _objectives(tensors: Mapping[str, Tensor], config: BertConfig) -> tuple[Objective, ...]:
    """The objectives whose heads the file holds, by the names on disk."""
    found: list[Objective] = []
    if any(name.startswith(LM_HEAD) for name in tensors):
        found += [name for name, direction in DIRECTION_OF.items() if direction == config.direction]
    if any(name.startswith(NEXT_SENTENCE_HEAD) for name in tensors):
        found.append("next_sentence")
    return tuple(found)


def _read_tensors(directory: Path) -> dict[str, Tensor]:
    """Every tensor of model.safetensors, or of the parts that its index names."""
    if (directory / WEIGHTS).is_file():
        return _read_safetensors(directory / WEIGHTS)
    index = directory / WEIGHTS_INDEX
    parts = read_json(index).get("weight_map")
    if not isinstance(parts, dict):
        raise ValueError(f"{index} has no weight_map: copy it again")
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(parts.values())):
        tensors |= _read_safetensors(directory / Path(name).name)
    return tensors


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: copy or download the checkpoint again")
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except SafetensorError as error:
        raise ValueError(
            f"{path} ({path.stat().st_size:,} bytes) is no complete safetensors file ({error}); "
            f"copy or download it again"
        ) from error
    return tensors


def _vocabulary_notes(tokenizer: Tokenizer, config: BertConfig, directory: Path) -> tuple[str, ...]:
    entries, rows = tokenizer.vocab_size, config.vocab_size
    if entries > rows:
        raise ValueError(
            f"{directory}: the vocabulary has {entries:,} entries, but the model only {rows:,} "
            f"rows (vocab_size in {CONFIG}): they do not belong together"
        )
    if entries < rows:
        return (f"{rows - entries:,} rows of the token embedding stand for no vocabulary entry",)
    return ()
