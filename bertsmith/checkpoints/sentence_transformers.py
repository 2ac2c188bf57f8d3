"""A sentence-transformers directory -> how its vectors are pooled, and where its encoder lies.

`modules.json` names a chain of modules: an encoder, a pooling, perhaps a dense layer and a
normalisation. What this package's own path computes is read. Of what it does not compute the reason
is read: the encoder can be used, and no vector is made that would be another than its author's.

Source: sentence-transformers, SentenceTransformer.save.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

from bertsmith.checkpoints.sentence_modules import (
    OtherVectorsError,
    check_normalize,
    read_dense,
    read_pooling,
    write_dense,
    write_pooling,
)
from bertsmith.files import read_json, write_json, write_text
from bertsmith.model.sentence import DenseConfig, Pooling, SentenceConfig, Similarity

MODULES = "modules.json"
SETTINGS = "sentence_bert_config.json"
_NO_LENGTH = 10**9
VECTORS = "config_sentence_transformers.json"
FILES = (
    MODULES, SETTINGS, VECTORS, "*_Pooling/config.json", "*_Dense/config.json",
    "*_Dense/model.safetensors", "*_Normalize/config.json", "0_*/*.json", "0_*/*.txt",
    "0_*/*.safetensors",
)  # fmt: skip
"""What a download must hold beside the encoder's files; old ones keep these in a folder."""
PICKLED_FILES = ("0_*/pytorch_model*.bin",)
"""The weights of old ones, for a download that has no others."""
PICKLED_DENSE_FILES = ("*_Dense/pytorch_model.bin",)
"""Those of a dense layer, likewise."""

_ENCODERS = ("Transformer", "BERT")  # the second in the oldest directories
_AFTER_ENCODER = ("Pooling", "Dense", "Normalize")
_ORDER = re.compile(r"((Transformer|BERT) )*(Pooling (Dense )?(Normalize )*)?")
"""Of a chain that is computed here; of length 1 twice is of length 1."""


def encoder_directory(directory: Path) -> Path:
    """Where the encoder's own files lie: in the directory, or in the first module's of old ones."""
    for kind, path in _modules(directory) if (directory / MODULES).is_file() else ():
        if kind in _ENCODERS:
            return directory / path
    return directory


def dense_directory(directory: Path) -> Path | None:
    """Where the settings and the weights of the dense layer lie; None for no such layer."""
    for kind, path in _modules(directory) if (directory / MODULES).is_file() else ():
        if kind == "Dense":
            return directory / path
    return None


def read(directory: Path) -> SentenceConfig | None:
    """What the directory says of its sentence vectors; None when it has no list of modules.

    A module, a pooling, a prompt or a lower-casing that would be left out is named in the config's
    `refusal`. Raises ValueError for broken files. Prompts that nobody has to use are handed on;
    empty ones change nothing.
    """
    if not (directory / MODULES).is_file():
        return None
    try:
        return _read(directory)
    except OtherVectorsError as error:
        return SentenceConfig(max_tokens=_max_tokens(directory), refusal=str(error))


def _read(directory: Path) -> SentenceConfig:
    _check_case(directory)
    chain = _modules(directory)
    _check_chain(chain, directory / MODULES)
    pooling: tuple[Pooling, ...] = ("mean",)
    dense: DenseConfig | None = None
    is_normalized, is_prompt_pooled = False, True
    for kind, path in chain:
        if kind == "Pooling":
            pooling, is_prompt_pooled = read_pooling(directory / path)
        elif kind == "Dense":
            dense = read_dense(directory / path)
        elif kind == "Normalize":
            check_normalize(directory / path)
            is_normalized = True
    return SentenceConfig(
        pooling=pooling,
        dense=dense,
        is_normalized=is_normalized,
        max_tokens=_max_tokens(directory),
        similarity=_similarity(directory),
        prompts=_prompts(directory, is_prompt_pooled),
        is_prompt_pooled=is_prompt_pooled,
    )


def _modules(directory: Path) -> list[tuple[str, str]]:
    """(last part of the module's type, its folder) in the chain's order."""
    file = directory / MODULES
    try:
        chain = json.loads(file.read_text(encoding="utf-8"))
        found = [(str(each["type"]).rpartition(".")[2], str(each["path"])) for each in chain]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is no list of modules with type and path: {error!r}") from error
    for _, path in found:
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise ValueError(f"{file} names {path!r}, which lies outside its directory")
    return found


