"""A vocabulary follows from the counts alone, and has the layout and alphabet it promises."""

from __future__ import annotations

import os
import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from bertsmith.text.alphabet import AlphabetConfig, choose_alphabet
from bertsmith.text.config import RELEASED_UNUSED_ROWS, VocabularyConfig
from bertsmith.text.learn import (
    learn,
    learn_vocabulary,
    special_rows,
)
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig

AUTOMATIC = AlphabetConfig(min_count=2, limit=0, tokenizer=TokenizerConfig())
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
COUNTS = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def test_small_vocabulary_is_specials_alphabet_in_both_forms_then_joins() -> None:
    vocabulary = learn_vocabulary(COUNTS, VocabularyConfig(vocab_size=29, alphabet_limit=10))
    alphabet = sorted("deilnorstw")
    assert vocabulary[:5] == SPECIAL
    assert vocabulary[5:25] == alphabet + ["##" + character for character in alphabet]
    # e s 9, es t 9, then o w before l o, both 7: "##o" sorts before "l".
    assert vocabulary[25:] == ["##es", "##est", "##ow", "low"]


def test_large_vocabulary_has_the_released_layout() -> None:
    rows = special_rows(RELEASED_UNUSED_ROWS)
    assert rows[:2] == ["[PAD]", "[unused0]"]
    assert rows[99:105] == ["[unused98]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused99]"]
    assert (rows[-1], len(rows)) == ("[unused993]", 999)
    assert VocabularyConfig(vocab_size=30_522).num_unused == RELEASED_UNUSED_ROWS
    assert VocabularyConfig(vocab_size=16_000).num_unused == 0


@pytest.mark.data
def test_released_vocabulary_begins_with_the_same_rows() -> None:
    path = Path(os.environ["BERTSMITH_DATA"]) / "vocab/bert-base-uncased/vocab.txt"
    released = path.read_text(encoding="utf-8").splitlines()
    assert released[:999] == special_rows(RELEASED_UNUSED_ROWS)
    assert released[999] == "!"


def test_order_of_the_counts_does_not_change_the_vocabulary() -> None:
    words = Counter(str(str.__doc__).split() + str(dict.__doc__).split())
    config = VocabularyConfig(vocab_size=200, min_count=1)
    expected = learn_vocabulary(words, config)
    items = list(words.items())
    for seed in range(3):
        random.Random(seed).shuffle(items)
        assert learn_vocabulary(dict(items), config) == expected


def test_alphabet_keeps_frequent_characters_up_to_the_limit_ties_by_code_point() -> None:
    counts = {"a": 9, "b": 5, "d": 5, "c": 5, "e": 1}
    config = VocabularyConfig(vocab_size=20, alphabet_limit=3, min_count=2)
    learned = learn(counts, config)
    assert learned.vocabulary[5:8] == ("a", "b", "c")
    assert (learned.num_characters_kept, learned.num_characters_dropped) == (3, 2)
    assert learned.num_unknown_words == 5 + 1


def test_characters_seen_less_than_min_count_are_dropped_and_their_words_counted() -> None:
    learned = learn({"ab": 9, "az": 1}, VocabularyConfig(vocab_size=20, alphabet_limit=5))
    assert "z" not in learned.vocabulary
    assert learned.num_unknown_words == 1


