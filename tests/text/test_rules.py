from __future__ import annotations

import itertools
import unicodedata
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.text.library_wordpiece import LibraryWordPiece
from bertsmith.text.rules import TokenizerConfig, exact_words, rare_characters, word_pieces
from tests.text.original import basic_tokens, wordpiece_tokens
from tests.text.texts import NASTY_TEXTS

SWITCHES = list(itertools.product((False, True), repeat=2))
# Large blocks in which all characters behave alike; their ends are walked through.
ALIKE = (
    (0x3500, 0x4D00), (0x4F00, 0x9F00), (0xAD00, 0xD700), (0xE100, 0xF800), (0x17100, 0x18000),
    (0x20100, 0x2A600), (0x2A800, 0x2B700), (0x2B900, 0x2CE00), (0x2D000, 0x2F700),
    (0x2FB00, 0xE0000), (0xE0200, 0xF0000), (0xF0100, 0x10FF00),
)  # fmt: skip


@cache
def every_kind_of_character() -> list[str]:
    return [
        chr(code)
        for code in range(0x110000)
        if not 0xD800 <= code < 0xE000 and not any(first <= code < last for first, last in ALIKE)
    ]


@pytest.mark.parametrize(("lowercase", "strip_accents"), SWITCHES)
def test_every_character_is_taken_as_the_original_takes_it(
    lowercase: bool, strip_accents: bool
) -> None:
    config = TokenizerConfig(lowercase=lowercase, strip_accents=strip_accents)
    encoder = LibraryWordPiece({"[UNK]": 0}, 0, config)
    rare = rare_characters(config)
    characters = every_kind_of_character()
    native = [c for c in characters if not rare.search(c)]
    assert 30_000 < len(native) < len(characters)
    for group in (native, [c for c in characters if rare.search(c)]):
        text = " ".join(f"a{character}B" for character in group)
        words = [word for word, _ in encoder.words(text)]
        assert words == basic_tokens(text, lowercase=lowercase, strip_accents=strip_accents)


def test_common_text_is_not_rare() -> None:
    text = "Straße, naïve — “quoted”… 피곤해 보이네. 日本語 カタカナ 😀 👩\u200d👩 ∑ x² ½ € §"
    assert rare_characters(TokenizerConfig()).search(text) is None
    text = "Привет Ελλάδα ΣΩΚΡΑΤΗΣΑΣΤΡΟ עברית العربية हिन्दी ไทย"
    assert rare_characters(TokenizerConfig()).search(text) is None


@settings(max_examples=400)
@given(NASTY_TEXTS, st.sampled_from(SWITCHES), st.booleans())
def test_exact_words_are_the_originals(
    text: str, switches: tuple[bool, bool], split_cjk: bool
) -> None:
    lowercase, strip_accents = switches
    config = TokenizerConfig(lowercase=lowercase, strip_accents=strip_accents, split_cjk=split_cjk)
    assert [word.text for word in exact_words(text, config)] == basic_tokens(
        text, lowercase=lowercase, strip_accents=strip_accents, split_cjk=split_cjk
    )


@given(NASTY_TEXTS)
def test_every_character_of_an_exact_word_knows_its_source(text: str) -> None:
    for word in exact_words(text, TokenizerConfig()):
        assert len(word.positions) == len(word.text)
        for character, position in zip(word.text, word.positions, strict=True):
            source = unicodedata.normalize("NFD", text[position].lower()).replace("σ", "ς")
            assert character.replace("σ", "ς") in source


@given(st.text("abc", max_size=12), st.integers(1, 12))
def test_word_pieces_are_the_originals(word: str, longest: int) -> None:
    vocabulary = ["[UNK]", "a", "ab", "abc", "##a", "##b", "##bc", "##cab", "c"]
    ids = {token: row for row, token in enumerate(vocabulary)}
    pieces = word_pieces(word, ids, 0, longest)
    assert [vocabulary[id] for id, _ in pieces] == wordpiece_tokens([word], ids, longest)
    assert sum(length for _, length in pieces) == len(word)


def test_meaningless_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="unicode_form must be one of"):
        TokenizerConfig(unicode_form="nfc")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="longest_word must be at least 1"):
        TokenizerConfig(longest_word=0)
