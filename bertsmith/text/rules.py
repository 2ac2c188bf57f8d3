"""A text -> its words, by the original's rules to the letter; slow, plain, and the definition.

Almost every text is encoded by tables built from these rules, character by character, or by the
native library; only texts that no table can decide, or with a character on which the library
disagrees (`rare_characters`), come here. Positions travel along, so that every
character of a word knows which character of the text it came from. This file does not know
vocabularies beyond a mapping of pieces, nor files.

Source: google-research/bert, tokenization.py: BasicTokenizer, WordpieceTokenizer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

UnicodeForm = Literal["none", "NFC", "NFD", "NFKC", "NFKD"]

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The entries that every BERT vocabulary holds."""
NUM_SPECIAL = 2
"""Tokens around one text: `[CLS]` and `[SEP]`."""

_ORIGINAL_LONGEST_WORD = 200
_LIBRARY_LONGEST_WORD = 100


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How characters become words: everything beside the vocabulary."""

    lowercase: bool = True
    """Lower-case the text (released uncased models: on; cased and multilingual cased: off)."""
    strip_accents: bool = True
    """Decompose and drop accents (uncased: on). Breaks Hangul into jamo and strips kana's marks."""
    unicode_form: UnicodeForm = "none"
    """Unicode form to bring the text into first (original: none)."""
    split_cjk: bool = True
    """Make every Chinese character a word (original: on; Hangul and kana are never split)."""
    longest_word: int = _ORIGINAL_LONGEST_WORD
    """Words of more characters become `[UNK]` (original: 200)."""
    special_tokens_in_text: bool = False
    """Read a literal `[MASK]` and its kin in a text as the special token (original: off)."""
    added_tokens: tuple[str, ...] = ()
    """Further entries taken whole wherever they stand in a text (Hugging Face's added tokens)."""
    library_rules: bool = False
    """Keep what the `tokenizers` library does otherwise: longest word 100, special tokens in texts
    read as such, private-use characters dropped, U+2B820-U+2B91F unsplit, plain final sigma."""

    def __post_init__(self) -> None:
        """Refuses values that have no meaning."""
        if self.unicode_form not in get_args(UnicodeForm):
            raise ValueError(
                f"unicode_form must be one of {get_args(UnicodeForm)}, found {self.unicode_form!r}"
            )
        if self.longest_word < 1:
            raise ValueError(f"longest_word must be at least 1, found {self.longest_word}")

    @property
    def word_limit(self) -> int:
        """The longest word in force: `library_rules` has its own."""
        return _LIBRARY_LONGEST_WORD if self.library_rules else self.longest_word

    @property
    def reads_special_tokens(self) -> bool:
        """Whether a special token in a text is one: `library_rules` says yes."""
        return self.special_tokens_in_text or self.library_rules


class Word(NamedTuple):
    """A word after normalisation."""

    text: str
    positions: list[int]
    """Of each character: the number of the text's character that it came from."""

    def span(self, begin: int = 0, end: int | None = None) -> tuple[int, int]:
        """Of these characters of it: the range of the text's that they came from.

        Marks change places where they are decomposed, so the last need not be the farthest.
        """
        positions = self.positions[begin:end]
        return min(positions), max(positions) + 1


# Characters that the library, whose Unicode tables are of several ages, may take otherwise than
# Python: other class, other case, other decomposition. Whole blocks of ancient scripts beyond the
# basic plane, and what Unicode 14 to 17 added, are listed at once. A test walks through all others.
_RARE = (
    "\u061d\u07fd\u088f-\u089f\u08ca-\u08e2\u09fd-\u09fe\u0a76\u0afa-\u0aff\u0b55\u0c04\u0c3c\u0c77"
    "\u0c84\u0d00\u0d3b-\u0d3c\u0d81\u0eba\u0ece\u166d\u1734\u180f\u1885-\u1886\u1abf-\u1aff"
    "\u1b4e-\u1b4f\u1b7d-\u1b7f\u1c89-\u1c8a\u1df6-\u1dfb\u2e43-\u2e7f\u302e-\u302f\ua7cb-\ua7dc"
    "\ua82c\ua8c5\ua8ff\ua9bd\ud800-\uf8ff\U00010d00-\U0001cfff\U0001d165-\U0001d172"
    "\U0001e000-\U0001efff\U000f0000-\U0010ffff"
)
_RARE_CJK = "\U0002b820-\U0002b91f"
# A capital sigma is never final right before another Greek letter.
_SIGMA = "Σ(?![Α-ΡΣ-Ωα-ωά-ώ])"