def _check_chain(chain: list[tuple[str, str]], file: Path) -> None:
    """Refuses modules that are not computed here, and those in another order."""
    for kind, path in chain:
        if kind not in (*_ENCODERS, *_AFTER_ENCODER):
            raise OtherVectorsError(
                f"{file}: the module {path or kind!r} ({kind}) is none of Transformer, Pooling, "
                f"Dense and Normalize; without it the vectors would be others"
            )
    kinds = [kind for kind, _ in chain]
    if not _ORDER.fullmatch("".join(f"{kind} " for kind in kinds)):
        raise OtherVectorsError(
            f"{file}: the modules come in the order {', '.join(kinds)}; done here are a "
            f"Transformer, one Pooling, at most one Dense, and Normalize, in this order"
        )


def _check_case(directory: Path) -> None:
    """Refuses texts that are lower-cased before a tokenizer that keeps their case.

    Only the first settings and the first tokenizer's choices that are found count.
    """
    places = (encoder_directory(directory), directory)
    settings = [place / SETTINGS for place in places if (place / SETTINGS).is_file()]
    if not settings or not read_json(settings[0]).get("do_lower_case"):
        return
    choices = [place / "tokenizer_config.json" for place in places]
    found = [read_json(file) for file in choices if file.is_file()]
    if not found or found[0].get("do_lower_case") is not True:
        raise OtherVectorsError(
            f"{settings[0]} asks for lower-cased texts (do_lower_case), and tokenizer_config.json "
            f"does not say that the tokenizer makes them so; with capitals the vectors would be "
            f"others. Set do_lower_case to true there if the vocabulary is uncased"
        )


def _prompts(directory: Path, is_prompt_pooled: bool) -> tuple[tuple[str, str], ...]:
    file = directory / VECTORS
    content = read_json(file) if file.is_file() else {}
    named = content.get("prompts") or {}
    if not isinstance(named, dict) or not all(
        text is None or isinstance(text, str) for text in named.values()
    ):
        raise ValueError(f"{file}: prompts must be an object of texts, found {named!r}")
    default = content.get("default_prompt_name")
    if default is not None and named.get(default):
        advice = (
            "Set default_prompt_name to null and put the prompt before texts yourself"
            if is_prompt_pooled
            else "Nor are its tokens left out of the vector (include_prompt false): only "
            "sentence-transformers does that"
        )
        raise OtherVectorsError(
            f"{file}: its author puts the prompt {default!r} ({named[default]!r}) before each text "
            f"(default_prompt_name), which is not done here; without it the vectors would be "
            f"others. {advice}"
        )
    return tuple((str(name), text) for name, text in named.items() if text)


def _similarity(directory: Path) -> Similarity:
    """The one that is named; cosine, as in the library, where none is or it is none of these."""
    file = directory / VECTORS
    named = read_json(file).get("similarity_fn_name") if file.is_file() else None
    known: tuple[Similarity, ...] = get_args(Similarity)
    return next((each for each in known if each == named), "cosine")


def _max_tokens(directory: Path) -> int | None:
    """The length in the module's own settings, or since version 6 in the tokenizer's."""
    encoder = encoder_directory(directory)
    for file, key in (
        (directory / SETTINGS, "max_seq_length"),
        (encoder / SETTINGS, "max_seq_length"),
        (directory / "tokenizer_config.json", "model_max_length"),
        (encoder / "tokenizer_config.json", "model_max_length"),
    ):
        value = read_json(file).get(key) if file.is_file() else None
        # Where no length was set, the library writes 1e30.
        if isinstance(value, int) and not isinstance(value, bool) and value < _NO_LENGTH:
            return value
    return None


def write(directory: Path, config: SentenceConfig, hidden_size: int) -> None:
    """Writes the settings beside an encoder's files, in the form of the early versions.

    Later versions read it too. Poolings in an order other than the early versions' own are listed
    as since version 6, which the early ones refuse. `max_tokens` None leaves the length to the
    tokenizer's settings. The weights of a dense layer are `sentence_dense`'s.
    """
    has = {"Dense": config.dense is not None, "Normalize": config.is_normalized}
    chain = ["Transformer", *(kind for kind in _AFTER_ENCODER if has.get(kind, True))]
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{kind}" if number else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(chain)
    ]
    write_text(directory / MODULES, json.dumps(modules, indent=2) + "\n")
    for module in modules[1:]:
        (directory / str(module["path"])).mkdir()
    write_pooling(directory / "1_Pooling", config, hidden_size)
    if config.dense is not None:
        write_dense(directory / "2_Dense", config.dense)
    write_json(directory / SETTINGS, {"max_seq_length": config.max_tokens, "do_lower_case": False})
    vectors = {
        "prompts": dict(config.prompts),
        "default_prompt_name": None,
        "similarity_fn_name": config.similarity,
    }
    write_json(directory / VECTORS, vectors)
