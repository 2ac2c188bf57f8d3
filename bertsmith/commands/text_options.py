"""What can be chosen on the way from text to a corpus: the options of three commands.

`learn-vocab` and `build-corpus` take theirs from here, and `pretrain`, which does the work of both,
those of both. It reads nothing and imports nothing heavy, so that a mistake is told at once.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from bertsmith.reading.detect import Format
from bertsmith.text.config import Score, VocabularyConfig
from bertsmith.text.rules import TokenizerConfig, UnicodeForm
from bertsmith.text.sentences import Language

FormChoice = Literal["auto", UnicodeForm]

HELD_OUT = 0.01
"""Share of the documents kept for evaluation where none was given, and then one at least."""


@dataclass(frozen=True, kw_only=True)
class ReadingChoices:
    """How files of text are read."""

    format: Format = "auto"
    """What the files are; auto looks at each."""
    text_field: str = "text"
    """The field or column that holds the text, in JSONL and Parquet."""
    language: Language = "auto"
    """Whose rules split prose into sentences."""
    workers: int = 0
    """Processes that read text; 0: one a core. The result does not depend on it."""

    def __post_init__(self) -> None:
        """Refuses what could only fail later."""
        if self.workers < 0:
            raise ValueError(f"workers must not be negative, found {self.workers}")


@dataclass(frozen=True, kw_only=True)
class VocabularyChoices:
    """How words are made of text, and a vocabulary of the words; its size stands elsewhere."""

    cased: bool = False
    """Keep capital letters, and accents unless --strip-accents says otherwise."""
    strip_accents: bool | None = None
    """Decompose and drop accents, which breaks Hangul into jamo; by default with lower-casing, but
    not in Korean text."""
    unicode_form: FormChoice = "auto"
    """Unicode form to bring the text into first (original: none); auto: NFC where its Hangul is
    decomposed, as macOS writes it, else none."""
    split_cjk: bool = True
    """Make every Chinese character a word (original: on)."""
    min_count: int = 2
    """A character seen less often is left out; words that hold it become `[UNK]`."""
    alphabet_limit: int = 0
    """The most characters kept; 0: as many as cover all but 1 in 100,000 characters of the text, in
    a third of the rows, and all Hangul seen min_count times, in half of them."""
    common_hangul: bool = True
    """In Korean text: rows also for the syllables and letters of KS X 1001 that this text lacks: a
    quarter at most, and those that no pair needs."""
    score: Score = "frequency"
    """`frequency`: join the most frequent pair; `likelihood`: the highest count/(left * right)."""
    min_pair_count: int = 2
    """Pairs seen less often are never joined; with `likelihood` a higher value (100) is wise."""
    unused_rows: int | None = None
    """`[unused]` rows; by default 994, the released layout, from 28,000 rows on, else none."""
    memory_mb: int = 1024
    """Memory for the words, MB; what does not fit is spilled to disk, or left out and counted."""

    def __post_init__(self) -> None:
        """Refuses what has another name further inside."""
        if self.memory_mb < 1:
            raise ValueError(f"memory_mb must be at least 1, found {self.memory_mb}")

    def config(self, vocab_size: int) -> VocabularyConfig:
        """The vocabulary of so many rows. Raises ValueError for a contradiction."""
        lowercase = not self.cased
        return VocabularyConfig(
            vocab_size=vocab_size,
            tokenizer=TokenizerConfig(
                lowercase=lowercase,
                strip_accents=lowercase if self.strip_accents is None else self.strip_accents,
                unicode_form="none" if self.unicode_form == "auto" else self.unicode_form,
                split_cjk=self.split_cjk,
            ),
            min_count=self.min_count,
            alphabet_limit=self.alphabet_limit,
            common_hangul=self.common_hangul,
            score=self.score,
            min_pair_count=self.min_pair_count,
            unused_rows=self.unused_rows,
            memory_bytes=self.memory_mb << 20,
        )


@dataclass(frozen=True, kw_only=True)
class LearnVocab:
    """Learns a WordPiece vocabulary from text."""

    inputs: tyro.conf.Positional[tuple[Path, ...]]
    """Files or folders: plain text, JSONL, Parquet, WikiExtractor, MediaWiki; compressed or not."""
    out: Path
    """Directory for the tokenizer's files."""
    vocab_size: int = 30_522
    """Rows, special and `[unused]` ones included (paper: 30,522 uncased, 28,996 cased)."""
    vocabulary: Annotated[VocabularyChoices, tyro.conf.arg(name="")] = field(
        default_factory=VocabularyChoices
    )
    """How words are made of the text, and the vocabulary of words."""
    reading: Annotated[ReadingChoices, tyro.conf.arg(name="")] = field(
        default_factory=ReadingChoices
    )
    """How the files are read."""

    def __post_init__(self) -> None:
        """Refuses a contradiction before any text is read."""
        if not self.inputs:
            raise ValueError("no input was named; name at least one file or folder of text")
        self.vocabulary_config()

    def vocabulary_config(self) -> VocabularyConfig:
        """The options that shape the vocabulary."""
        return self.vocabulary.config(self.vocab_size)


@dataclass(frozen=True, kw_only=True)
class BuildCorpus:
    """Turns text into token ids with sentence and document boundaries, once.

    Interrupted or killed, it goes on when it is started again in the same way.
    """

    inputs: tyro.conf.Positional[tuple[Path, ...]]
    """Files or folders: plain text, JSONL, Parquet, WikiExtractor output, a MediaWiki dump;
    compressed (.gz .xz .bz2 .zst, .tar) or not."""
    vocab: Path
    """A vocab.txt, a tokenizer.json or a directory that holds them."""
    out: Path
    """The corpus's directory."""
    held_out: float | None = None
    """Share of the documents kept for evaluation; by default 0.01, and of several documents one at
    least."""
    seed: int = 0
    """Chooses the documents that are held out."""
    reading: Annotated[ReadingChoices, tyro.conf.arg(name="")] = field(
        default_factory=ReadingChoices
    )
    """How the files are read."""


@dataclass(frozen=True, kw_only=True)
class TextChoices:
    """How text becomes a vocabulary and a corpus."""

    vocab: Path | None = None
    """An existing vocabulary to use (a directory, vocab.txt or tokenizer.json)."""
    vocab_size: int = 0
    """Rows to learn; 0: by the amount of text."""
    vocabulary: Annotated[VocabularyChoices, tyro.conf.arg(name="")] = field(
        default_factory=VocabularyChoices
    )
    """How a vocabulary is learned."""
    held_out: float | None = None
    """Share of documents kept for evaluation; by default 0.01, and of several documents one at
    least."""
    reading: Annotated[ReadingChoices, tyro.conf.arg(name="")] = field(
        default_factory=ReadingChoices
    )
    """How the files are read."""

    def __post_init__(self) -> None:
        """Refuses what would fail later: a vocabulary or a division that cannot be."""
        if self.held_out is not None and not 0.0 <= self.held_out < 1.0:
            raise ValueError(f"held_out must be at least 0 and below 1, found {self.held_out}")
        if self.vocab_size:
            self.vocabulary.config(self.vocab_size)

    def to_json(self) -> dict[str, object]:
        """The choices as JSON values; workers left out, since they change nothing."""
        values = dataclasses.asdict(self)
        del values["reading"]["workers"]
        if (
            self.vocabulary.unicode_form == "auto"
        ):  # as runs say that began before there was a choice
            values["vocabulary"]["unicode_form"] = "none"
        return {
            **values,
            "vocab": None if self.vocab is None else str(self.vocab.resolve()),
            "held_out": HELD_OUT if self.held_out is None else self.held_out,
        }
