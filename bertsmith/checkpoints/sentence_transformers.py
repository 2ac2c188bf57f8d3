"""A sentence-transformers directory -> how its vectors are pooled, and where its encoder lies.

`modules.json` names a chain of modules: an encoder, a pooling, perhaps a normalisation. What this
package's own path computes is read. Of what it does not compute the reason is read: the encoder can
be used, and no vector is made that would be another than its author's.

Source: sentence-transformers, SentenceTransformer.save and its Pooling module's config.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from bertsmith.files import read_json, write_json, write_text
from bertsmith.model.sentence import Pooling, SentenceConfig, Similarity

MODULES = "modules.json"
SETTINGS = "sentence_bert_config.json"
_NO_LENGTH = 10**9
VECTORS = "config_sentence_transformers.json"
FILES = (
    MODULES, SETTINGS, VECTORS, "*_Pooling/config.json", "0_*/*.json", "0_*/*.txt",
    "0_*/*.safetensors",
)  # fmt: skip
"""What a download must hold beside the encoder's files; old ones keep these in a folder."""
PICKLED_FILES = ("0_*/pytorch_model*.bin",)
"""The weights of old ones, for a download that has no others."""

_ENCODERS = ("Transformer", "BERT")  # the second in the oldest directories
# In the order in which sentence-transformers lays several side by side.
_MODES: dict[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
}


def encoder_directory(directory: Path) -> Path:
    """Where the encoder's own files lie: in the directory, or in the first module's of old ones."""
    for kind, path in _modules(directory) if (directory / MODULES).is_file() else ():
        if kind in _ENCODERS:
            return directory / path
    return directory


class _OtherVectorsError(ValueError):
    """What this package computes would not be the vectors that the directory describes."""


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
    except _OtherVectorsError as error:
        return SentenceConfig(max_tokens=_max_tokens(directory), refusal=str(error))


def _read(directory: Path) -> SentenceConfig:
    _check_case(directory)
    pooling: tuple[Pooling, ...] = ()
    is_normalized, is_prompt_pooled = False, True
    for kind, path in _modules(directory):
        if kind == "Pooling":
            file = directory / path / "config.json"
            content = read_json(file)
            pooling += _pooling(content, file)
            is_prompt_pooled = bool(content.get("include_prompt", True))
        elif kind == "Normalize":
            is_normalized = True
        elif kind not in _ENCODERS:
            raise _OtherVectorsError(
                f"{directory / MODULES}: the module {path or kind!r} ({kind}) is none of "
                f"Transformer, Pooling and Normalize; without it the vectors would be others"
            )
    return SentenceConfig(
        pooling=pooling or ("mean",),
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


def _pooling(content: Mapping[str, object], file: Path) -> tuple[Pooling, ...]:
    if named := content.get("pooling_mode"):  # since version 6: a name, or several in their order
        asked = [str(mode) for mode in (named if isinstance(named, list) else [named])]
    else:
        asked = [mode for key, mode in _MODES.items() if content.get(key)]
        asked += sorted(
            key
            for key in content.keys() - _MODES
            if key.startswith("pooling_mode") and content[key]
        )
    known = get_args(Pooling)
    if unknown := [mode for mode in asked if mode not in known]:
        raise _OtherVectorsError(
            f"{file} asks for {', '.join(unknown)}; the poolings made here are {', '.join(known)}"
        )
    return tuple(mode for each in asked for mode in known if mode == each)


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
        raise _OtherVectorsError(
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
        raise _OtherVectorsError(
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
    tokenizer's settings.
    """
    chain = ["Transformer", "Pooling", *(["Normalize"] if config.is_normalized else [])]
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
    asked: dict[str, object] = {name: each in config.pooling for name, each in _MODES.items()}
    if config.pooling != tuple(each for each in _MODES.values() if each in config.pooling):
        asked = {"pooling_mode": list(config.pooling)}
    pooling = {
        "word_embedding_dimension": hidden_size,
        **asked,
        "include_prompt": config.is_prompt_pooled,
    }
    write_json(directory / "1_Pooling" / "config.json", pooling)
    write_json(directory / SETTINGS, {"max_seq_length": config.max_tokens, "do_lower_case": False})
    vectors = {
        "prompts": dict(config.prompts),
        "default_prompt_name": None,
        "similarity_fn_name": config.similarity,
    }
    write_json(directory / VECTORS, vectors)
