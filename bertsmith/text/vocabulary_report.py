"""A learned vocabulary and the words it was learned from -> the figures a person judges it by.

It does not learn, and does not know where the text came from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from bertsmith.text.config import VocabularyConfig
from bertsmith.text.counting import WordCounts
from bertsmith.text.hangul import has_decomposed_hangul, keeping_whole
from bertsmith.text.learn import LearnedVocabulary, learn, special_rows
from bertsmith.text.rules import TokenizerConfig
from bertsmith.text.tokenizer import Tokenizer

_WORDS_AT_ONCE = 20_000
_UNUSUAL_UNKNOWN = 0.01
_FEWEST_JOINED = 0.1  # of the rows


@dataclass(frozen=True, kw_only=True)
class VocabularyReport:
    """What became of the text; written beside the vocabulary."""

    vocab_size: int
    """Rows."""
    vocab_size_asked: int
    """Rows asked for; more than there are where the text has no more pairs to join."""
    num_words: int
    """Words of the text, punctuation marks included."""
    num_distinct_words: int
    """Different words."""
    tokens_per_word: float
    """Over the whole text."""
    num_joined: int
    """Rows of joined symbols: whatever is longer than a character."""
    num_unknown_words: int
    """Words of the text that become `[UNK]`."""
    unknown_word_rate: float
    """Their share of the words."""
    num_jamo_words: int
    """Words of the text whose Hangul stands in jamo: decomposed before, or by accent stripping."""
    num_characters_kept: int
    """The alphabet."""
    num_characters_dropped: int
    """Different characters too rare for it."""
    num_hangul_added: int
    """Common Hangul that has rows, though the text lacks it."""
    min_word_count: int
    """Words seen less often were left out of the learning, for lack of memory; 1: none."""
    skipped: Mapping[str, int]
    """What was not read, by reason."""


def report_on(
    learned: LearnedVocabulary,
    tokenizer: Tokenizer,
    counts: WordCounts,
    config: VocabularyConfig,
    skipped: Mapping[str, int],
) -> VocabularyReport:
    """Tokenises every different word once and adds up."""
    num_jamo_words = 0
    if keeping_whole(config.tokenizer):
        num_jamo_words = sum(times for word, times in counts if has_decomposed_hangul(word))
    return VocabularyReport(
        vocab_size=len(learned.vocabulary),
        vocab_size_asked=config.vocab_size,
        num_words=learned.num_words,
        num_distinct_words=learned.num_distinct_words,
        tokens_per_word=sum(_num_tokens(tokenizer, counts)) / learned.num_words,
        num_joined=learned.num_joined,
        num_unknown_words=learned.num_unknown_words,
        unknown_word_rate=learned.num_unknown_words / learned.num_words,
        num_jamo_words=num_jamo_words,
        num_characters_kept=learned.num_characters_kept,
        num_characters_dropped=learned.num_characters_dropped,
        num_hangul_added=learned.num_hangul_added,
        min_word_count=learned.min_word_count,
        skipped=dict(sorted(skipped.items())),
    )


def warn_about_alphabet(config: VocabularyConfig, sample_texts: Iterable[str]) -> str | None:
    """The warning that the rows are too few for the text's letters, or None: before the long work.

    The vocabulary of the sample is learned, with every character that occurs in it.
    """
    tokenizer = Tokenizer(special_rows(0), config.tokenizer)
    words = Counter(word for text in sample_texts for word, _ in tokenizer.words(text))
    if not words:
        return None
    learned = learn(words, replace(config, min_count=1))
    share = learned.num_unknown_words / learned.num_words
    if share <= _UNUSUAL_UNKNOWN:
        return None
    return (
        f"{share:.1%} of the words would be unknown, going by a sample: {config.vocab_size:,} rows "
        f"do not hold its characters; raise --vocab-size or --alphabet-limit"
    )


def described(
    report: VocabularyReport, rules: TokenizerConfig, is_warned_of_hangul: bool = False
) -> list[str]:
    """The report as lines for a person; what was warned of before is a plain fact here."""
    lines = [
        f"{report.vocab_size:,} rows from {report.num_words:,} words, "
        f"{report.num_distinct_words:,} of them different",
        f"{report.tokens_per_word:.3f} tokens a word, {report.unknown_word_rate:.4%} of the words "
        f"unknown ({report.num_unknown_words:,})",
        f"alphabet: {report.num_characters_kept:,} characters kept, "
        f"{report.num_characters_dropped:,} rare ones dropped",
    ]
    if report.num_hangul_added:
        lines.append(
            f"{report.num_hangul_added:,} further Hangul syllables and letters have rows: this "
            f"text lacks them, the next may not, and a word with an unknown one is lost as a whole "
            f"(--no-common-hangul leaves them out)"
        )
    if report.unknown_word_rate > _UNUSUAL_UNKNOWN and report.num_characters_dropped:
        lines.append(
            f"warning: {report.unknown_word_rate:.1%} of the words are unknown, usual is well "
            f"under 1%: the alphabet lacks their characters; raise --vocab-size or "
            f"--alphabet-limit, or lower --min-count"
        )
    is_full = report.vocab_size >= report.vocab_size_asked
    if is_full and report.num_joined < _FEWEST_JOINED * report.vocab_size:
        lines.append(
            f"warning: only {report.num_joined:,} of {report.vocab_size:,} rows are left for more "
            f"than single characters; raise --vocab-size, or lower --alphabet-limit"
        )
    if report.num_jamo_words:
        apart = (
            f"the Hangul of {report.num_jamo_words:,} words "
            f"({report.num_jamo_words / report.num_words:.2%}) stands in jamo"
        )
        advice = f"a vocabulary learned with {keeping_whole(rules)} keeps its syllables whole"
        lines.append(apart if is_warned_of_hangul else f"warning: {apart}; {advice}")
    if report.vocab_size < report.vocab_size_asked:
        lines.append(
            f"{report.vocab_size_asked:,} rows were asked for, but no further pair of symbols "
            f"occurs often enough; more text or a lower --min-pair-count gives more"
        )
    if report.min_word_count > 1:
        lines.append(
            f"words seen fewer than {report.min_word_count} times were left out of the learning; "
            f"a higher --memory-mb takes them in"
        )
    lines += [f"skipped: {times:,} {reason}" for reason, times in report.skipped.items()]
    return lines


def _num_tokens(tokenizer: Tokenizer, counts: WordCounts) -> Iterator[int]:
    """Tokens of the text, a block of different words at a time."""
    pairs = iter(counts)
    while block := list(islice(pairs, _WORDS_AT_ONCE)):
        _, num_tokens = tokenizer.ids([word for word, _ in block])
        times = np.array([count for _, count in block], dtype=np.int64)
        yield int(num_tokens @ times)
