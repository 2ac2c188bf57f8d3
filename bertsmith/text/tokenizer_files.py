"""Hugging Face tokenizer files <-> a vocabulary and its config.

Reads `tokenizer.json`, `vocab.txt` and `tokenizer_config.json` of any BERT, and writes them so that
`transformers` takes them. It does not encode.

Source: the files that `transformers` and `tokenizers` write; google-research/bert's vocab.txt.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from tokenizers import AddedToken, decoders, normalizers, processors
from tokenizers import Tokenizer as NativeTokenizer

from bertsmith import files
from bertsmith.text import vocab_txt
from bertsmith.text.library_wordpiece import native_tokenizer
from bertsmith.text.rules import SPECIAL_TOKENS, TokenizerConfig

_FORM_NORMALIZERS = {
    "NFC": normalizers.NFC,
    "NFD": normalizers.NFD,
    "NFKC": normalizers.NFKC,
    "NFKD": normalizers.NFKD,
}
_OWN_KEY = "bertsmith"
_TOLD = 3
_SETTINGS = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "split_cjk": "tokenize_chinese_chars",
}


def read(path: Path) -> tuple[list[str], TokenizerConfig, tuple[str, ...]]:
    """The vocabulary and config found in a directory or in one of its files, and notes on them.

    A choice is taken from, in this order: the config that bertsmith wrote, `tokenizer_config.json`,
    the normalizer of `tokenizer.json`, the vocabulary's own look. Raises FileNotFoundError and
    ValueError.
    """
    directory = path if path.is_dir() else path.parent
    json_file, vocabulary_file = directory / "tokenizer.json", directory / "vocab.txt"
    has_json, has_vocabulary = json_file.is_file(), vocabulary_file.is_file()
    if path.is_file():
        json_file = vocabulary_file = path
        has_json, has_vocabulary = path.suffix == ".json", path.suffix != ".json"
    if not has_json and not has_vocabulary:
        raise FileNotFoundError(
            f"no vocabulary at {path}: expected a directory with tokenizer.json or vocab.txt, or "
            f"one of these files"
        )
    settings_file = directory / "tokenizer_config.json"
    settings = files.read_json(settings_file) if settings_file.is_file() else {}
    vocabulary, choices, added = (
        _read_tokenizer_json(json_file) if has_json else _read_vocabulary(vocabulary_file, settings)
    )
    if settings.get("tokenizer_class") == "BertJapaneseTokenizer":
        raise ValueError(
            f"{settings_file}: BertJapaneseTokenizer finds words with a dictionary, which is not "
            f"here; choose a BERT whose tokenizer_class is BertTokenizer"
        )
    config = _config(vocabulary, choices, settings, settings_file)
    return vocabulary, config, tuple(_notes_on_added(added, config))


def write(
    directory: Path,
    vocabulary: Sequence[str],
    config: TokenizerConfig,
    max_tokens: int | None = None,
) -> None:
    """Writes tokenizer.json, special_tokens_map.json, tokenizer_config.json, and last vocab.txt.

    `max_tokens` is where other libraries cut when they are asked to cut.

    An older vocab.txt is removed first: where one stands, the save beside it is complete.
    """
    for row, token in enumerate(vocabulary):
        if "\n" in token or "\r" in token:
            raise ValueError(f"vocabulary row {row}, {token!r}, holds a line break")
    names = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS}
    vocabulary_file = directory / "vocab.txt"
    vocabulary_file.unlink(missing_ok=True)
    files.write_text(
        directory / "tokenizer.json", _for_library(vocabulary, config).to_str(pretty=True) + "\n"
    )
    files.write_json(directory / "special_tokens_map.json", names)
    settings: dict[str, object] = {
        # The class that takes tokenizer.json as it stands; BertTokenizer rebuilds it by its rules.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "do_lower_case": config.lowercase,
        "strip_accents": config.strip_accents,
        "tokenize_chinese_chars": config.split_cjk,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": True,
        **({} if max_tokens is None else {"model_max_length": max_tokens}),
        **names,
        _OWN_KEY: dataclasses.asdict(config),
    }
    files.write_json(directory / "tokenizer_config.json", settings)
    files.write_text(vocabulary_file, "".join(f"{token}\n" for token in vocabulary))


def _for_library(vocabulary: Sequence[str], config: TokenizerConfig) -> NativeTokenizer:
    """The native tokenizer made whole: Unicode form, special tokens, `[CLS]` and `[SEP]` around."""
    row_of = {token: row for row, token in enumerate(vocabulary)}
    native = native_tokenizer(row_of, config)
    if config.unicode_form != "none":
        form = _FORM_NORMALIZERS[config.unicode_form]()
        native.normalizer = normalizers.Sequence([form, native.normalizer])
    native.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    native.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, row_of[token]) for token in ("[CLS]", "[SEP]")],
    )
    native.add_special_tokens(list(SPECIAL_TOKENS))
    native.add_tokens([AddedToken(token, normalized=False) for token in config.added_tokens])
    return native


_Added = Sequence[Mapping[str, object]]
"""Added tokens as the library writes them, with how each is to be found in a text."""


def _notes_on_added(added: _Added, config: TokenizerConfig) -> Iterator[str]:
    """Where the library finds added tokens otherwise than as they are spelt, anywhere."""
    changes = config.lowercase or config.strip_accents
    own = [each for each in added if each.get("content") in config.added_tokens]
    for names, told in (
        (
            [each for each in own if changes and each.get("normalized")],
            "as they are spelt, and in any case by the library that wrote them (normalized)",
        ),
        (
            [each for each in own if each.get("single_word")],
            "inside of words too, and as whole words alone by the library that wrote them "
            "(single_word)",
        ),
    ):
        spelt = [str(each["content"]) for each in names]
        if letters := [token for token in spelt if any(map(str.isalpha, token))]:
            more = ", ..." if len(letters) > _TOLD else ""
            yield f"added tokens ({', '.join(letters[:_TOLD])}{more}) are taken {told}"


def _read_vocabulary(
    path: Path, settings: Mapping[str, object]
) -> tuple[list[str], dict[str, object], _Added]:
    """A vocab.txt and the tokens added to it, which are to be taken whole."""
    added = vocab_txt.added_tokens(path.parent, settings)
    vocabulary = vocab_txt.with_added(vocab_txt.read(path), added, path.parent)
    whole = tuple(token for token in added if token not in SPECIAL_TOKENS)
    return vocabulary, {"added_tokens": whole}, vocab_txt.with_rules(settings)


def _read_tokenizer_json(path: Path) -> tuple[list[str], dict[str, object], _Added]:
    value = files.read_json(path)
    model = value.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict):
        kind = model.get("type") if isinstance(model, dict) else None
        raise ValueError(_no_wordpiece(path, kind))
    # Files of old library versions name no type; only WordPiece has a prefix and a longest word.
    if model.get("type", "WordPiece") != "WordPiece" or "max_input_chars_per_word" not in model:
        raise ValueError(_no_wordpiece(path, model.get("type")))
    if model.get("continuing_subword_prefix", "##") != "##":
        raise ValueError(
            f"{path}: continuing_subword_prefix is {model['continuing_subword_prefix']!r}, a BERT "
            f"vocabulary has '##'"
        )
    rows: dict[str, int] = dict(model["vocab"])
    added = value.get("added_tokens")
    extra = (
        {str(token["content"]): token["id"] for token in added} if isinstance(added, list) else {}
    )
    rows |= extra
    vocabulary = [f"[row {row}]" for row in range(max(rows.values(), default=-1) + 1)]
    for token, row in rows.items():
        vocabulary[row] = token
    splitter = value.get("pre_tokenizer")
    if not isinstance(splitter, dict) or splitter.get("type") != "BertPreTokenizer":
        kind = splitter.get("type") if isinstance(splitter, dict) else None
        raise ValueError(f"{path}: pre_tokenizer is {kind}, a BERT has BertPreTokenizer")
    choices = _normalizer_choices(value.get("normalizer"), path)
    choices["added_tokens"] = tuple(token for token in extra if token not in SPECIAL_TOKENS)
    return vocabulary, choices, added if isinstance(added, list) else []


def _no_wordpiece(path: Path, kind: object) -> str:
    return (
        f"{path} holds a {kind or 'nameless'} model, expected WordPiece: it is not the tokenizer "
        f"of a BERT; choose a BERT's tokenizer.json or vocab.txt"
    )


def _normalizer_choices(normalizer: object, path: Path) -> dict[str, object]:
    """What a library normalizer, or a sequence of them, means in our terms; None: unsaid."""
    steps = [normalizer] if isinstance(normalizer, dict) else []
    if steps and steps[0].get("type") == "Sequence":
        steps = list(steps[0]["normalizers"])
    choices: dict[str, object] = {
        "lowercase": False, "strip_accents": False, "split_cjk": False, "unicode_form": "none",
    }  # fmt: skip
    for step in steps:
        kind = str(step.get("type"))
        if kind == "BertNormalizer":
            choices["lowercase"] = step.get("lowercase", True)
            choices["strip_accents"] = step.get("strip_accents")
            choices["split_cjk"] = step.get("handle_chinese_chars", True)
        elif kind in ("Lowercase", "StripAccents"):
            choices["lowercase" if kind == "Lowercase" else "strip_accents"] = True
        elif kind in _FORM_NORMALIZERS:
            choices["unicode_form"] = kind
        else:
            raise ValueError(
                f"{path}: normalizer {kind!r} is none that a BERT has; known are BertNormalizer, "
                f"Lowercase, StripAccents and {', '.join(_FORM_NORMALIZERS)}"
            )
    return choices


def _config(
    vocabulary: Sequence[str],
    choices: Mapping[str, object],
    settings: Mapping[str, object],
    settings_file: Path,
) -> TokenizerConfig:
    """The config written by bertsmith, or what the files say, or what the vocabulary looks like."""
    own = settings.get(_OWN_KEY)
    if isinstance(own, dict):
        _require_known(own, settings_file)
        own = {**own, "added_tokens": tuple(own.get("added_tokens", ()))}
        try:
            return TokenizerConfig(**own)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{settings_file}: {_OWN_KEY}: {error}") from error
    merged = dict(choices)
    for name, key in _SETTINGS.items():
        if settings.get(key) is not None:
            merged[name] = settings[key]
    added = cast(tuple[str, ...], choices["added_tokens"])
    words = [token for token in vocabulary if not token.startswith("[") and token not in added]
    is_said = "lowercase" in merged
    if not is_said:
        merged["lowercase"] = not vocab_txt.has_capitals(words)
    if merged.get("strip_accents") is None:
        is_whole = not is_said and vocab_txt.has_syllables(words)
        merged["strip_accents"] = merged["lowercase"] and not is_whole
    # A normalizer has said its form. Stripping accents takes syllables apart anyhow.
    if not merged["strip_accents"] and vocab_txt.is_decomposed(words):
        merged.setdefault("unicode_form", "NFKD")
    return TokenizerConfig(**merged)  # type: ignore[arg-type]


def _require_known(own: Mapping[str, object], path: Path) -> None:
    names = [field.name for field in dataclasses.fields(TokenizerConfig)]
    if unknown := [name for name in own if name not in names]:
        near = difflib.get_close_matches(unknown[0], names, n=1)
        raise ValueError(
            f"{path}: {_OWN_KEY}.{unknown[0]} is no choice of this version of bertsmith; "
            + (f"did you mean {near[0]}? " if near else "")
            + f"Known are {', '.join(names)}"
        )
