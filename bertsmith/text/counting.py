"""Texts -> exact counts of their words, in a sorted file, in bounded memory.

Counts are sums, so the file's bytes do not depend on workers, batches or memory. A word is what the
tokenizer's own rules make of a text before WordPiece. It does not know documents.

Source: google-research/bert tokenization.py, BasicTokenizer, for what a word is.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from bertsmith.text.rules import SPECIAL_TOKENS
from bertsmith.text.runs import SortedRuns, read_run
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig
from bertsmith.workers import in_order

Batch = TypeVar("Batch")
Reader = Callable[[Batch], tuple[Iterable[str], Mapping[str, int], int]]
"""A batch -> its texts, what it skipped by reason, and how far into the input it reaches.

Runs in a worker, so it must pickle.
"""

_BATCH_CHARACTERS = 2_000_000
_MOST_REMEMBERED = 200_000
# Blanks to str.split, but control characters to the tokenizer, which drops them.
_FALSE_BLANK = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
_BLANKS = re.compile(r"[^\S\x0b\x0c\x1c-\x1f\x85]+")
_PLAIN_WORD = re.compile("[0-9A-Za-z가-힣]+|[^0-9A-Za-z가-힣]")
_ASCII_OR_HANGUL = re.compile("[!-~가-힣]+")


@dataclass(frozen=True, kw_only=True)
class WordCounts:
    """Distinct words in ascending order, each with its count, as a file that can be read again."""

    path: Path
    """One word, a tab and its count a line, UTF-8."""
    num_words: int
    """All words, repetitions included."""
    num_distinct: int
    """Lines of the file."""
    skipped: Mapping[str, int]
    """What the reader skipped, by reason."""

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return read_run(self.path)


def count_words(
    texts: Iterable[str],
    config: TokenizerConfig,
    *,
    workers: int,
    scratch: Path,
    memory_bytes: int = 1 << 29,
) -> WordCounts:
    """Counts the words of many texts; the file stands in the directory `scratch`."""
    return count_batches(
        _grouped(texts),
        _all_texts,
        CountRules(tokenizer=config, workers=workers, scratch=scratch, memory_bytes=memory_bytes),
    )


@dataclass(frozen=True, kw_only=True)
class CountRules:
    """How to count; only `tokenizer` changes the result."""

    tokenizer: TokenizerConfig
    """The rules that make words of a text."""
    workers: int
    """Processes that count; with 1 the calling process does it all."""
    scratch: Path
    """Directory for the runs and the result."""
    memory_bytes: int
    """The counts kept in memory before they are written as a run."""


def count_batches(
    batches: Iterable[Batch],
    read: Reader[Batch],
    rules: CountRules,
    on_progress: Callable[[int], None] = lambda reached: None,
) -> WordCounts:
    """Counts the words of batches that `read` opens in the workers.

    `on_progress` hears how far into the input the counting has come. Raises ChildProcessError when
    a worker is killed.
    """
    rules.scratch.mkdir(parents=True, exist_ok=True)
    runs = SortedRuns(rules.scratch, rules.memory_bytes)
    skipped: Counter[str] = Counter()
    config = replace(rules.tokenizer, special_tokens_in_text=False)
    work = functools.partial(_count_batch, read=read, config=config)
    with contextlib.closing(in_order(work, batches, rules.workers)) as counted:
        for counts, reasons, reached in counted:
            runs.add(counts)
            skipped.update(reasons)
            on_progress(reached)
    path = rules.scratch / "words.tsv"
    num_words, num_distinct = runs.finish(path)
    return WordCounts(
        path=path,
        num_words=num_words,
        num_distinct=num_distinct,
        skipped=dict(sorted(skipped.items())),
    )


def _count_batch(
    batch: Batch, *, read: Reader[Batch], config: TokenizerConfig
) -> tuple[dict[str, int], dict[str, int], int]:
    texts, reasons, reached = read(batch)
    return _splitter(config).count(texts), dict(reasons), reached


@functools.cache
def _splitter(config: TokenizerConfig) -> _Splitter:
    """One splitter a process: it remembers the chunks it has seen."""
    return _Splitter(config)


class _Splitter:
    """Counts between blanks first, then splits each distinct chunk once.

    Exact, because no rule before WordPiece looks across a blank. English has about ten times fewer
    distinct chunks than words in a batch.
    """

    def __init__(self, config: TokenizerConfig) -> None:
        self._tokenizer = Tokenizer(SPECIAL_TOKENS, replace(config, added_tokens=()))
        self._lowercase = config.lowercase
        self._keeps_hangul = not config.strip_accents and config.unicode_form not in ("NFD", "NFKD")
        self._remembered: dict[str, tuple[str, ...]] = {}

    def count(self, texts: Iterable[str]) -> dict[str, int]:
        joined = "\n".join(texts)
        has_false_blank = _FALSE_BLANK.search(joined) is not None
        chunks = _BLANKS.split(joined) if has_false_blank else joined.split()
        counts: dict[str, int] = {}
        for chunk, times in Counter(chunks).items():
            for word in self._words(chunk):
                counts[word] = counts.get(word, 0) + times
        return counts

    def _words(self, chunk: str) -> Iterable[str]:
        is_ascii = chunk.isascii() and chunk.isprintable()
        if is_ascii or (self._keeps_hangul and _ASCII_OR_HANGUL.fullmatch(chunk)):
            # No Unicode rule touches these: letters and digits hold together, all else is alone.
            chunk = chunk.lower() if self._lowercase else chunk
            return (chunk,) if chunk.isalnum() else _PLAIN_WORD.findall(chunk)
        words = self._remembered.get(chunk)
        if words is None:
            words = tuple(word for word, _ in self._tokenizer.words(chunk))
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[chunk] = words
        return words


def _grouped(texts: Iterable[str]) -> Iterator[list[str]]:
    group: list[str] = []
    characters = 0
    for text in texts:
        group.append(text)
        characters += len(text)
        if characters >= _BATCH_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _all_texts(texts: list[str]) -> tuple[Iterable[str], Mapping[str, int], int]:
    return texts, {}, 0
