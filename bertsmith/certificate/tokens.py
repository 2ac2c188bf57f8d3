"""Checks of a model's own tokenizer: its files, and its tokens beside the restated original's.

The vocabulary is the model's, the rules are the original's: texts in many languages must come out
the same, and the rules that popular tokenizers do not keep are asked one by one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path

from tokenizers import Tokenizer as NativeTokenizer

from bertsmith.certificate.golden import tokenization
from bertsmith.certificate.golden.texts import ORDINARY, RARE
from bertsmith.certificate.rows import Row, agreeing, outcome, skipped
from bertsmith.certificate.subject import Subject
from bertsmith.files import read_json

_ORIGINAL = "the restated original with this vocabulary"
_FILES = "the layout of `transformers` and `tokenizers`"
_SETTINGS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""In tokenizer_config.json and in the normalizer of tokenizer.json."""


def files_agree(subject: Subject) -> Row:
    """vocab.txt, tokenizer.json and tokenizer_config.json say the same."""
    name, directory = "tokenizer files agree", subject.tokenizer_directory
    vocabulary_file, json_file = directory / "vocab.txt", directory / "tokenizer.json"
    if not vocabulary_file.is_file() or not json_file.is_file():
        only = vocabulary_file if vocabulary_file.is_file() else json_file
        return skipped(name, f"only {only.name} is there", _FILES)
    lines = vocabulary_file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    content = read_json(json_file)
    rows = _rows(content)
    faults = [
        f"row {row}: vocab.txt has {line!r}, tokenizer.json {rows.get(row)!r}"
        for row, line in enumerate(lines)
        if rows.get(row) != line.removesuffix("\r")
    ]
    faults += [
        f"row {row}: {rows[row]!r} is in tokenizer.json alone"
        for row in sorted(rows)
        if row >= len(lines)
    ]
    faults += _other_settings(content, directory / "tokenizer_config.json")
    more = f" and {len(faults) - 1:,} more" if len(faults) > 1 else ""
    return Row(
        name=name,
        status=outcome(not faults),
        found=faults[0] + more if faults else f"{len(lines):,} rows",
        expected="vocab.txt = tokenizer.json, and the same settings",
        reference=_FILES,
    )


def library_ids(subject: Subject) -> Row:
    """What tokenizer.json makes of ordinary texts in the `tokenizers` library."""
    name, file = "tokenizer.json gives the same ids", subject.tokenizer_directory / "tokenizer.json"
    if not file.is_file():
        return skipped(name, "there is no tokenizer.json", _FILES)
    native = NativeTokenizer.from_file(str(file))
    native.no_truncation()
    native.no_padding()
    found, expected = {}, {}
    for label, text in ORDINARY.items():
        theirs = native.encode(text, ORDINARY["English"])
        ours = subject.tokenizer.encode(text, ORDINARY["English"])
        expected[label] = (theirs.ids, theirs.type_ids)
        found[label] = (ours.ids.tolist(), ours.segments.tolist())
    return agreeing(name, found, expected, reference=_FILES, against="the `tokenizers` library")


def ordinary_texts(subject: Subject) -> Row:
    """Texts in many languages."""
    return _beside_original(subject, "tokens of texts in many languages", ORDINARY)


def rare_rule(subject: Subject, rule: str) -> Row:
    """One of the rules that popular tokenizers do not keep."""
    texts = {f"text {number}": text for number, text in enumerate(RARE[rule], start=1)}
    return _beside_original(subject, rule, texts, difference="library_tokenizer")


def choices(subject: Subject) -> Row:
    """Case, accents and Unicode form, which the original decides by one choice."""
    config = subject.tokenizer.config
    said = [
        "lower-cased" if config.lowercase else "case kept",
        "accents stripped" if config.strip_accents else "accents kept",
    ]
    is_original = config.lowercase == config.strip_accents
    if config.unicode_form != "none":
        said.append(config.unicode_form)
    if not config.split_cjk:
        said.append("Chinese characters not split")
    if config.added_tokens:
        said.append(f"{len(config.added_tokens)} added tokens")
    return Row(
        name="tokenizer's choices",
        status=outcome(is_original and len(said) == 2),
        found=", ".join(said),
        expected="lower-cased and accents stripped, or neither",
        reference="tokenization.py, do_lower_case",
        difference="own_choice",
    )


def checks() -> list[Callable[[Subject], Row]]:
    """Every check of this file."""

    def of_rule(rule: str) -> Callable[[Subject], Row]:
        return lambda subject: rare_rule(subject, rule)

    return [files_agree, library_ids, choices, ordinary_texts, *map(of_rule, RARE)]


def _beside_original(
    subject: Subject, name: str, texts: Mapping[str, str], difference: str = ""
) -> Row:
    tokenizer = subject.tokenizer
    config, known = tokenizer.config, frozenset(tokenizer.vocabulary)
    rules = tokenization.Rules(
        lowercase=config.lowercase, strip_accents=config.strip_accents, split_cjk=config.split_cjk
    )
    found, expected = {}, {}
    for label, text in texts.items():
        if any(entry in text for entry in config.added_tokens):
            continue
        formed = text
        if config.unicode_form != "none":
            formed = unicodedata.normalize(config.unicode_form, text)
        expected[label] = tokenization.tokenize(formed, known, rules)
        found[label] = tokenizer.tokenize(text)
        # Words too: two unknown words may differ.
        expected[f"{label}, words"] = tokenization.basic_tokenize(formed, rules)
        found[f"{label}, words"] = [word for word, _ in tokenizer.words(text)]
    return agreeing(
        name,
        found,
        expected,
        reference="tokenization.py, FullTokenizer",
        against=_ORIGINAL,
        difference=difference,
    )


def _rows(content: Mapping[str, object]) -> dict[int, str]:
    """Row -> entry of a tokenizer.json."""
    model, added = content.get("model"), content.get("added_tokens")
    entries = model.get("vocab") if isinstance(model, dict) else None
    rows = {row: entry for entry, row in entries.items()} if isinstance(entries, dict) else {}
    for token in added if isinstance(added, list) else []:
        rows[token["id"]] = token["content"]
    return rows


def _other_settings(content: Mapping[str, object], settings_file: Path) -> list[str]:
    """Choices that tokenizer_config.json and tokenizer.json both name, and differently."""
    normalizer = content.get("normalizer")
    steps = normalizer.get("normalizers", [normalizer]) if isinstance(normalizer, dict) else []
    bert: Mapping[str, object] = next(
        (step for step in steps if step.get("type") == "BertNormalizer"), {}
    )
    settings = read_json(settings_file) if settings_file.is_file() else {}
    return [
        f"tokenizer_config.json has {name} {settings[name]}, tokenizer.json {bert[other]}"
        for name, other in _SETTINGS.items()
        if settings.get(name) is not None
        and bert.get(other) is not None
        and settings[name] != bert[other]
    ]
