"""A corpus of five sentences in both splits, and a model with drawn weights that can read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from bertsmith.checkpoints.store import Loaded
from bertsmith.corpus.manifest import Manifest
from bertsmith.corpus.store import VOCABULARY_FOLDER
from bertsmith.inference import Predictor
from tests.checkpoints.tiny import tiny_config, tiny_model, tiny_tokenizer
from tests.data.corpora import write_corpus

SENTENCES = (
    "paris is the capital of france .",
    "london is a capital .",
    "the dog was hairy .",
    "my dog likes playing .",
    "he plays the cat .",
)


def small_corpus(directory: Path) -> Path:
    """Writes the corpus with its vocabulary; returns its directory."""
    tokenizer = tiny_tokenizer()
    document = [
        tokenizer.encode(sentence, add_special_tokens=False).ids.tolist() for sentence in SENTENCES
    ]
    splits: dict[Literal["train", "held_out"], list[list[list[int]]]] = {
        "train": [document] * 3,
        "held_out": [document[::-1]] * 4,
    }
    write_corpus(directory, splits, vocab_size=tokenizer.vocab_size)
    tokenizer.save(directory / VOCABULARY_FOLDER)
    manifest = Manifest.read(directory)
    replace(manifest, vocabulary_fingerprint=tokenizer.fingerprint).write(directory)
    return directory


def small_predictor() -> Predictor:
    """A model of the corpus's vocabulary."""
    loaded = Loaded(
        model=tiny_model(),
        config=tiny_config(),
        tokenizer=tiny_tokenizer(),
        directory=Path("tiny"),
        notes=(),
    )
    return Predictor(loaded)
