"""Counts of words -> a WordPiece vocabulary, the same to the byte for the same counts.

The alphabet comes first, every kept character in the forms that can occur; then pairs of symbols
are joined, best first, until the vocabulary is full. Rows for the common Hangul that a Korean
text lacks come last. It does not know files, workers or documents.

Source: the original learner was never published. Wu et al. 2016, section 4.1, describe the idea;
the layout of the special and `[unused]` rows is that of the released uncased vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bertsmith.text.alphabet import AlphabetConfig, choose_alphabet, fill, rows_of
from bertsmith.text.chains import BYTES_PER_SYMBOL, SymbolChains
from bertsmith.text.config import VocabularyConfig
from bertsmith.text.counting import WordCounts, count_words
from bertsmith.text.merges import joined_texts
from bertsmith.text.rules import SPECIAL_TOKENS
from bertsmith.text.syllables import lacking_hangul

__all__ = [
    "LearnedVocabulary",
    "WordCounts",
    "count_words",
    "learn",
    "learn_vocabulary",
]

_UNUSED_BEFORE_UNK = 99
_BYTES_PER_WORD = 120
_JOINS_BETWEEN_REPORTS = 100
# In place of pairs, Hangul that the text lacks takes at most a quarter of the rows, two each.
_ROWS_A_LACKING_ONE = 8


@dataclass(frozen=True, kw_only=True)
class LearnedVocabulary:
    """A vocabulary and what was left out of it."""

    vocabulary: tuple[str, ...]
    """Row number -> token; shorter than asked when the text has no more pairs to join."""
    num_words: int
    """All words of the text, repetitions included."""
    num_distinct_words: int
    """Different words."""
    num_characters_kept: int
    """The alphabet; each stands in two rows, an ideograph that is a word of its own in one."""
    num_characters_dropped: int
    """Different characters too rare for the alphabet, and halves of characters."""
    num_hangul_added: int
    """Common Hangul that the text lacks, or has too rarely; each stands in two rows."""
    num_joined: int
    """Rows of joined symbols: whatever is longer than a character."""
    num_unknown_words: int
    """Words of the text, repetitions included, too long or with a dropped character: `[UNK]`."""
    min_word_count: int
    """Words seen less often were left out of the joining, for lack of memory; 1: none were."""


def learn_vocabulary(counts: WordCounts | Mapping[str, int], config: VocabularyConfig) -> list[str]:
    """Learns a vocabulary from the counts of words; row number -> token."""
    return list(learn(counts, config).vocabulary)


def learn(
    counts: WordCounts | Mapping[str, int],
    config: VocabularyConfig,
    on_progress: Callable[[int], None] = lambda num_tokens: None,
) -> LearnedVocabulary:
    """Learns a vocabulary and says what was left out; `on_progress` hears the rows found so far.

    Raises ValueError when there are no words, or the alphabet does not fit.
    """
    census = _Census(counts, config.tokenizer.word_limit)
    alphabet, rows = _alphabet(census.characters, config)
    min_word_count = _min_word_count(census.bytes_by_count, config.memory_bytes)
    words, times, num_unknown = _choose_words(counts, alphabet, min_word_count, config)
    head = special_rows(config.num_unused)
    tokens = dict.fromkeys([*head, *rows])
    num_single = len(tokens)
    lacking = _lacking(census.characters, alphabet, config)
    most = config.vocab_size - _num_reserved(len(lacking), config.vocab_size, num_single)
    chains = SymbolChains(words, np.array(times, dtype=np.int64), alphabet)
    for text in joined_texts(chains, config.score, config.min_pair_count):
        if len(tokens) >= most:
            break
        tokens[text] = None
        if len(tokens) % _JOINS_BETWEEN_REPORTS == 0:
            on_progress(len(tokens))
    num_joined = len(tokens) - num_single
    filled = fill(census.characters, alphabet, _choice(config), most - len(tokens))
    num_added = (config.vocab_size - len(tokens) - len(rows_of(filled, config.tokenizer))) // 2
    added = sorted([one for one in lacking if one not in filled][:num_added])
    for further in (filled, added):
        tokens.update(dict.fromkeys(rows_of(further, config.tokenizer)))
    known = {*alphabet, *filled, *added}
    if len(known) > len(alphabet):
        num_unknown = _num_unknown(counts, known, config)
    return LearnedVocabulary(
        vocabulary=tuple(tokens),
        num_words=census.num_words,
        num_distinct_words=census.num_distinct,
        num_characters_kept=len(alphabet) + len(filled),
        num_characters_dropped=len(census.characters.keys() - known),
        num_hangul_added=len(added),
        num_joined=num_joined,
        num_unknown_words=num_unknown,
        min_word_count=min_word_count,
    )


def special_rows(num_unused: int) -> list[str]:
    """The rows before the alphabet: `[PAD]` first, `[unused]` rows as in the released file."""
    pad, *others = SPECIAL_TOKENS
    unused = [f"[unused{number}]" for number in range(num_unused)]
    return [pad, *unused[:_UNUSED_BEFORE_UNK], *others, *unused[_UNUSED_BEFORE_UNK:]]


class _Census:
    """One pass over all words: characters, and how much memory the words of each count need."""

    def __init__(self, counts: WordCounts | Mapping[str, int], longest_word: int) -> None:
        self.num_words = 0
        self.num_distinct = 0
        self.characters: Counter[str] = Counter()
        self.bytes_by_count: Counter[int] = Counter()
        for word, times in _pairs(counts):
            self.num_words += times
            self.num_distinct += 1
            if len(word) > longest_word:
                continue
            self.bytes_by_count[times] += len(word) * BYTES_PER_SYMBOL + _BYTES_PER_WORD
            for character in word:
                self.characters[character] += times
        if not self.characters:
            raise ValueError("there are no words to learn from: the text is empty")


def _pairs(counts: WordCounts | Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Words ascending, whatever order they come in."""
    return iter(sorted(counts.items())) if isinstance(counts, Mapping) else iter(counts)


