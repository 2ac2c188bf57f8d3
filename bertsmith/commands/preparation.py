"""Text -> a corpus in the run's directory, with a vocabulary learned from it where none is given.

The first thing `pretrain` does: what was made before of the same text with the same choices is
found again, the rest is made by learn-vocab and build-corpus. It does not know models.

Vocabulary sizes by bytes of text (compressed files count three times): below 1 MB 2,000 entries,
5 MB 4,000, 20 MB 8,000, 100 MB 16,000, above it the paper's 30,522. An entry should be seen some
hundred times. A script of thousands of characters may ask for more (`script_needs`).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bertsmith.commands.build_corpus import build_corpus
from bertsmith.commands.learn_vocab import REPORT_FILE, learn_vocab, settings_of
from bertsmith.commands.script_needs import keeping_hangul, least_rows
from bertsmith.commands.text_options import BuildCorpus, LearnVocab, TextChoices
from bertsmith.corpus.build_rules import OtherSettingsError, differing_settings, input_digest
from bertsmith.corpus.manifest import FILE_NAME as MANIFEST
from bertsmith.corpus.manifest import Manifest
from bertsmith.corpus.preflight import sample_sentences
from bertsmith.files import read_json, write_json, write_text
from bertsmith.reading.compressed import is_compressed
from bertsmith.reading.documents import Source, find_sources
from bertsmith.runs.progress import say
from bertsmith.text.tokenizer import Tokenizer

_VOCABULARY_SIZES = ((1, 2_000), (5, 4_000), (20, 8_000), (100, 16_000))  # megabytes, entries
_LARGEST_VOCABULARY = 30_522
_COMPRESSION = 3
_OWN_MARK = ".made-by-pretrain"
"""Lies in a corpus that pretrain began: only such a one may it delete."""


def corpus_of(
    texts: Sequence[Path], choices: TextChoices, directory: Path, console: Console
) -> Path:
    """The corpus of these texts: the one they are, the one in `directory`, or a new one there.

    What was made there of other text or with other choices is made again. Raises FileNotFoundError
    or ValueError, before the long work, for texts that cannot be read, and where a vocabulary or a
    corpus that a person made would have to go.
    """
    if is_corpus(texts):
        return texts[0]
    run = BuildCorpus(
        inputs=tuple(texts),
        vocab=choices.vocab or directory / "vocab",
        out=directory / "corpus",
        held_out=choices.held_out,
        reading=choices.reading,
    )
    if choices.vocab is None and (learning := _to_learn(texts, choices, run.vocab, console)):
        if run.out.is_dir():
            _require_own(run.out, "another vocabulary, which is to be learned first")
        learn_vocab(learning, console)
    try:
        _build(run, console)
    except OtherSettingsError as other:
        _require_own(run.out, other.differing)
        say(console, f"corpus: {run.out}, built again for other settings: {other.differing}")
        # Moved aside first: a kill while it is being deleted leaves no part of it in the place.
        shutil.rmtree(run.out.rename(directory / ".corpus.part"))
        _build(run, console)
    return run.out


def written_vocabulary(tokenizer: Tokenizer, directory: Path, model: str, console: Console) -> Path:
    """The directory of a run's vocabulary that a model brings, written where it is not there yet.

    One that was made there before, for other words say, is replaced. Raises ValueError where it is
    a person's, or was edited.
    """
    vocabulary = directory / "vocab"
    if (vocabulary / "vocab.txt").is_file():
        found, report = Tokenizer.load(vocabulary).fingerprint, vocabulary / REPORT_FILE
        if found == tokenizer.fingerprint:
            return vocabulary
        if not report.is_file() or read_json(report).get("fingerprint") != found:
            raise ValueError(
                f"{vocabulary} holds a vocabulary that was put there or edited, and that of "
                f"{model} would replace it: name another directory with --out, or move it away"
            )
        say(console, f"vocabulary: {vocabulary}, replaced by that of {model}")
    vocabulary.mkdir(parents=True, exist_ok=True)
    # It goes first and comes last: where it stands, the report beside it is its own.
    (vocabulary / "vocab.txt").unlink(missing_ok=True)
    write_json(vocabulary / REPORT_FILE, {"model": model, "fingerprint": tokenizer.fingerprint})
    tokenizer.save(vocabulary)
    return vocabulary


def glance(texts: Sequence[Path], choices: TextChoices) -> list[str]:
    """Sentences from the beginnings of a few files of the texts."""
    return list(sample_sentences(_sources_of(texts, choices), choices.reading.language))


def is_corpus(texts: Sequence[Path]) -> bool:
    """Whether the texts are one corpus that build-corpus made."""
    return len(texts) == 1 and (texts[0] / MANIFEST).is_file()


def is_of_other_text(corpus: Path, texts: Sequence[Path], choices: TextChoices) -> bool:
    """Whether the texts are no longer what the corpus was built from.

    Raises ValueError for texts that cannot be read.
    """
    if is_corpus(texts):
        return False
    sources = _sources_of(texts, choices)
    return Manifest.read(corpus).settings["input"] != input_digest(sources)


def vocabulary_size(text_bytes: int, least: int) -> int:
    """Entries for so much text, at least `least`."""
    for megabytes, entries in _VOCABULARY_SIZES:
        if text_bytes < megabytes * 1_000_000:
            return max(entries, least)
    return _LARGEST_VOCABULARY


def _sources_of(texts: Sequence[Path], choices: TextChoices) -> list[Source]:
    return find_sources(texts, choices.reading.format, choices.reading.text_field)


def _build(run: BuildCorpus, console: Console) -> None:
    """Builds the corpus, or finds it; a new one gets the mark that pretrain made it."""
    mark = run.out / _OWN_MARK
    is_new = not run.out.is_dir() or not any(run.out.iterdir())
    if is_new:
        write_text(mark, "")
    try:
        build_corpus(run, console)
    finally:
        if is_new and list(run.out.iterdir()) == [mark]:
            shutil.rmtree(run.out)


def _require_own(corpus: Path, differing: str) -> None:
    """Raises ValueError for a corpus that pretrain would delete and did not make."""
    if not (corpus / _OWN_MARK).is_file():
        raise ValueError(
            f"{corpus} was not made by pretrain, and what is asked for has other settings: "
            f"{differing}. To train on it as it is, name it in place of the text; to build one "
            f"from the text, name another directory with --out, or move it away or delete it"
        )


def _to_learn(
    texts: Sequence[Path], choices: TextChoices, vocabulary: Path, console: Console
) -> LearnVocab | None:
    """How to learn the vocabulary; None where it was so learned before, from this text."""
    sources = _sources_of(texts, choices)
    sentences = list(sample_sentences(sources, choices.reading.language))
    rows = choices.vocab_size or vocabulary_size(
        sum(map(_text_bytes, sources)), least_rows(sentences)
    )
    run = LearnVocab(
        inputs=tuple(texts),
        out=vocabulary,
        vocab_size=rows,
        vocabulary=keeping_hangul(choices.vocabulary, sentences, console),
        reading=choices.reading,
    )
    if (vocabulary / "vocab.txt").is_file():
        differing = _differing(run, sources)
        if not differing:
            say(console, f"vocabulary: {vocabulary}, made before")
            return None
        say(console, f"vocabulary: {vocabulary}, learned again for other settings: {differing}")
    return run


def _differing(run: LearnVocab, sources: Sequence[Source]) -> str:
    """How the vocabulary at `run.out` was learned otherwise; ValueError where it is a person's."""
    report = run.out / REPORT_FILE
    stored: dict[str, Any] = read_json(report) if report.is_file() else {}
    if "settings" not in stored:
        raise ValueError(
            f"{run.out} does not say what its vocabulary was learned from: to use it, "
            f"give --vocab {run.out}; to learn one from the text, move it away or delete it"
        )
    found, rows = Tokenizer.load(run.out), run.out / "vocab.txt"
    if found.fingerprint != Tokenizer.load(rows).fingerprint:
        raise ValueError(
            f"{rows} was edited: tokenizer.json beside it holds other entries, and is read first. "
            f"To use vocab.txt, give --vocab {rows}; to learn a vocabulary from the text, move "
            f"{run.out} away or delete it"
        )
    differing = differing_settings(stored["settings"], settings_of(run, sources))
    if differing and found.fingerprint != stored["fingerprint"]:
        raise ValueError(
            f"{run.out} holds a vocabulary that was learned and edited since, with other settings "
            f"than now: {differing}. To use it, give --vocab {run.out}; to learn one from the "
            f"text, move it away or delete it"
        )
    return differing


def _text_bytes(source: Source) -> int:
    is_packed = source.format == "parquet" or is_compressed(source.path)
    return source.size_bytes * (_COMPRESSION if is_packed else 1)
