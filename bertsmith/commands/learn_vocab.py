"""`bertsmith learn-vocab`: folders of text -> a WordPiece vocabulary, ready for any BERT.

    bertsmith learn-vocab texts/ --out vocab/ --vocab-size 16000
    bertsmith learn-vocab kowiki/ --out vocab-ko/ --vocab-size 16000 --cased

Words are counted exactly by all workers, then joined into subwords; the result is the same to the
byte for any number of workers. `--out` gets the tokenizer's files and vocabulary-report.json.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro
from rich.console import Console

from bertsmith.commands.stages import Stage
from bertsmith.corpus.build_rules import input_digest
from bertsmith.corpus.preflight import sample_sentences
from bertsmith.files import lock, remove_leftovers, write_json
from bertsmith.reading.documents import (
    Format,
    RawDocument,
    Source,
    find_sources,
    read_raw,
    sentences_of,
)
from bertsmith.runs.progress import say
from bertsmith.text.counting import CountRules, WordCounts, count_batches
from bertsmith.text.learn import VocabularyConfig, learn
from bertsmith.text.merges import Score
from bertsmith.text.sentences import Language
from bertsmith.text.tokenizer import Tokenizer, TokenizerConfig, UnicodeForm, warn_about_hangul
from bertsmith.text.vocabulary_report import described, report_on
from bertsmith.workers import choose_workers

REPORT_FILE = "vocabulary-report.json"

_BATCH_CHARACTERS = 2_000_000


@dataclass(frozen=True, kw_only=True)
class LearnVocab:
    """Learns a WordPiece vocabulary from text."""

    inputs: tyro.conf.Positional[tuple[Path, ...]]
    """Files or folders: plain text, JSONL, Parquet, WikiExtractor, MediaWiki; compressed or not."""
    out: Path
    """Directory for the tokenizer's files."""
    vocab_size: int = 30_522
    """Rows, special and `[unused]` ones included (paper: 30,522 uncased, 28,996 cased)."""
    cased: bool = False
    """Keep capital letters, and accents unless --strip-accents says otherwise."""
    strip_accents: bool | None = None
    """Decompose and drop accents; by default with lower-casing only. Breaks Hangul into jamo."""
    unicode_form: UnicodeForm = "none"
    """Unicode form to bring the text into first (original: none)."""
    split_cjk: bool = True
    """Make every Chinese character a word (original: on)."""
    workers: int = 0
    """Processes that count words; 0: one a core. The result does not depend on it."""
    format: Format = "auto"
    """What the files are; `auto` looks at them."""
    text_field: str = "text"
    """The field or column that holds the text, in JSONL and Parquet."""
    language: Language = "auto"
    """Whose rules split sentences."""
    min_count: int = 2
    """A character seen less often is left out; words that hold it become `[UNK]`."""
    alphabet_limit: int = 0
    """The most characters kept; 0: as many as cover all but 1 in 100,000 characters of the text."""
    score: Score = "frequency"
    """`frequency`: join the most frequent pair; `likelihood`: the highest count/(left * right)."""
    min_pair_count: int = 2
    """Pairs seen less often are never joined; with `likelihood` a higher value (100) is wise."""
    unused_rows: int | None = None
    """`[unused]` rows; by default 994, the released layout, from 28,000 rows on, else none."""
    memory_mb: int = 1024
    """Memory for the words, MB; what does not fit is spilled to disk, or left out and counted."""

    def __post_init__(self) -> None:
        """Refuses a contradiction before any text is read."""
        if not self.inputs:
            raise ValueError("no input was named; name at least one file or folder of text")
        if self.workers < 0:
            raise ValueError(f"workers must not be negative, found {self.workers}")
        self.vocabulary_config()

    def vocabulary_config(self) -> VocabularyConfig:
        """The options that shape the vocabulary."""
        lowercase = not self.cased
        return VocabularyConfig(
            vocab_size=self.vocab_size,
            tokenizer=TokenizerConfig(
                lowercase=lowercase,
                strip_accents=lowercase if self.strip_accents is None else self.strip_accents,
                unicode_form=self.unicode_form,
                split_cjk=self.split_cjk,
            ),
            min_count=self.min_count,
            alphabet_limit=self.alphabet_limit,
            score=self.score,
            min_pair_count=self.min_pair_count,
            unused_rows=self.unused_rows,
            memory_bytes=self.memory_mb << 20,
        )


@dataclass(frozen=True, kw_only=True)
class DocumentBatch:
    """Documents that one worker reads at once."""

    documents: tuple[RawDocument, ...]
    """Neither cleaned nor split."""
    language: Language
    """Whose rules split sentences."""
    bytes_done: int
    """Bytes of all files behind the last document."""