def test_automatic_alphabet_covers_the_text_and_leaves_room_for_joins() -> None:
    counts = {chr(0xAC00 + number): 1_000_000 // (number + 1) for number in range(3000)}
    learned = learn(counts, VocabularyConfig(vocab_size=3000, common_hangul=False))
    alphabet = partial(choose_alphabet, config=AUTOMATIC, num_rows=3000)
    assert len(alphabet(Counter(counts))) == 750  # in two rows each, half of all
    myanmar = {chr(0x1000 + number): times for number, times in enumerate(counts.values())}
    assert len(alphabet(Counter(myanmar))) == 500  # a third
    assert learned.num_characters_kept == (3000 - 5) // 2  # there is nothing to join
    assert alphabet(Counter({"a": 1_000_000, "b": 1_000_000, "c": 2})) == ["a", "b"]


def test_rare_hangul_is_kept_where_other_rare_characters_are_not() -> None:
    counts = Counter({"가": 1_000_000, "잤": 2, "ㅠ": 2, "ญ": 2})
    assert choose_alphabet(counts, AUTOMATIC, num_rows=100) == ["ㅠ", "가", "잤"]


@pytest.mark.parametrize("split_cjk", [True, False])
def test_an_ideograph_that_is_never_continued_takes_one_row(split_cjk: bool) -> None:
    config = VocabularyConfig(vocab_size=50, tokenizer=TokenizerConfig(split_cjk=split_cjk))
    learned = learn({"東": 5, "京": 5, "a": 5}, config)
    assert learned.vocabulary[5:8] == ("a", "京", "東")
    assert ("##東" in learned.vocabulary) is not split_cjk
    assert "##a" in learned.vocabulary


def test_rows_that_no_join_needs_go_to_characters_left_out() -> None:
    # Chinese: every ideograph a word, nothing to join; a third of the rows would leave most out.
    counts = {chr(0x4E00 + number): 6_000 - number for number in range(5_000)}
    learned = learn(counts, VocabularyConfig(vocab_size=3_000))
    assert len(learned.vocabulary) == 3_000
    assert learned.num_characters_kept == 2_995
    assert learned.num_characters_dropped == 5_000 - 2_995
    tokenizer = Tokenizer(learned.vocabulary)
    unknown = sum(n for word, n in counts.items() if tokenizer.tokenize(word) == ["[UNK]"])
    assert learned.num_unknown_words == unknown > 0
    limited = learn(counts, VocabularyConfig(vocab_size=3_000, alphabet_limit=2_900))
    assert len(limited.vocabulary) == 2_905


def test_unknown_words_are_those_the_tokenizer_cannot_spell() -> None:
    config = VocabularyConfig(
        vocab_size=40, alphabet_limit=8, tokenizer=TokenizerConfig(longest_word=6)
    )
    counts = {**COUNTS, "widening": 4, "xyz": 2}
    learned = learn(counts, config)
    tokenizer = Tokenizer(learned.vocabulary, config.tokenizer)
    unknown = sum(n for word, n in counts.items() if tokenizer.tokenize(word) == ["[UNK]"])
    assert learned.num_unknown_words == unknown > 0


def test_vocabulary_ends_early_when_no_pair_is_left() -> None:
    learned = learn({"ab": 5}, VocabularyConfig(vocab_size=100))
    assert learned.vocabulary == (*SPECIAL, "a", "b", "##a", "##b", "ab")


def test_words_beyond_the_memory_are_left_out_by_count_and_reported() -> None:
    counts = {f"{a}{b}{c}": 2 for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefgh"}
    counts["hotel"] = 7
    tight = learn(counts, VocabularyConfig(vocab_size=60, memory_bytes=2000, alphabet_limit=11))
    assert tight.min_word_count == 7
    assert tight.vocabulary[-1] == "hotel"
    assert tight.num_unknown_words == 0
    assert learn(counts, VocabularyConfig(vocab_size=60, alphabet_limit=11)).min_word_count == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 6}, "vocab_size 6"),
        ({"vocab_size": 500, "unused_rows": 600}, "600 \\[unused\\]"),
        ({"score": "luck"}, "'luck'"),
        ({"min_count": 0}, "min_count"),
        ({"alphabet_limit": -1}, "alphabet_limit"),
    ],
)
def test_contradictory_choices_are_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VocabularyConfig(**change)  # type: ignore[arg-type]


def test_no_words_and_only_rare_characters_are_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        learn({}, VocabularyConfig(vocab_size=100))
    with pytest.raises(ValueError, match="min_count = 2"):
        learn({"a": 1}, VocabularyConfig(vocab_size=100))


def test_korean_survives_encoding_and_decoding() -> None:
    text = "피곤해 보이네. 어제 늦게 잤니?"
    config = VocabularyConfig(
        vocab_size=60, min_count=1, alphabet_limit=20,
        tokenizer=TokenizerConfig(lowercase=True, strip_accents=False),
    )  # fmt: skip
    words = Tokenizer(SPECIAL, config.tokenizer).words(text)
    tokenizer = Tokenizer(
        learn_vocabulary(Counter(word for word, _ in words), config), config.tokenizer
    )
    assert tokenizer.unk_id not in tokenizer.encode(text).ids
    assert tokenizer.decode(tokenizer.encode(text).ids).replace(" ", "") == text.replace(" ", "")


def test_lone_surrogates_are_left_out_and_counted() -> None:
    # Half a character, as broken JSON has it: no file could hold it, however often it occurs.
    counts = {"ab": 9, "a\ud83db": 50, "\udc00": 50}
    learned = learn(counts, VocabularyConfig(vocab_size=100))
    assert learned.vocabulary == (*SPECIAL, "a", "b", "##a", "##b", "ab")
    assert learned.num_characters_dropped == 2
    assert learned.num_unknown_words == 100


def test_text_of_lone_surrogates_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="no character occurs"):
        learn({"\ud83d": 9}, VocabularyConfig(vocab_size=12))
