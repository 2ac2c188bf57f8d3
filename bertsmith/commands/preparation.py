"""Text -> a corpus in the run's directory, with a vocabulary learned from it where none is given.

The first thing `pretrain` does: whatever was made before is found again, the rest is made by
learn-vocab and build-corpus with the choices a person left open. It does not know models.

Vocabulary sizes by bytes of text (compressed files count three times): below 1 MB 2,000 entries,
5 MB 4,000, 20 MB 8,000, 100 MB 16,000, above it the paper's 30,522. An entry should be seen some
hundred times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rich.console import Console

from bertsmith.commands.build_corpus import BuildCorpus, build_corpus
from bertsmith.commands.learn_vocab import LearnVocab, learn_vocab
from bertsmith.corpus.manifest import FILE_NAME as MANIFEST
from bertsmith.reading.documents import Format, Source, find_sources, read_raw
from bertsmith.text.sentences import Language
from bertsmith.text.tokenizer import TokenizerConfig, warn_about_hangul

_VOCABULARY_SIZES = ((1, 2_000), (5, 4_000), (20, 8_000), (100, 16_000))  # megabytes, entries
_LARGEST_VOCABULARY = 30_522
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
_COMPRESSION = 3
_SAMPLE_CHARACTERS = 100_000


@dataclass(frozen=True, kw_only=True)
class TextChoices:
    """How text becomes a vocabulary and a corpus."""

    vocab: Path | None = None
    """An existing vocabulary to use (a directory, vocab.txt or tokenizer.json)."""
    vocab_size: int = 0
    """Entries to learn; 0: by the amount of text."""
    cased: bool = False
    """Keep capital letters."""
    strip_accents: bool | None = None
    """Drop accents; by default with lower-casing, except for Korean, which it would break."""
    language: Language = "auto"
    """Whose rules split sentences."""
    format: Format = "auto"
    """What the files are; auto looks at them."""
    text_field: str = "text"
    """The field or column that holds the text, in JSONL and Parquet."""
    held_out: float = 0.01
    """Share of documents kept for evaluation."""
    workers: int = 0
    """Processes that read text; 0: one a core. The result does not depend on it."""

    def to_json(self) -> dict[str, object]:
        """The choices as JSON values; workers left out, since they change nothing."""
        values = dataclasses.asdict(self)
        del values["workers"]
        return {**values, "vocab": None if self.vocab is None else str(self.vocab.resolve())}


def corpus_of(
    texts: Sequence[Path], choices: TextChoices, directory: Path, console: Console
) -> Path:
    """The corpus of these texts: the one they are, the one in `directory`, or a new one there.

    Raises FileNotFoundError or ValueError for texts that cannot be read, before the long work.
    """
    if len(texts) == 1 and (texts[0] / MANIFEST).is_file():
        return texts[0]
    corpus = directory / "corpus"
    if (corpus / MANIFEST).is_file():
        console.print(f"corpus: {corpus}, made before", highlight=False)
        return corpus
    vocabulary = choices.vocab or _learned(texts, choices, directory / "vocab", console)
    build_corpus(
        BuildCorpus(
            inputs=tuple(texts),
            vocab=vocabulary,
            out=corpus,
            workers=choices.workers,
            held_out=choices.held_out,
            language=choices.language,
            format=choices.format,
            text_field=choices.text_field,
        ),
        console,
    )
    return corpus


def vocabulary_size(text_bytes: int) -> int:
    """Entries for so much text."""
    for megabytes, entries in _VOCABULARY_SIZES:
        if text_bytes < megabytes * 1_000_000:
            return entries
    return _LARGEST_VOCABULARY


def _learned(
    texts: Sequence[Path], choices: TextChoices, vocabulary: Path, console: Console
) -> Path:
    if (vocabulary / "vocab.txt").is_file():
        console.print(f"vocabulary: {vocabulary}, made before", highlight=False)
        return vocabulary
    sources = find_sources(texts, choices.format, choices.text_field)
    strip_accents = choices.strip_accents
    rules = TokenizerConfig(lowercase=not choices.cased, strip_accents=not choices.cased)
    if strip_accents is None and warn_about_hangul(rules, _samples(sources)):
        console.print("the text holds Korean: accents are kept, so that Hangul stays whole")
        strip_accents = False
    learn_vocab(
        LearnVocab(
            inputs=tuple(texts),
            out=vocabulary,
            vocab_size=choices.vocab_size or vocabulary_size(sum(map(_text_bytes, sources))),
            cased=choices.cased,
            strip_accents=strip_accents,
            workers=choices.workers,
            format=choices.format,
            text_field=choices.text_field,
            language=choices.language,
        ),
        console,
    )
    return vocabulary


def _samples(sources: Sequence[Source]) -> list[str]:
    """The beginnings of a few documents of the first and the last file."""
    return [
        document.text[:_SAMPLE_CHARACTERS]
        for source in {sources[0], sources[-1]}
        for document in islice(read_raw(source), 3)
    ]


def _text_bytes(source: Source) -> int:
    is_packed = source.path.suffix in _COMPRESSED or source.format == "parquet"
    return source.size_bytes * (_COMPRESSION if is_packed else 1)
