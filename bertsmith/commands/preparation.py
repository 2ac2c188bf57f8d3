"""Text -> a corpus in the run's directory, with a vocabulary learned from it where none is given.

The first thing `pretrain` does: what was made before of the same text with the same choices is
found again, the rest is made by learn-vocab and build-corpus. It does not know models.

Vocabulary sizes by bytes of text (compressed files count three times): below 1 MB 2,000 entries,
5 MB 4,000, 20 MB 8,000, 100 MB 16,000, above it the paper's 30,522. An entry should be seen some
hundred times.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from bertsmith.commands.build_corpus import BuildCorpus, build_corpus, require_outside
from bertsmith.commands.learn_vocab import REPORT_FILE, LearnVocab, learn_vocab, settings_of
from bertsmith.corpus.build_rules import OtherSettingsError, differing_settings, input_digest
from bertsmith.corpus.manifest import FILE_NAME as MANIFEST
from bertsmith.corpus.manifest import Manifest
from bertsmith.corpus.preflight import sample_sentences
from bertsmith.files import read_json
from bertsmith.reading.compressed import is_compressed
from bertsmith.reading.documents import Format, Source, find_sources
from bertsmith.runs.progress import say
from bertsmith.text.sentences import Language
from bertsmith.text.tokenizer import Tokenizer

_VOCABULARY_SIZES = ((1, 2_000), (5, 4_000), (20, 8_000), (100, 16_000))  # megabytes, entries
_LARGEST_VOCABULARY = 30_522
_COMPRESSION = 3
_HANGUL = re.compile("[가-힣]")
_STRAY_SHARE = 0.02


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

    What was made there of other text or with other choices is made again. Raises FileNotFoundError
    or ValueError, before the long work, for texts that cannot be read, and where a vocabulary that
    a person made would have to go.
    """
    if is_corpus(texts):
        return texts[0]
    run = BuildCorpus(
        inputs=tuple(texts),
        vocab=choices.vocab or directory / "vocab",
        out=directory / "corpus",
        workers=choices.workers,
        held_out=choices.held_out,
        language=choices.language,
        format=choices.format,
        text_field=choices.text_field,
    )
    require_outside(run)
    if choices.vocab is None:
        _learn(texts, choices, run.vocab, console)
    try:
        build_corpus(run, console)
    except OtherSettingsError as other:
        say(console, f"corpus: {run.out}, built again for other settings: {other.differing}")
        # Moved aside first: a kill while it is being deleted leaves no part of it in the place.
        shutil.rmtree(run.out.rename(directory / ".corpus.part"))
        build_corpus(run, console)
    return run.out


def is_corpus(texts: Sequence[Path]) -> bool:
    """Whether the texts are one corpus that build-corpus made."""
    return len(texts) == 1 and (texts[0] / MANIFEST).is_file()


def is_of_other_text(corpus: Path, texts: Sequence[Path], choices: TextChoices) -> bool:
    """Whether the texts are no longer what the corpus was built from.

    Raises ValueError for texts that cannot be read.
    """
    if is_corpus(texts):
        return False
    sources = find_sources(texts, choices.format, choices.text_field)
    return Manifest.read(corpus).settings["input"] != input_digest(sources)


def vocabulary_size(text_bytes: int) -> int:
    """Entries for so much text."""
    for megabytes, entries in _VOCABULARY_SIZES:
        if text_bytes < megabytes * 1_000_000:
            return entries
    return _LARGEST_VOCABULARY


def _learn(texts: Sequence[Path], choices: TextChoices, vocabulary: Path, console: Console) -> None:
    """Learns the vocabulary, unless it was learned before from this text with these choices."""
    sources = find_sources(texts, choices.format, choices.text_field)
    strip_accents = choices.strip_accents
    if strip_accents is None and not choices.cased and _is_korean(sources, choices.language):
        say(console, "the text holds Korean: accents are kept, so that Hangul stays whole")
        strip_accents = False
    run = LearnVocab(
        inputs=tuple(texts),
        out=vocabulary,
        vocab_size=choices.vocab_size or vocabulary_size(sum(map(_text_bytes, sources))),
        cased=choices.cased,
        strip_accents=strip_accents,
        workers=choices.workers,
        format=choices.format,
        text_field=choices.text_field,
        language=choices.language,
    )
    if (vocabulary / "vocab.txt").is_file():
        differing = _differing(run, sources)
        if not differing:
            say(console, f"vocabulary: {vocabulary}, made before")
            return
        say(console, f"vocabulary: {vocabulary}, learned again for other settings: {differing}")
    learn_vocab(run, console)


def _differing(run: LearnVocab, sources: Sequence[Source]) -> str:
    """How the vocabulary at `run.out` was learned otherwise; ValueError where it is a person's."""
    report = run.out / REPORT_FILE
    stored: dict[str, Any] = read_json(report) if report.is_file() else {}
    if "settings" not in stored:
        raise ValueError(
            f"{run.out} does not say what its vocabulary was learned from: to use it, "
            f"give --vocab {run.out}; to learn one from the text, move it away or delete it"
        )
    differing = differing_settings(stored["settings"], settings_of(run, sources))
    if differing and Tokenizer.load(run.out).fingerprint != stored["fingerprint"]:
        raise ValueError(
            f"{run.out} holds a vocabulary that was learned and edited since, with other settings "
            f"than now: {differing}. To use it, give --vocab {run.out}; to learn one from the "
            f"text, move it away or delete it"
        )
    return differing


def _is_korean(sources: Sequence[Source], language: Language) -> bool:
    """True when more than a stray sentence of a sample holds Hangul."""
    sentences = list(sample_sentences(sources, language))
    num_korean = sum(_HANGUL.search(sentence) is not None for sentence in sentences)
    return num_korean > _STRAY_SHARE * len(sentences)


def _text_bytes(source: Source) -> int:
    is_packed = source.format == "parquet" or is_compressed(source.path)
    return source.size_bytes * (_COMPRESSION if is_packed else 1)