def rare_characters(config: TokenizerConfig) -> re.Pattern[str]:
    """What a text must hold for the native library to be possibly wrong about it.

    Lone surrogates, which the library cannot take at all, are in it always.
    """
    if config.library_rules:
        return re.compile("[\ud800-\udfff]")
    pattern = f"[{_RARE}{_RARE_CJK}]" if config.split_cjk else f"[{_RARE}]"
    return re.compile(f"{pattern}|{_SIGMA}" if config.lowercase else pattern)


def exact_words(text: str, config: TokenizerConfig) -> list[Word]:
    """The words of a text already in the config's Unicode form.

    Source: BasicTokenizer.tokenize.
    """
    words: list[Word] = []
    for chunk in _chunks(text, config.split_cjk):
        if config.lowercase:
            chunk = _lowered(chunk)
        if config.strip_accents:
            chunk = _stripped(chunk)
        words.extend(_split_at_punctuation(chunk))
    return words


def word_pieces(
    word: str, ids: Mapping[str, int], unk_id: int, longest_word: int
) -> list[tuple[int, int]]:
    """Greedy longest match first: (id, characters covered) of each piece, or `[UNK]` for the whole.

    Source: WordpieceTokenizer.tokenize.
    """
    unknown = [(unk_id, len(word))]
    if len(word) > longest_word:
        return unknown
    pieces: list[tuple[int, int]] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        end = len(word)
        while end > start and prefix + word[start:end] not in ids:
            end -= 1
        if end == start:
            return unknown
        pieces.append((ids[prefix + word[start:end]], end - start))
        start = end
    return pieces


def _chunks(text: str, split_cjk: bool) -> Iterator[Word]:
    """Runs between blanks, cleaned of control characters; a Chinese character stands alone."""
    begin: list[tuple[str, int]] = []
    for position, character in enumerate(text):
        is_alone = split_cjk and is_ideograph(character)
        if (character.isspace() and not _is_dropped(character)) or is_alone:
            yield from _joined(begin)
            begin = []
            if is_alone:
                yield Word(character, [position])
        elif not _is_dropped(character):
            begin.append((character, position))
    yield from _joined(begin)


def _joined(characters: list[tuple[str, int]]) -> Iterator[Word]:
    if characters:
        yield Word("".join(c for c, _ in characters), [position for _, position in characters])


def _lowered(word: Word) -> Word:
    """Lower-cased as a whole, because a sigma looks at its neighbours (its length does not)."""
    lengths = [len(character.lower()) for character in word.text]
    positions = [
        p for p, length in zip(word.positions, lengths, strict=True) for _ in range(length)
    ]
    return Word(word.text.lower(), positions)


def _stripped(word: Word) -> Word:
    """Canonically decomposed, non-spacing marks dropped."""
    decomposed: list[tuple[str, int]] = []
    begin = 0
    for whole, position in zip(word.text, word.positions, strict=True):
        for character in unicodedata.normalize("NFD", whole):
            if not unicodedata.combining(character):
                decomposed[begin:] = _in_canonical_order(decomposed[begin:])
                begin = len(decomposed) + 1
            decomposed.append((character, position))
    decomposed[begin:] = _in_canonical_order(decomposed[begin:])
    kept = [pair for pair in decomposed if unicodedata.category(pair[0]) != "Mn"]
    return Word("".join(c for c, _ in kept), [position for _, position in kept])


def _in_canonical_order(marks: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(marks, key=lambda pair: unicodedata.combining(pair[0]))


def _split_at_punctuation(word: Word) -> Iterator[Word]:
    begin = 0
    for place, character in enumerate(word.text):
        if is_punctuation(character):
            if begin < place:
                yield Word(word.text[begin:place], word.positions[begin:place])
            yield Word(character, word.positions[place : place + 1])
            begin = place + 1
    if begin < len(word.text):
        yield Word(word.text[begin:], word.positions[begin:])


def is_punctuation(character: str) -> bool:
    """Unicode's punctuation and every ASCII sign that is neither letter nor digit.

    Source: tokenization.py, _is_punctuation.
    """
    if "!" <= character <= "~":
        return not character.isalnum()
    return unicodedata.category(character).startswith("P")


def _is_dropped(character: str) -> bool:
    """NUL, the replacement character, and control characters other than blanks."""
    if character in "\t\n\r":
        return False
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf")


def is_ideograph(character: str) -> bool:
    """CJK Unified and Compatibility Ideographs; source: BasicTokenizer._is_chinese_char."""
    code = ord(character)
    return code >= 0x3400 and (
        code <= 0x4DBF
        or 0x4E00 <= code <= 0x9FFF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2CEAF
        or 0x2F800 <= code <= 0x2FA1F
    )
