"""Text to tokens beside the bare `tokenizers` library: English and Korean, one thread and all.

    BERTSMITH_DATA=DATA python -m benchmarks.tokenization

Sentences are read first and not timed. Then the ways to encode them take turns (A B C A B C ...),
1,024 sentences a call, in a process of its own for each number of threads, because the library
reads that number once. Medians, in megabytes of UTF-8 a second. `share_of_bare` compares like with
like: ids, spans and word numbers as arrays beside the library's own, ids alone beside ids alone.

The library makes Python numbers of its results only when asked: `bare` never asks, `bare_read`
asks for what our `encode_batch` gives. `equal_texts` is the share of sentences with equal ids; the
library departs from the original on rare characters. Other encoders, tensorflow-text (ids, and ids
with spans) and flash-tokenizer (ids), take their turns where their packages are there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import operator
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from benchmarks.machine import append_row
from bertsmith.reading.documents import find_sources, read_raw, sentences_of
from bertsmith.text.tokenizer import Tokenizer

TEXTS = {
    "en": ("corpora/enwiki-2015", "vocab/bert-base-uncased"),
    "ko": ("corpora/kowiki-2020", "vocab/kr-bert-char"),
}
_TEXTS_A_CALL = 1024

Way = Callable[[list[str]], object]


def main() -> None:
    """Measures both languages with one thread and with all, and appends a row each."""
    options = _options()
    if options.measure:
        print(json.dumps(measure(options)))
        return
    for language in TEXTS:
        for threads in sorted({1, len(os.sched_getaffinity(0))}):
            row = _in_a_process(language, threads, options)
            print(json.dumps(row))
            append_row("tokenization", row)


def measure(options: argparse.Namespace) -> dict[str, object]:
    """The rates of every way to encode one language's sentences, in this process."""
    text, vocabulary = (options.data / name for name in TEXTS[options.measure])
    sentences = read_sentences(text, int(options.max_mb * 1e6))
    batches = [
        sentences[start : start + _TEXTS_A_CALL]
        for start in range(0, len(sentences), _TEXTS_A_CALL)
    ]
    tokenizer = Tokenizer.load(vocabulary)
    bare = _bare(tokenizer)
    makers: dict[str, Callable[[], Way]] = {
        "encode_batch": lambda: tokenizer.encode_batch,
        "bare": lambda: bare.encode_batch,
        "bare_read": lambda: (
            lambda texts: [(one.ids, one.offsets, one.word_ids) for one in bare.encode_batch(texts)]
        ),
        "ids": lambda: tokenizer.ids,
        "bare_fast": lambda: bare.encode_batch_fast,
    }
    peers = _peers(tokenizer)
    makers |= {name: lambda way=way: way for name, way in peers.items()}
    megabytes = sum(len(sentence.encode()) for sentence in sentences) / 1e6
    rates: dict[str, list[float]] = {name: [] for name in makers}
    for _ in range(options.rounds):
        for name, make in makers.items():
            rates[name].append(round(megabytes / _seconds(make(), batches), 3))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "language": options.measure,
        "text": text.name,
        "vocabulary": vocabulary.name,
        "megabytes": round(megabytes, 2),
        "sentences": len(sentences),
        "tokenizers": tokenizers.__version__,
        "rates": rates,
        "share_of_bare": {
            f"{name} / {peer}": round(medians[name] / medians[peer], 3)
            for name, peer in (
                ("encode_batch", "bare"),
                ("encode_batch", "bare_read"),
                ("ids", "bare_fast"),
            )
        },
        "equal_texts": equal_texts(tokenizer, bare, batches[0]),
        "equal_to_peers": {
            name: equal_ids(tokenizer, peer, batches[0]) for name, peer in peers.items()
        },
    }


def read_sentences(path: Path, num_bytes: int) -> list[str]:
    """The first sentences of a text, some `num_bytes` of them."""
    sentences: list[str] = []
    for source in find_sources([path]):
        for raw in read_raw(source):
            for sentence in sentences_of(raw):
                sentences.append(sentence)
                num_bytes -= len(sentence.encode())
            if num_bytes <= 0:
                return sentences
    return sentences


