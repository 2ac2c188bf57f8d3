"""The original's tokenizer, restated plainly and without spans: the oracle of the tests here.

Source: google-research/bert, tokenization.py.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator

CJK_BLOCKS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


def basic_tokens(
    text: str, *, lowercase: bool, strip_accents: bool, split_cjk: bool = True, form: str = "none"
) -> list[str]:
    if form != "none":
        text = unicodedata.normalize(form, text)
    text = "".join(cleaned(text))
    if split_cjk:
        text = "".join(f" {c} " if is_cjk(c) else c for c in text)
    words: list[str] = []
    for word in text.split():
        if lowercase:
            word = word.lower()
        if strip_accents:
            decomposed = unicodedata.normalize("NFD", word)
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        words += "".join(f" {c} " if is_punctuation(c) else c for c in word).split()
    return words


def wordpiece_tokens(
    words: list[str], vocabulary: Collection[str], longest_word: int = 200
) -> list[str]:
    tokens: list[str] = []
    for word in words:
        pieces: list[str] = []
        rest = word
        while rest and len(word) <= longest_word:
            prefix = "##" if pieces else ""
            candidates = (prefix + rest[:end] for end in range(len(rest), 0, -1))
            piece = next((c for c in candidates if c in vocabulary), None)
            if piece is None:
                break
            pieces.append(piece)
            rest = rest[len(piece) - len(prefix) :]
        tokens += ["[UNK]"] if rest else pieces
    return tokens


def cleaned(text: str) -> Iterator[str]:
    for character in text:
        category = unicodedata.category(character)
        if character in " \t\n\r" or category == "Zs":
            yield " "
        elif character not in "\0\ufffd" and category not in ("Cc", "Cf"):
            yield character


def is_cjk(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in CJK_BLOCKS)


def is_punctuation(character: str) -> bool:
    code = ord(character)
    is_ascii_sign = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return is_ascii_sign or unicodedata.category(character).startswith("P")
