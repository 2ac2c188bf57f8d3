"""Vocabularies side by side on held-out text: bertsmith's learner and the `tokenizers` trainer.

    python -m benchmarks.vocabulary TEXT... --vocab-size 30522 --max-mb 10

All learn from the same sentences (nine documents in ten; every tenth is held out), with the same
number of characters in the alphabet (none that the text lacks) and of rows to learn, and all are
used through the same tokenizer on the same held-out sentences: only the vocabularies differ. One
JSON row a learner is appended under benchmarks/results/.

    python -m benchmarks.vocabulary KOWIKI --hangul --max-mb 4 --vocab-size 12000 --other REVIEWS

`--hangul` compares our own learner with and without the Hangul that the text lacks instead, its
syllables whole; `--other` names text of another kind, a line each, on which both are judged too.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import tokenizers

from benchmarks.machine import append_row
from bertsmith.reading.documents import find_sources, read_raw, sentences_of
from bertsmith.text.config import VocabularyConfig
from bertsmith.text.counting import count_words
from bertsmith.text.learn import LearnedVocabulary, learn
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig

HELD_OUT_EVERY = 10


def main() -> None:
    """Reads the text, learns three vocabularies, prints and appends one row each."""
    options = _options()
    tokenizer = TokenizerConfig(lowercase=not options.cased, strip_accents=not options.cased)
    if options.hangul:
        tokenizer = replace(tokenizer, strip_accents=False)
    config = VocabularyConfig(
        vocab_size=options.vocab_size, tokenizer=tokenizer, common_hangul=False
    )
    train, held_out = _split(_documents(options.texts, int(options.max_mb * 1e6)))
    other = [line for path in options.other for line in path.read_text("utf-8").splitlines()]
    likelihood = replace(config, score="likelihood", min_pair_count=options.likelihood_pairs)
    num_characters = _ours(train, config, options.workers).num_characters_kept
    learners: dict[str, Callable[[], Sequence[str]]] = {
        "bertsmith frequency": lambda: _ours(train, config, options.workers).vocabulary,
        "bertsmith likelihood": lambda: _ours(train, likelihood, options.workers).vocabulary,
        f"tokenizers {tokenizers.__version__}": lambda: _theirs(train, config, num_characters),
    }
    if options.hangul:
        whole = replace(config, common_hangul=True)
        learners = {
            "bertsmith, Hangul of the text": lambda: (
                _ours(train, config, options.workers).vocabulary
            ),
            "bertsmith, all common Hangul": lambda: _ours(train, whole, options.workers).vocabulary,
        }
    print(f"{len(train):,} sentences to learn from, {len(held_out):,} held out")
    for name, learner in learners.items():
        started = time.perf_counter()
        vocabulary = learner()
        seconds = time.perf_counter() - started
        row = {
            "learner": name,
            "text": [path.name for path in options.texts],
            **_judge(Tokenizer(vocabulary, tokenizer), held_out),
            "other": _judge(Tokenizer(vocabulary, tokenizer), other) if other else {},
            "seconds": round(seconds, 2),
            "vocab_size": len(vocabulary),
            "num_characters": num_characters,
            "train_mb": round(sum(len(text.encode()) for text in train) / 1e6, 2),
            "cased": options.cased,
            "workers": options.workers,
        }
        print(json.dumps(row))
        append_row("vocabulary", row)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--vocab-size", type=int, default=30_522)
    parser.add_argument("--cased", action="store_true")
    parser.add_argument("--hangul", action="store_true")
    parser.add_argument("--other", nargs="*", type=Path, default=[])
    parser.add_argument("--max-mb", type=float, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--likelihood-pairs", type=int, default=100)
    return parser.parse_args()


def _documents(paths: list[Path], max_bytes: int) -> Iterator[list[str]]:
    for source in find_sources(paths):
        for raw in read_raw(source):
            sentences = sentences_of(raw)
            max_bytes -= sum(len(sentence.encode()) for sentence in sentences)
            if max_bytes < 0:
                return
            yield sentences


def _split(documents: Iterator[list[str]]) -> tuple[list[str], list[str]]:
    train: list[str] = []
    held_out: list[str] = []
    for number, sentences in enumerate(documents):
        (held_out if number % HELD_OUT_EVERY == 0 else train).extend(sentences)
    return train, held_out


def _ours(texts: list[str], config: VocabularyConfig, workers: int) -> LearnedVocabulary:
    with tempfile.TemporaryDirectory() as scratch:
        counts = count_words(texts, config.tokenizer, workers=workers, scratch=Path(scratch))
        return learn(counts, config)


def _theirs(texts: list[str], config: VocabularyConfig, num_characters: int) -> list[str]:
    """The library's BERT set-up with its defaults otherwise, and as many rows to learn."""
    cased = not config.tokenizer.lowercase
    learner = tokenizers.BertWordPieceTokenizer(lowercase=not cased, strip_accents=not cased)
    learner.train_from_iterator(
        texts,
        vocab_size=config.vocab_size - config.num_unused,
        limit_alphabet=num_characters,
        show_progress=False,
    )
    rows = learner.get_vocab()
    return sorted(rows, key=lambda token: rows[token])


def _judge(tokenizer: Tokenizer, texts: list[str]) -> dict[str, float]:
    ids, _ = tokenizer.ids(texts)
    num_words = sum(len(tokenizer.words(text)) for text in texts)
    num_unknown = int((ids == tokenizer.unk_id).sum())
    return {
        "tokens_per_word": round(len(ids) / num_words, 4),
        "unknown_rate": round(num_unknown / num_words, 6),
        "rows_seen": len(np.unique(ids)),
        "held_out_words": num_words,
    }


if __name__ == "__main__":
    main()
