from __future__ import annotations

import string
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.corpus.word_memory import WordMemory
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig

LETTERS = [*string.ascii_letters, *string.digits, *string.punctuation, *"éΣσς“”…—中日피곤ㄱ"]
WORDS = ["the", "cat", "##s", "피곤", "##해", "don", "##t"]
VOCABULARY = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *("##" + one for one in LETTERS),
    *WORDS, "cat-s", "a b",
]  # fmt: skip
TRAPS = [
    "", " ", "\n", "\t", ",", ", ,", "cats", "a,b", "ΑΣ", "ΑΣ.Β", "[MASK]", "[SEP]", "\u0301",
    "=\u0338", "≠", "\u037e", "\u00a0", "\u0085", "\u200b", "\ufffd", "\x00", "\x1c", "İ", "ﬁ",
    "２,３", "\ue000", "don't", "x" * 300, "中日", "피곤해", "１", "a" * 30,
]  # fmt: skip
CONFIGS = [
    TokenizerConfig(),
    TokenizerConfig(lowercase=False, strip_accents=False),
    TokenizerConfig(unicode_form="NFC", strip_accents=False),
    TokenizerConfig(unicode_form="NFKD", lowercase=False),
    TokenizerConfig(special_tokens_in_text=True),
    TokenizerConfig(library_rules=True),
    TokenizerConfig(added_tokens=("cat-s", "a b")),
]
TEXTS = st.lists(
    st.lists(
        st.one_of(st.sampled_from(TRAPS), st.sampled_from(WORDS), st.text(max_size=6)), max_size=8
    ).map(lambda parts: "".join(parts) if len(parts) % 2 else " ".join(parts)),
    max_size=6,
)


def assert_equal_ids(memory: WordMemory, tokenizer: Tokenizer, texts: list[str]) -> None:
    flat, counts = memory.ids(texts)
    expected_flat, expected_counts = tokenizer.ids(texts)
    assert counts.tolist() == expected_counts.tolist()
    assert flat.tolist() == expected_flat.tolist()


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@settings(deadline=None, max_examples=60)
@given(texts=TEXTS)
def test_the_ids_are_the_tokenizers(config: TokenizerConfig, texts: list[str]) -> None:
    tokenizer = Tokenizer(VOCABULARY, config)
    memory = WordMemory(tokenizer)
    for _ in range(2):  # unknown, then remembered
        assert_equal_ids(memory, tokenizer, texts)


def test_every_pair_of_traps_gives_the_tokenizers_ids() -> None:
    for config in CONFIGS:
        tokenizer = Tokenizer(VOCABULARY, config)
        texts = [one + glue + other for one in TRAPS for other in TRAPS for glue in ("", " ", ".")]
        assert_equal_ids(WordMemory(tokenizer), tokenizer, texts)


def test_a_vocabulary_without_a_comma_works_too() -> None:
    tokenizer = Tokenizer([token for token in VOCABULARY if token not in (",", "##,")])
    assert_equal_ids(WordMemory(tokenizer), tokenizer, ["cats, the cats", ",", "a , b"])


def test_forgetting_changes_nothing() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    memory = WordMemory(tokenizer, most_words=12)
    texts = [f"the cat number {number} and a{number} don't" for number in range(30)]
    for text in texts + texts:
        assert_equal_ids(memory, tokenizer, [text, "cats"])
        assert len(memory._known) + len(memory._older) <= 40


def test_a_word_that_keeps_coming_back_is_not_encoded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = WordMemory(Tokenizer(VOCABULARY), most_words=16)
    encoded: list[str] = []
    encode = memory._encoded
    monkeypatch.setattr(memory, "_encoded", lambda words: encoded.extend(words) or encode(words))
    for number in range(30):
        memory.ids([f"cats a{number}"])
    assert encoded.count("cats") == 1
    assert len(set(encoded)) == 31


def test_words_too_long_to_meet_again_are_not_kept() -> None:
    memory = WordMemory(Tokenizer(VOCABULARY))
    memory.ids(["cats " + "中" * 40])
    assert "cats" in memory._known
    assert max(map(len, memory._known)) < 40


def test_no_character_but_the_comma_decomposes_into_one() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if character != ",":
            assert "," not in unicodedata.normalize("NFD", character)
