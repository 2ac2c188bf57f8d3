"""Hugging Face tokenizer files <-> a vocabulary and its config; and the native tokenizer.

Reads `tokenizer.json`, `vocab.txt` and `tokenizer_config.json` of any BERT, and writes them so that
`transformers` takes them. It does not encode.

Source: the files that `transformers` and `tokenizers` write; google-research/bert's vocab.txt.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as NativeTokenizer

from bertsmith import files
from bertsmith.text.rules import TokenizerConfig, UnicodeForm

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_FORMS: Mapping[str, UnicodeForm] = {"NFC": "NFC", "NFD": "NFD", "NFKC": "NFKC", "NFKD": "NFKD"}
_OWN_KEY = "bertsmith"
_CAPITAL = re.compile("[A-ZÀ-ÖØ-Þ]")
_SYLLABLE = re.compile("[가-힣]")


def read(path: Path) -> tuple[list[str], TokenizerConfig]:
    """The vocabulary and config found in a directory or in one of its files.

    A choice is taken from, in this order: the config that bertsmith wrote, `tokenizer_config.json`,
    the normalizer of `tokenizer.json`, the vocabulary's own look. Raises FileNotFoundError and
    ValueError.
    """
    directory = path if path.is_dir() else path.parent
    vocabulary_file, json_file = directory / "vocab.txt", directory / "tokenizer.json"
    if path.is_file():
        is_json = path.suffix == ".json"
        vocabulary_file, json_file = (path.parent / "", path) if is_json else (path, path / "")
    if not vocabulary_file.is_file() and not json_file.is_file():
        raise FileNotFoundError(
            f"no vocabulary at {path}: expected a directory with tokenizer.json or vocab.txt, or "
            f"one of these files"
        )
    choices: dict[str, object] = {}
    vocabulary: list[str] = []
    if json_file.is_file():
        vocabulary, choices = _read_tokenizer_json(json_file)
    if vocabulary_file.is_file():
        vocabulary = _longer(vocabulary, _read_vocabulary(vocabulary_file))
    settings = _read_json(directory / "tokenizer_config.json")
    return vocabulary, _config(vocabulary, choices, settings)


def write(directory: Path, vocabulary: Sequence[str], config: TokenizerConfig) -> None:
    """Writes vocab.txt, tokenizer.json, tokenizer_config.json and special_tokens_map.json."""
    for row, token in enumerate(vocabulary):
        if "\n" in token or "\r" in token:
            raise ValueError(f"vocabulary row {row}, {token!r}, holds a line break")
    ids = {token: row for row, token in enumerate(vocabulary)}
    native = native_tokenizer(ids, config, for_library=True)
    names = {f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS}
    files.write_text(directory / "vocab.txt", "".join(f"{token}\n" for token in vocabulary))
    files.write_text(directory / "tokenizer.json", native.to_str(pretty=True) + "\n")
    files.write_json(directory / "special_tokens_map.json", names)
    settings: dict[str, object] = {
        # The class that takes tokenizer.json as it stands; BertTokenizer rebuilds it by its rules.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "do_lower_case": config.lowercase,
        "strip_accents": config.strip_accents,
        "tokenize_chinese_chars": config.split_cjk,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": True,
        **names,
        _OWN_KEY: dataclasses.asdict(config),
    }
    files.write_json(directory / "tokenizer_config.json", settings)


def native_tokenizer(
    ids: Mapping[str, int], config: TokenizerConfig, *, for_library: bool = False
) -> NativeTokenizer:
    """The library's tokenizer for a text already in its Unicode form, knowing no special tokens.

    `for_library` makes it whole, to be written: Unicode form, special tokens, `[CLS]` and `[SEP]`.
    """
    model = models.WordPiece(
        dict(ids), unk_token="[UNK]", max_input_chars_per_word=config.word_limit
    )
    native = NativeTokenizer(model)
    bert = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=config.split_cjk,
        strip_accents=config.strip_accents,
        lowercase=config.lowercase,
    )
    native.normalizer = bert
    native.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if not for_library:
        return native
    if config.unicode_form != "none":
        form = getattr(normalizers, config.unicode_form)()
        native.normalizer = normalizers.Sequence([form, bert])
    native.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    native.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    native.add_special_tokens(list(SPECIAL_TOKENS))
    native.add_tokens([AddedToken(token, normalized=False) for token in config.added_tokens])
    return native


def _read_vocabulary(path: Path) -> list[str]:
    """One entry a line; the line's number is the row."""
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from error
    if lines[-1] == "":
        del lines[-1]
    return [line.removesuffix("\r") for line in lines]


