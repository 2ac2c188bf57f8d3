"""google-research/bert's tokenizer, restated plainly: a text -> its tokens.

It was written from the original and shares no code with the rest of the package: golden values are
made with it, and a certified model's vocabulary runs through it. Lower-casing, accent stripping and
the splitting of Chinese characters, one choice in the original, are three here.

Source: google-research/bert, tokenization.py, as of 2019-03-28 and later.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Container
from dataclasses import dataclass

MAX_INPUT_CHARS_PER_WORD = 200

_CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The original's `do_lower_case` is both of the first two."""

    lowercase: bool
    strip_accents: bool
    split_cjk: bool = True


UNCASED = Rules(lowercase=True, strip_accents=True)
CASED = Rules(lowercase=False, strip_accents=False)


def tokenize(text: str, vocabulary: Container[str], rules: Rules) -> list[str]:
    """FullTokenizer.tokenize."""
    return [piece for word in basic_tokenize(text, rules) for piece in wordpieces(word, vocabulary)]


def basic_tokenize(text: str, rules: Rules) -> list[str]:
    """BasicTokenizer.tokenize: the words of a text."""
    text = _clean_text(text)
    if rules.split_cjk:
        text = "".join(f" {char} " if _is_chinese_char(ord(char)) else char for char in text)
    words: list[str] = []
    for token in text.strip().split():
        if rules.lowercase:
            token = token.lower()
        if rules.strip_accents:
            token = _run_strip_accents(token)
        words.extend(_run_split_on_punc(token))
    return " ".join(words).split()


def wordpieces(word: str, vocabulary: Container[str]) -> list[str]:
    """WordpieceTokenizer.tokenize, of one word: greedy, the longest match first."""
    if len(word) > MAX_INPUT_CHARS_PER_WORD:
        return ["[UNK]"]
    pieces: list[str] = []
    start = 0
    while start < len(word):
        end, found = len(word), None
        while start < end:
            piece = word[start:end] if start == 0 else "##" + word[start:end]
            if piece in vocabulary:
                found = piece
                break
            end -= 1
        if found is None:
            return ["[UNK]"]
        pieces.append(found)
        start = end
    return pieces


def _clean_text(text: str) -> str:
    output = []
    for char in text:
        if ord(char) in (0, 0xFFFD) or _is_control(char):
            continue
        output.append(" " if _is_whitespace(char) else char)
    return "".join(output)


def _run_strip_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(char for char in decomposed if unicodedata.category(char) != "Mn")


def _run_split_on_punc(text: str) -> list[str]:
    output: list[list[str]] = []
    start_new_word = True
    for char in text:
        if _is_punctuation(char):
            output.append([char])
            start_new_word = True
            continue
        if start_new_word:
            output.append([])
        start_new_word = False
        output[-1].append(char)
    return ["".join(characters) for characters in output]


def _is_whitespace(char: str) -> bool:
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def _is_control(char: str) -> bool:
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def _is_punctuation(char: str) -> bool:
    code = ord(char)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(char).startswith("P")


def _is_chinese_char(code: int) -> bool:
    return any(first <= code <= last for first, last in _CHINESE)
