from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from bertsmith.text.library_wordpiece import LibraryWordPiece
from bertsmith.text.rules import TokenizerConfig, rare_characters
from tests.text.test_tokenizer import CONFIGS
from tests.text.texts import NASTY_TEXTS, VOCABULARY

ROWS = {token: row for row, token in enumerate(VOCABULARY)}


def exact_wordpiece(config: TokenizerConfig) -> LibraryWordPiece:
    """One that gives every text to the rules."""
    exact = LibraryWordPiece(ROWS, ROWS["[UNK]"], config)
    exact._needs_exact = lambda text: True  # type: ignore[method-assign]
    return exact


@settings(max_examples=400)
@given(NASTY_TEXTS, CONFIGS)
def test_the_library_equals_the_rules_in_everything(text: str, config: TokenizerConfig) -> None:
    config = replace(config, unicode_form="none")
    text = rare_characters(config).sub(" ", text)
    library, exact = LibraryWordPiece(ROWS, ROWS["[UNK]"], config), exact_wordpiece(config)
    for left, right in zip(library.encode([text]), exact.encode([text]), strict=True):
        assert left.tolist() == right.tolist()
    assert library.words(text) == exact.words(text)
    for left, right in zip(
        library.ids([text, "a", text]), exact.ids([text, "a", text]), strict=True
    ):
        assert left.tolist() == right.tolist()