def _longer(first: list[str], second: list[str]) -> list[str]:
    """Both files hold the same rows; added tokens stand in tokenizer.json only."""
    return first if len(first) >= len(second) else second


def _read_json(path: Path) -> dict[str, object]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds {type(value).__name__}, expected a JSON object")
    return value


def _read_tokenizer_json(path: Path) -> tuple[list[str], dict[str, object]]:
    value = _read_json(path)
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
    choices = _normalizer_choices(value.get("normalizer"), path)
    choices["added_tokens"] = tuple(token for token in extra if token not in SPECIAL_TOKENS)
    return vocabulary, choices


def _no_wordpiece(path: Path, kind: object) -> str:
    return (
        f"{path} holds a {kind or 'nameless'} model, expected WordPiece: it is not the tokenizer "
        f"of a BERT; choose a BERT's tokenizer.json or vocab.txt"
    )


def _normalizer_choices(normalizer: object, path: Path) -> dict[str, object]:
    """What a library normalizer, or a sequence of them, means in our terms."""
    steps = [normalizer] if isinstance(normalizer, dict) else []
    if steps and steps[0].get("type") == "Sequence":
        steps = list(steps[0]["normalizers"])
    choices: dict[str, object] = dict(lowercase=False, strip_accents=False, split_cjk=False)
    for step in steps:
        kind = str(step.get("type"))
        if kind == "BertNormalizer":
            accents = step.get("strip_accents")
            choices["lowercase"] = step.get("lowercase", True)
            choices["strip_accents"] = choices["lowercase"] if accents is None else accents
            choices["split_cjk"] = step.get("handle_chinese_chars", True)
        elif kind in ("Lowercase", "StripAccents"):
            choices["lowercase" if kind == "Lowercase" else "strip_accents"] = True
        elif kind in _FORMS:
            choices["unicode_form"] = _FORMS[kind]
        else:
            raise ValueError(
                f"{path}: normalizer {kind!r} is none that a BERT has; known are BertNormalizer, "
                f"Lowercase, StripAccents and {', '.join(_FORMS)}"
            )
    return choices if steps else {}


def _config(
    vocabulary: Sequence[str], choices: dict[str, object], settings: Mapping[str, object]
) -> TokenizerConfig:
    own = settings.get(_OWN_KEY)
    if isinstance(own, dict):
        return TokenizerConfig(**{**own, "added_tokens": tuple(own.get("added_tokens", ()))})
    words = [token for token in vocabulary if not token.startswith("[")]
    is_cased = any(_CAPITAL.search(word) for word in words)
    merged = dict(choices)
    for name, key in (
        ("lowercase", "do_lower_case"),
        ("strip_accents", "strip_accents"),
        ("split_cjk", "tokenize_chinese_chars"),
    ):
        if settings.get(key) is not None:
            merged[name] = settings[key]
    if "do_lower_case" in settings and settings.get("strip_accents", False) is None:
        merged["strip_accents"] = settings["do_lower_case"]
    merged.setdefault("lowercase", not is_cased)
    merged.setdefault(
        "strip_accents", merged["lowercase"] and not any(map(_SYLLABLE.search, words))
    )
    return TokenizerConfig(**merged)  # type: ignore[arg-type]
