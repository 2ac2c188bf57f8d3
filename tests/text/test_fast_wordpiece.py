from __future__ import annotations

import itertools
import os
import pickle
import sys
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertsmith.compiler import without_native
from bertsmith.text import fast_wordpiece, library_wordpiece
from bertsmith.text.encoding import Tokens
from bertsmith.text.fast_wordpiece import FastWordPiece
from bertsmith.text.library_wordpiece import LibraryWordPiece
from bertsmith.text.rules import TokenizerConfig, exact_words
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.text.wordpiece import WordPiece
from tests.builds import NEEDS_COMPILER
from tests.text.test_library_wordpiece import ROWS, exact_wordpiece
from tests.text.test_rules import SWITCHES, every_kind_of_character
from tests.text.test_tokenizer import CONFIGS, read_start
from tests.text.texts import NASTY_TEXTS, VOCABULARY

pytestmark = NEEDS_COMPILER

UNKNOWN = ROWS["[UNK]"]
TEXTS = st.lists(NASTY_TEXTS, max_size=6)
GREEK_AND_MARKS = st.text("aΣσςΑ.\u0301\u0323\u302e\U0001d165가각ÉİㅎA 日", max_size=12)


def same(found: Tokens, expected: Tokens) -> None:
    for left, right in zip(found, expected, strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@settings(max_examples=400)
@example(["AΣ", "x" * 201, "", "ΑΣ Σα Σ"], TokenizerConfig())
@given(TEXTS | st.lists(GREEK_AND_MARKS, max_size=6), CONFIGS)
def test_texts_have_the_tokens_spans_and_words_of_the_rules(
    texts: list[str], config: TokenizerConfig
) -> None:
    config = replace(config, unicode_form="none")
    tokens, left_out = FastWordPiece(ROWS, UNKNOWN, config).encode(texts)
    assert tokens.counts[left_out].tolist() == [0] * len(left_out)
    others = [text for number, text in enumerate(texts) if number not in left_out]
    expected = exact_wordpiece(config).encode(others)
    same(tokens._replace(counts=np.delete(tokens.counts, left_out)), expected)


@settings(max_examples=200)
@given(TEXTS | st.lists(GREEK_AND_MARKS, max_size=6), CONFIGS, st.booleans())
def test_with_and_without_tables_everything_is_equal(
    texts: list[str], config: TokenizerConfig, library_rules: bool
) -> None:
    config = replace(config, library_rules=library_rules)
    with_tables, without = (WordPiece(ROWS, UNKNOWN, config) for _ in range(2))
    assert fast_wordpiece.is_there()
    found, ids = with_tables.encode(texts), with_tables.ids(texts)
    with without_native():
        same(found, without.encode(texts))
        for left, right in zip(ids, without.ids(texts), strict=True):
            assert left.dtype == right.dtype
            assert left.tolist() == right.tolist()


@pytest.mark.parametrize("split_cjk", [True, False])
@pytest.mark.parametrize(("lowercase", "strip_accents"), SWITCHES)
def test_every_character_is_taken_as_the_rules_take_it(
    lowercase: bool, strip_accents: bool, split_cjk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    words_of = cache(exact_words)  # of 80,000 texts, asked for twice
    monkeypatch.setattr(library_wordpiece, "exact_words", words_of)
    config = TokenizerConfig(lowercase=lowercase, strip_accents=strip_accents, split_cjk=split_cjk)
    texts = [f"a{character}B" for character in every_kind_of_character()]
    letters = {letter for text in texts for word in words_of(text, config) for letter in word.text}
    entries = ["[UNK]", *letters, *(f"##{letter}" for letter in letters)]
    rows = {entry: row for row, entry in enumerate(entries)}
    exact = LibraryWordPiece(rows, 0, config)
    exact._needs_exact = lambda text: True  # type: ignore[method-assign]
    tokens, left_out = FastWordPiece(rows, 0, config).encode(texts)
    assert len(left_out) < 100
    assert 0 not in tokens.ids
    kept = np.delete(np.arange(len(texts)), left_out)
    expected = exact.encode([texts[number] for number in kept])
    same(tokens._replace(counts=tokens.counts[kept]), expected)


def test_a_text_that_only_the_rules_can_take_is_left_out_and_put_back() -> None:
    texts = ["my dog", "ΑΣ", "is cute", "\u302ea", "he"]
    config = TokenizerConfig()
    _, left_out = FastWordPiece(ROWS, UNKNOWN, config).encode(texts)
    assert left_out.tolist() == [1, 3]
    expected = exact_wordpiece(config).encode(texts)
    encoder = WordPiece(ROWS, UNKNOWN, config)
    same(encoder.encode(texts), expected)
    ids, counts = encoder.ids(texts)
    assert ids.tolist() == expected.ids.tolist()
    assert counts.tolist() == expected.counts.tolist()


def test_a_large_vocabulary_is_found_again_entry_by_entry() -> None:
    """More entries than the first table has places for."""
    letters = "abcdefghij"
    words = ["".join(each) for each in itertools.product(letters, repeat=4)]
    entries = ["[UNK]", *words, *(f"##{word}" for word in words)]
    rows = {entry: row for row, entry in enumerate(entries)}
    encoder = FastWordPiece(rows, 0, TokenizerConfig())
    texts = [first + second for first, second in zip(words, reversed(words), strict=True)]
    tokens, _ = encoder.encode(texts)
    expected = [[rows[text[:4]], rows[f"##{text[4:]}"]] for text in texts]
    assert tokens.ids.reshape(-1, 2).tolist() == expected


@pytest.mark.parametrize("num_threads", ["1", "3"])
def test_slices_and_threads_change_nothing(
    num_threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TokenizerConfig()
    texts = ["my dog is cute", "", "ΑΣ", "he likes playing. " * 9, "피곤해 보이네"] * 7
    whole = FastWordPiece(ROWS, UNKNOWN, config).encode(texts)
    monkeypatch.setenv("RAYON_NUM_THREADS", num_threads)
    monkeypatch.setattr(fast_wordpiece, "_SLICE", 40)
    tokens, left_out = FastWordPiece(ROWS, UNKNOWN, config).encode(texts)
    same(tokens, whole[0])
    assert left_out.tolist() == whole[1].tolist()


def test_threads_that_meet_new_characters_together_learn_them_once() -> None:
    syllables = [chr(code) for code in range(ord("가"), ord("가") + 2000)]
    jamo = {letter for each in syllables for letter in unicodedata.normalize("NFD", each)}
    entries = ["[UNK]", *jamo, *(f"##{letter}" for letter in jamo)]
    rows = {entry: row for row, entry in enumerate(entries)}
    texts = syllables * 2
    expected = FastWordPiece(rows, 0, TokenizerConfig()).encode(texts)[0]
    shared = FastWordPiece(rows, 0, TokenizerConfig())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            parts = [texts, texts[::-1], texts[1000:], texts[500:]]
            for found, part in zip(pool.map(shared.encode, parts), parts, strict=True):
                alone = FastWordPiece(rows, 0, TokenizerConfig()).encode(part)[0]
                same(found[0], alone)
    finally:
        sys.setswitchinterval(interval)
    same(shared.encode(texts)[0], expected)


def test_a_word_limit_beyond_what_a_number_holds_is_none() -> None:
    encoder = FastWordPiece(ROWS, UNKNOWN, TokenizerConfig(longest_word=2**32 + 5))
    assert UNKNOWN not in encoder.encode(["x" * 300])[0].ids


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TOKENIZERS_PARALLELISM": "false"}, 1),
        ({"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "5"}, 1),
        ({"TOKENIZERS_PARALLELISM": "true", "RAYON_NUM_THREADS": "5"}, 5),
        ({"TOKENIZERS_PARALLELISM": "", "RAYON_NUM_THREADS": "5"}, 1),
        ({"RAYON_NUM_THREADS": "0"}, len(os.sched_getaffinity(0))),
        ({}, len(os.sched_getaffinity(0))),
    ],
)
def test_threads_are_as_many_as_the_library_would_take(
    variables: dict[str, str], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TOKENIZERS_PARALLELISM", "RAYON_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert fast_wordpiece._num_threads() == expected


def test_a_tokenizer_that_has_its_tables_can_be_pickled() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    ids = tokenizer.encode("my dog").ids.tolist()
    assert pickle.loads(pickle.dumps(tokenizer)).encode("my dog").ids.tolist() == ids


@pytest.mark.data
@pytest.mark.parametrize("vocabulary", ["bert-base-uncased", "kr-bert-char"])
@pytest.mark.parametrize("corpus", ["enwiki-2015-AA", "kowiki-2020-AA00-59", "gutenberg-books"])
def test_real_text_is_tokenised_as_by_the_library(vocabulary: str, corpus: str) -> None:
    data = Path(os.environ["BERTSMITH_DATA"])
    tokenizer = Tokenizer.load(data / "vocab" / vocabulary)
    lines = read_start(data / "corpora", corpus, 1_000_000).splitlines()
    found = tokenizer.encode_batch(lines)
    with without_native():
        expected = tokenizer.encode_batch(lines)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.spans.tolist() == theirs.spans.tolist()
        assert ours.words.tolist() == theirs.words.tolist()


@pytest.mark.parametrize("num_begun", [0, 1])
def test_where_no_thread_can_be_begun_this_one_encodes_all(
    num_begun: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_wordpiece, "_num_threads", lambda: 4)
    texts = ["my dog is cute . "] * 8_000
    wordpiece = FastWordPiece(ROWS, UNKNOWN, TokenizerConfig())
    expected, _ = wordpiece.encode(texts)
    start, left = threading.Thread.start, [None] * num_begun

    def refused(thread: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    found, _ = wordpiece.encode(texts)
    assert not left
    same(found, expected)


def test_where_there_is_no_room_for_a_text_nobody_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = FastWordPiece(ROWS, UNKNOWN, TokenizerConfig())
    monkeypatch.setattr(encoder, "_encode", lambda *_: fast_wordpiece._NO_ROOM)
    with pytest.raises(MemoryError, match=r"^no memory for a text of 8 characters$"):
        encoder.encode(["my", "dog was."])