def learn_vocab(run: LearnVocab, console: Console | None = None) -> Path:
    """Learns the vocabulary, writes it and returns its directory.

    Raises before the long work when an input is missing, empty or unreadable.
    """
    console = console or Console()
    started = time.perf_counter()
    config = run.vocabulary_config()
    skipped: Counter[str] = Counter()
    _require_no_model(run.out)
    sources = find_sources(run.inputs, run.format, run.text_field, skipped=skipped)
    warning = warn_about_hangul(config.tokenizer, sample_sentences(sources, run.language))
    if warning is not None:
        say(console, f"warning: {warning}")
    with lock(run.out / ".lock"):
        remove_leftovers(run.out)
        with tempfile.TemporaryDirectory(dir=run.out, prefix=".counts.", suffix=".part") as scratch:
            counts = _count(run, sources, Path(scratch), skipped, console)
            with Stage(console, "learning the vocabulary", "rows", config.vocab_size) as stage:
                learned = learn(counts, config, stage.reach)
            tokenizer = Tokenizer(learned.vocabulary, config.tokenizer)
            report = report_on(learned, tokenizer, counts, config, skipped)
        # vocab.txt goes first and comes last: where it stands, the report beside it is its own.
        (run.out / "vocab.txt").unlink(missing_ok=True)
        origin = {"settings": settings_of(run, sources), "fingerprint": tokenizer.fingerprint}
        write_json(run.out / REPORT_FILE, {**asdict(report), **origin})
        tokenizer.save(run.out)
    for line in [*described(report), f"{run.out} written in {time.perf_counter() - started:.0f} s"]:
        say(console, line)
    return run.out


def _require_no_model(directory: Path) -> None:
    """A vocabulary is replaced only where this command wrote it: a model lives by its own."""
    theirs = [
        name
        for name in ("config.json", "tokenizer.json", "vocab.txt")
        if (directory / name).is_file()
    ]
    if "config.json" in theirs or (theirs and not (directory / REPORT_FILE).is_file()):
        raise ValueError(
            f"{directory} holds {', '.join(theirs)}, which a new vocabulary would replace; name "
            f"another directory with --out"
        )


def settings_of(run: LearnVocab, sources: Sequence[Source]) -> dict[str, str]:
    """What decides the vocabulary, as words; paths are left out, so that folders may move."""
    decided_by_sources = ("inputs", "format", "text_field")
    left_out = ("out", "workers", *decided_by_sources)
    choices = {name: str(value) for name, value in asdict(run).items() if name not in left_out}
    return {"input": input_digest(sources), **choices}


def _count(
    run: LearnVocab,
    sources: list[Source],
    scratch: Path,
    skipped: Counter[str],
    console: Console,
) -> WordCounts:
    total = sum(source.size_bytes for source in sources)
    rules = CountRules(
        tokenizer=run.vocabulary_config().tokenizer,
        workers=choose_workers(run.workers, total),
        scratch=scratch,
        memory_bytes=(run.memory_mb << 20) // 2,
    )
    with Stage(console, "counting words", "bytes", total) as stage:
        counts = count_batches(
            _batches(sources, run.language, skipped),
            read_batch,
            rules,
            stage.reach,
        )
    skipped.update(counts.skipped)
    if not counts.num_words:
        raise ValueError(
            f"no words were found in {len(sources)} files; skipped: {dict(skipped) or 'nothing'}"
        )
    return counts


def read_batch(batch: DocumentBatch) -> tuple[list[str], Counter[str], int]:
    """A batch's sentences, what was skipped, and the bytes behind it; runs in a worker."""
    skipped: Counter[str] = Counter()
    sentences = [
        sentence
        for document in batch.documents
        for sentence in sentences_of(document, batch.language, skipped=skipped)
    ]
    return sentences, skipped, batch.bytes_done


def _batches(
    sources: list[Source], language: Language, skipped: Counter[str]
) -> Iterator[DocumentBatch]:
    """The documents of all files, some two million characters at a time."""
    documents: list[RawDocument] = []
    characters = bytes_before = bytes_done = 0
    for source in sources:
        for document in read_raw(source, skipped=skipped):
            documents.append(document)
            characters += len(document.text)
            bytes_done = bytes_before + document.bytes_read
            if characters >= _BATCH_CHARACTERS:
                yield DocumentBatch(
                    documents=tuple(documents), language=language, bytes_done=bytes_done
                )
                documents, characters = [], 0
        bytes_before += source.size_bytes
    if documents:
        yield DocumentBatch(documents=tuple(documents), language=language, bytes_done=bytes_before)
