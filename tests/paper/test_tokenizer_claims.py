"""Where the original's tokenizer and the `tokenizers` library part, case by case."""

from __future__ import annotations

import pytest
from tokenizers import BertWordPieceTokenizer

from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from tests.text.texts import VOCABULARY

CASES = {  # text: (the original's tokens, the library's tokens)
    "x" * 101: (["x", *["##xx"] * 50], ["[UNK]"]),
    "a\U0002b820b": (["a", "\U0002b820", "b"], ["a", "##\U0002b820", "##b"]),
    "a\ue000b": (["a", "##\ue000", "##b"], ["a", "##b"]),
    "my [MASK]": (["my", "[", "mask", "]"], ["my", "[MASK]"]),
    "ΑΣ": (["α", "##ς"], ["α", "##σ"]),
    "한": (["ᄒ", "##ᅡ", "##ᆫ"], ["ᄒ", "##ᅡ", "##ᆫ"]),
}


@pytest.fixture(scope="module")
def library() -> BertWordPieceTokenizer:
    return BertWordPieceTokenizer({token: row for row, token in enumerate(VOCABULARY)})


@pytest.mark.parametrize(("text", "original", "other"), [(k, *v) for k, v in CASES.items()])
def test_the_originals_rules_are_the_default_and_the_librarys_an_option(
    text: str, original: list[str], other: list[str], library: BertWordPieceTokenizer
) -> None:
    assert Tokenizer(VOCABULARY).tokenize(text) == original
    assert library.encode(text, add_special_tokens=False).tokens == other
    assert Tokenizer(VOCABULARY, TokenizerConfig(library_rules=True)).tokenize(text) == other