def _alphabet(characters: Counter[str], config: VocabularyConfig) -> tuple[list[str], list[str]]:
    """The characters kept, and their rows; ValueError where these leave no room."""
    alphabet = choose_alphabet(characters, _choice(config), config.vocab_size)
    rows = rows_of(alphabet, config.tokenizer)
    needed = len(rows) + config.num_unused + len(SPECIAL_TOKENS)
    if needed > config.vocab_size:
        raise ValueError(
            f"vocab_size {config.vocab_size} has no room for the {len(rows)} rows of an alphabet "
            f"of {len(alphabet)} characters; expected at least {needed}: raise vocab_size, or "
            f"lower alphabet_limit"
        )
    return alphabet, rows


def _lacking(characters: Counter[str], alphabet: list[str], config: VocabularyConfig) -> list[str]:
    """The Hangul to add after what the text earned; none where a person limited the alphabet."""
    if config.alphabet_limit or not config.common_hangul:
        return []
    return lacking_hangul(characters, alphabet)


def _num_reserved(num_lacking: int, vocab_size: int, num_taken: int) -> int:
    """Rows that pairs leave to lacking Hangul; it also gets those that no pair needs."""
    return 2 * min(num_lacking, vocab_size // _ROWS_A_LACKING_ONE, (vocab_size - num_taken) // 2)


def _choice(config: VocabularyConfig) -> AlphabetConfig:
    return AlphabetConfig(
        min_count=config.min_count, limit=config.alphabet_limit, tokenizer=config.tokenizer
    )


def _min_word_count(bytes_by_count: Counter[int], memory_bytes: int) -> int:
    """The lowest count such that all words seen at least that often fit into the memory.

    Whole classes of equally frequent words go, so that the choice needs no ties.
    """
    used = 0
    lowest = max(bytes_by_count) + 1
    for times in sorted(bytes_by_count, reverse=True):
        used += bytes_by_count[times]
        if used > memory_bytes:
            return lowest
        lowest = times
    return 1


def _choose_words(
    counts: WordCounts | Mapping[str, int],
    alphabet: list[str],
    min_word_count: int,
    config: VocabularyConfig,
) -> tuple[list[str], list[int], int]:
    """The words to join within, their counts, and how many words of the text are `[UNK]`."""
    known = frozenset(alphabet)
    words, word_times = [], []
    num_unknown = 0
    for word, times in _pairs(counts):
        if len(word) > config.tokenizer.word_limit or not known.issuperset(word):
            num_unknown += times
        elif times >= min_word_count:
            words.append(word)
            word_times.append(times)
    return words, word_times, num_unknown


def _num_unknown(
    counts: WordCounts | Mapping[str, int], known: set[str], config: VocabularyConfig
) -> int:
    """Words of the text, repetitions included, that these characters do not spell."""
    longest = config.tokenizer.word_limit
    return sum(
        times for word, times in _pairs(counts) if len(word) > longest or not known.issuperset(word)
    )
