"""`vocab.txt` and the tokens added to it -> the entries by row, and what their look tells.

A vocab.txt says nothing of case, accents or Unicode form: they are read off its entries. It does
not know `tokenizer.json`, which says all of that.

Source: google-research/bert, tokenization.py (load_vocab); `transformers`, added_tokens.json and
added_tokens_decoder of tokenizer_config.json; snunlp/KR-BERT (decomposed Hangul).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bertsmith import files
from bertsmith.text.hangul import has_decomposed_hangul, has_whole_hangul

_ADDED = "added_tokens.json"
_DECODER = "added_tokens_decoder"
_CAPITAL = re.compile("[A-ZÀ-ÖØ-Þ]")
_SHARE_OF_CASED = 0.1
"""Entries with a capital, where no capital stands by itself."""


def read(path: Path) -> list[str]:
    """One entry a line; the line's number is the row."""
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from error
    if lines[-1] == "":
        del lines[-1]
    return [line.removesuffix("\r") for line in lines]


def added_tokens(directory: Path, settings: Mapping[str, object]) -> dict[str, int]:
    """Token -> row, by added_tokens.json and by tokenizer_config.json, whose content is `settings`.

    Raises ValueError, naming the file, for what are no tokens with rows.
    """
    file = directory / _ADDED
    rows: dict[str, object] = dict(files.read_json(file)) if file.is_file() else {}
    rows |= _decoded(settings.get(_DECODER) or {}, directory / "tokenizer_config.json")
    found = {token: row for token, row in rows.items() if type(row) is int and row >= 0}
    if wrong := [f"{token!r}: {row!r}" for token, row in rows.items() if token not in found]:
        raise ValueError(f"{file} must give each token its row, a whole number; found {wrong[0]}")
    return found


def with_rules(settings: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The added tokens of tokenizer_config.json, with how the library finds each."""
    decoder = settings.get(_DECODER)
    return [dict(each) for each in decoder.values()] if isinstance(decoder, dict) else []


def with_added(entries: Sequence[str], added: Mapping[str, int], directory: Path) -> list[str]:
    """The entries with the added tokens in their rows; rows that nobody names get a name.

    Raises ValueError where a token is given the row of another entry.
    """
    last = max(added.values(), default=-1)
    placed = [*entries, *(f"[row {row}]" for row in range(len(entries), last + 1))]
    for token, row in added.items():
        if row < len(entries) and entries[row] != token:
            raise ValueError(
                f"{directory}: the added token {token!r} has row {row} ({_ADDED} or "
                f"tokenizer_config.json), where vocab.txt, of {len(entries):,} entries, has "
                f"{entries[row]!r}; the files do not belong together: copy all of them again"
            )
        placed[row] = token
    return placed


def has_capitals(words: Sequence[str]) -> bool:
    """Whether a cased text can be spelt with them, not one word or the other alone.

    A learned vocabulary has the letters of its text by themselves.
    """
    with_capitals = [word for word in words if _CAPITAL.search(word)]
    is_spelt = any(len(word.removeprefix("##")) == 1 for word in with_capitals)
    return is_spelt or len(with_capitals) > _SHARE_OF_CASED * len(words)


def has_syllables(words: Iterable[str]) -> bool:
    """Whether Hangul stands in them in whole syllables."""
    return any(map(has_whole_hangul, words))


def is_decomposed(words: Sequence[str]) -> bool:
    """Whether Hangul stands in them in jamo alone, so that no Korean text as typed can be spelt."""
    return any(map(has_decomposed_hangul, words)) and not has_syllables(words)


def _decoded(content: object, where: Path) -> dict[str, int]:
    """Token -> row of an object that lists the tokens by their rows."""
    if not isinstance(content, dict) or not all(
        str(row).isdecimal() and isinstance(token, dict) and "content" in token
        for row, token in content.items()
    ):
        raise ValueError(
            f"{where}: {_DECODER} must be an object of rows, each with its content; found "
            f"{content!r:.80}"
        )
    return {str(token["content"]): int(row) for row, token in content.items()}
