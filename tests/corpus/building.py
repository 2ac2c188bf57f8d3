"""Texts, a tokenizer and a short way to build a corpus from them, for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bertsmith.corpus import build
from bertsmith.corpus.build_rules import BuildRules
from bertsmith.corpus.manifest import Manifest
from bertsmith.reading.documents import find_sources
from bertsmith.text.tokenizer import Tokenizer

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["river", "mountain", "house", "cat", "dog", "runs", "sleeps", "the", "a", "near", "."]
RULES = BuildRules(held_out=0.2, shard_tokens=2000)


def some_tokenizer() -> Tokenizer:
    return Tokenizer(SPECIALS + WORDS)


def some_text(num_documents: int, seed: int = 0) -> str:
    """One sentence a line, a blank line between documents; a fifth of the words are unknown."""
    draw = np.random.default_rng(seed)
    vocabulary = np.array([*WORDS[:-1], "xylophone", "quark"])
    documents = []
    for _ in range(num_documents):
        sentences = [
            " ".join(draw.choice(vocabulary, int(draw.integers(3, 15)))).capitalize() + "."
            for _ in range(int(draw.integers(1, 12)))
        ]
        documents.append("\n".join(sentences))
    return "\n\n".join(documents) + "\n"


def some_folder(folder: Path) -> Path:
    """Three files of 120 documents."""
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(some_text(120, number))
    return folder


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def build_from(
    folder: Path, out: Path, tokenizer: Tokenizer, num_workers: int = 1, rules: BuildRules = RULES
) -> Manifest:
    return build.build(find_sources([folder]), tokenizer, out, rules, num_workers=num_workers)