def equal_texts(tokenizer: Tokenizer, bare: tokenizers.Tokenizer, texts: list[str]) -> float:
    """The share of texts that get the same ids from both."""
    pairs = zip(tokenizer.encode_batch(texts), bare.encode_batch(texts), strict=True)
    return sum(ours.ids.tolist() == theirs.ids for ours, theirs in pairs) / len(texts)


def equal_ids(tokenizer: Tokenizer, peer: Way, texts: list[str]) -> float:
    """The share of texts that get the same ids from another encoder, special tokens aside."""
    ids, counts = tokenizer.ids(texts)
    edges = [0, *np.cumsum(counts).tolist()]
    ours = [ids[start:end].tolist() for start, end in itertools.pairwise(edges)]
    return sum(map(operator.eq, ours, _id_lists(peer(texts), tokenizer))) / len(texts)


def _id_lists(found: Any, tokenizer: Tokenizer) -> list[list[int]]:
    """What a peer returned -> ids text by text."""
    first = found[0] if isinstance(found, tuple) else found
    if hasattr(first, "merge_dims"):  # tensorflow-text: texts, words, pieces
        return [list(ids) for ids in first.to_list()]
    special = {tokenizer.cls_id, tokenizer.sep_id}
    return [[each for each in ids if each not in special] for ids in first]


def _peers(tokenizer: Tokenizer) -> dict[str, Way]:
    """Encoders of the packages that can be imported, and says which cannot.

    Each from texts to ids, or to ids with spans.
    """
    ways: dict[str, Way] = {}
    for name, make in (("tensorflow_text", _tensorflow_text), ("flash_tokenizer", _flash)):
        try:
            ways |= make(tokenizer)
        except (ImportError, OSError) as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
    return ways


def _tensorflow_text(tokenizer: Tokenizer) -> dict[str, Way]:
    import tensorflow as tf
    import tensorflow_text

    fast = tensorflow_text.FastBertTokenizer(
        list(tokenizer.vocabulary), lower_case_nfd_strip_accents=tokenizer.config.lowercase
    )
    return {
        "tensorflow_text": lambda texts: fast.tokenize(tf.constant(texts)),
        "tensorflow_text_spans": lambda texts: fast.tokenize_with_offsets(tf.constant(texts)),
    }


def _flash(tokenizer: Tokenizer) -> dict[str, Way]:
    import flash_tokenizer

    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        flash = flash_tokenizer.BertTokenizerFlash(
            str(Path(folder) / "vocab.txt"), do_lower_case=tokenizer.config.lowercase
        )
    told = {"padding": "longest", "max_length": 512, "do_multiprocess": False}
    return {"flash_tokenizer": lambda texts: flash(texts, **told).input_ids}


def _bare(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        bare = tokenizers.Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    bare.no_truncation()
    bare.no_padding()
    return bare


def _seconds(way: Way, batches: Sequence[list[str]]) -> float:
    began = time.perf_counter()
    for batch in batches:
        way(batch)
    return time.perf_counter() - began


def _in_a_process(language: str, threads: int, options: argparse.Namespace) -> dict[str, object]:
    environment = {
        **os.environ,
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
        "RAYON_NUM_THREADS": str(threads),
        "TF_NUM_INTRAOP_THREADS": str(threads),
    }
    command = [sys.executable, "-m", "benchmarks.tokenization", "--measure", language]
    command += ["--data", options.data, "--max-mb", options.max_mb, "--rounds", options.rounds]
    result = subprocess.run(
        list(map(str, command)), env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    row: dict[str, object] = json.loads(result.stdout)
    return {**row, "tokenizer_threads": threads}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    data = os.environ.get("BERTSMITH_DATA")
    parser.add_argument("--data", type=Path, default=data, help="default: BERTSMITH_DATA")
    parser.add_argument("--max-mb", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", choices=sorted(TEXTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.data is None:
        parser.error("set BERTSMITH_DATA, or name the folder with --data")
    return options


if __name__ == "__main__":
    main()
