"""Wanted numbers of tokens -> texts that have them: real text cut at its words, or drawn words.

A text's tokens are those of its words between blanks, one after the other, so words are counted
once and put together until the number is reached. Real text is English Wikipedia of the data that
BERTSMITH_DATA names, with bert-base-uncased's vocabulary; elsewhere both are drawn. It knows no
model.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from benchmarks.tokenization import TEXTS, read_sentences
from bertsmith.randomness import integers, uniform
from bertsmith.text.rules import SPECIAL_TOKENS
from bertsmith.text.tokenizer import Tokenizer

SHORTEST, LONGEST = 6, 138
# Log-normal, as lengths of texts are; cut at both ends the mean is 40.
_MEDIAN, _SPREAD = 33.0, 0.65
_TEXT_BYTES = 1_500_000
_DRAWN_WORDS = 50_000
_SYLLABLES = tuple(first + second for first in "bcdfghjklmnpqrstvwxyz" for second in "aeiou")
_LENGTHS, _STARTS, _WORDS, _ENDINGS = range(1, 5)
_NUM_CALIBRATING, _CALIBRATING = 128, 1 << 20  # how many, and a number that no round has


@dataclass(frozen=True, kw_only=True)
class Words:
    """A running text, word by word."""

    words: tuple[str, ...]
    """None of them without tokens."""
    counts: tuple[int, ...]
    """Tokens of each."""
    filler: str
    """A word of one token, for the end of a text where the next word does not fit."""

    @staticmethod
    def of(words: Sequence[str], tokenizer: Tokenizer) -> Words:
        """Counts the words' tokens."""
        counts = tokenizer.ids(words)[1].tolist()
        kept = [(word, count) for word, count in zip(words, counts, strict=True) if count]
        return Words(
            words=tuple(word for word, _ in kept),
            counts=tuple(count for _, count in kept),
            filler=next(word for word, count in kept if count == 1),
        )

    def texts(self, lengths: Sequence[int], number: int) -> list[str]:
        """A text for every length, `[CLS]` and `[SEP]` counted; other texts for another number."""
        starts = integers(len(self.words), number, _STARTS, np.arange(len(lengths))).tolist()
        return [self._text(*both) for both in zip(lengths, starts, strict=True)]

    def _text(self, length: int, start: int) -> str:
        missing, taken = length - 2, []
        for place in itertools.count(start):
            index = place % len(self.words)
            if self.counts[index] > missing:
                break
            taken.append(self.words[index])
            missing -= self.counts[index]
        return " ".join([*taken, *[self.filler] * missing])


def calibrating(words: Words) -> list[str]:
    """Texts by which a peer may learn how large activations are: like those asked, but others."""
    return words.texts(mixed_lengths(_NUM_CALIBRATING, 1), _CALIBRATING)


def mixed_lengths(num_texts: int, number: int) -> list[int]:
    """Numbers of tokens from 6 to 138, 40 in the mean; others for another `number`."""
    draws = uniform(number, _LENGTHS, np.arange(num_texts))
    normal = NormalDist()
    lengths = [_MEDIAN * float(np.exp(_SPREAD * normal.inv_cdf(max(draw, 1e-9)))) for draw in draws]
    return [min(max(round(length), SHORTEST), LONGEST) for length in lengths]


def real_words(data: Path) -> tuple[Words, Tokenizer]:
    """Of the data's English text, with its vocabulary."""
    text, vocabulary = (data / name for name in TEXTS["en"])
    tokenizer = Tokenizer.load(vocabulary)
    words = " ".join(read_sentences(text, _TEXT_BYTES)).split()
    return Words.of(words, tokenizer), tokenizer


def drawn_words(vocab_size: int) -> tuple[Words, Tokenizer]:
    """Words of a drawn vocabulary of so many entries: few are frequent, one in four is cut."""
    vocabulary = drawn_vocabulary(vocab_size)
    first_word = len(SPECIAL_TOKENS) + len(_SYLLABLES)
    num_words = vocab_size - first_word
    places = np.arange(_DRAWN_WORDS)
    ranks = integers(num_words, _WORDS, 0, places) * integers(num_words, _WORDS, 1, places)
    endings = integers(4 * len(_SYLLABLES), _ENDINGS, places).tolist()
    words = [
        vocabulary[first_word + rank // num_words]
        + (_SYLLABLES[ending] if ending < len(_SYLLABLES) else "")
        for rank, ending in zip(ranks.tolist(), endings, strict=True)
    ]
    tokenizer = Tokenizer(vocabulary)
    return Words.of(words, tokenizer), tokenizer


def drawn_vocabulary(vocab_size: int) -> list[str]:
    """Special tokens, every syllable as a word's end, and words of one syllable, two, three."""
    pieces = [*SPECIAL_TOKENS, *(f"##{syllable}" for syllable in _SYLLABLES)]
    words = (
        "".join(syllables)
        for count in itertools.count(1)
        for syllables in itertools.product(_SYLLABLES, repeat=count)
    )
    return [*pieces, *itertools.islice(words, vocab_size - len(pieces))]
