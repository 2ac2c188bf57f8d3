"""A model that a run goes on from -> read, told, and its vocabulary where the corpus is built.

The first thing `pretrain --from` does, before any long work: what cannot be gone on with is refused
here. It trains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from bertsmith.commands.going_on import GoingOn
from bertsmith.commands.preparation import glance, is_corpus, written_vocabulary
from bertsmith.commands.request import Request
from bertsmith.commands.text_options import TextChoices
from bertsmith.corpus.manifest import Manifest
from bertsmith.runs.pretrain_start import PretrainStart, read_pretrain_start, require_trainable
from bertsmith.runs.progress import say
from bertsmith.text.new_words import otherwise_split

_NUM_SHOWN = 3


def begin_with(
    model: GoingOn, request: Request, directory: Path, console: Console
) -> tuple[PretrainStart, TextChoices]:
    """The model with its new words, and how the corpus is to be built with its vocabulary.

    Raises FileNotFoundError or ValueError for a model or words that a run cannot begin with, and
    for a finished corpus of another vocabulary.
    """
    start = read_pretrain_start(model.place, model.words)
    require_trainable(start.config, request.run, model.name)
    for name, value in _told(start, model, request):
        say(console, f"{name:<13}{value}")
    if is_corpus(request.texts):
        _require_own_vocabulary(request.texts[0], start, model)
        return start, request.text
    vocabulary = written_vocabulary(start.tokenizer, directory, model.name, console)
    return start, replace(request.text, vocab=vocabulary)


def _told(start: PretrainStart, model: GoingOn, request: Request) -> list[tuple[str, str]]:
    """What is known of it before the corpus is made, line by line: (what, value)."""
    lines = [("from", f"{model.name}, weights {start.fingerprint[:16]}")]
    lines += [("", line) for line in start.ancestry]
    notes = start.notes(request.run)
    if start.words is not None and start.words.added:
        notes.append(_on_longer_words(start, request))
    return [*lines, *(("note", note) for note in notes)]


def _on_longer_words(start: PretrainStart, request: Request) -> str:
    """What the new words change in others, seen at the beginnings of the texts."""
    note = (
        "a longer word that begins with a new one may fall into other pieces than before, since "
        "WordPiece takes the longest entry first"
    )
    if is_corpus(request.texts):
        return note
    assert start.words is not None
    sentences = glance(request.texts, request.text)
    found = otherwise_split(start.loaded.tokenizer, start.words, sentences)
    if not found:
        return f"{note}; in the first {len(sentences):,} sentences looked at, none does"
    shown = ", ".join(
        f"{word} ({_spelt(before)} -> {_spelt(after)})"
        for word, (before, after) in list(found.items())[:_NUM_SHOWN]
    )
    return f"{note}; in {len(sentences):,} sentences looked at, {len(found):,} do, as {shown}"


def _spelt(pieces: Sequence[str]) -> str:
    return " ".join(pieces)


def _require_own_vocabulary(corpus: Path, start: PretrainStart, model: GoingOn) -> None:
    if Manifest.read(corpus).vocabulary_fingerprint != start.tokenizer.fingerprint:
        grown = " with the new words" if start.words is not None else ""
        raise ValueError(
            f"{corpus} was built with another vocabulary than that of {model.name}{grown} "
            f"({start.tokenizer.vocab_size:,} entries): name the text that it was made of, and a "
            f"corpus is built with the right one"
        )
