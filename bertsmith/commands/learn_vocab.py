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
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console

from bertsmith.commands.paths import require_destination, require_text
from bertsmith.commands.script_needs import keeping_hangul
from bertsmith.commands.stages import Stage
from bertsmith.commands.text_options import LearnVocab
from bertsmith.corpus.build_rules import input_digest
from bertsmith.corpus.preflight import sample_sentences
from bertsmith.files import claimed, read_json, remove_leftovers, write_json
from bertsmith.reading.documents import (
    RawDocument,
    Source,
    find_sources,
    read_raw,
    sentences_of,
)
from bertsmith.runs.progress import say
from bertsmith.text.counting import CountRules, WordCounts, count_batches
from bertsmith.text.hangul import warn_about_hangul
from bertsmith.text.learn import learn
from bertsmith.text.sentences import Language
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.text.vocabulary_report import described, report_on, warn_about_alphabet
from bertsmith.workers import choose_workers

REPORT_FILE = "vocabulary-report.json"

_VOCABULARY_FILES = ("vocab.txt", "tokenizer.json")
_BATCH_CHARACTERS = 2_000_000


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
    skipped: Counter[str] = Counter()
    require_destination(run.out, run.inputs, "the vocabulary's")
    require_text(run.inputs, "name the text that it was built from")
    _require_own(run.out)
    sources = find_sources(run.inputs, run.reading.format, run.reading.text_field, skipped=skipped)
    sample = list(sample_sentences(sources, run.reading.language))
    run = replace(run, vocabulary=keeping_hangul(run.vocabulary, sample, console))
    config = run.vocabulary_config()
    of_hangul = warn_about_hangul(config.tokenizer, sample, is_learning=True)
    for warning in filter(None, (of_hangul, warn_about_alphabet(config, sample))):
        say(console, f"warning: {warning}")
    with claimed(run.out):
        remove_leftovers(run.out)
        with tempfile.TemporaryDirectory(dir=run.out, prefix=".counts.", suffix=".part") as scratch:
            counts = _count(run, sources, Path(scratch), skipped, console)
            with Stage(console, "learning the vocabulary", "rows", config.vocab_size) as stage:
                learned = learn(counts, config, stage.reach)
            tokenizer = Tokenizer(learned.vocabulary, config.tokenizer)
            report = report_on(learned, tokenizer, counts, config, skipped)
        # vocab.txt goes first and comes last: where it stands, the report beside it is its own.
        for name in _VOCABULARY_FILES:
            (run.out / name).unlink(missing_ok=True)
        origin = {"settings": settings_of(run, sources), "fingerprint": tokenizer.fingerprint}
        write_json(run.out / REPORT_FILE, {**asdict(report), **origin})
        tokenizer.save(run.out)
    for line in described(report, config.tokenizer, of_hangul is not None):
        say(console, line)
    say(console, f"{run.out} written in {time.perf_counter() - started:.0f} s")
    return run.out


def _require_own(directory: Path) -> None:
    """A vocabulary is replaced only as this command wrote it: a model lives by its own.

    Raises ValueError for a model's, for a person's, and for one that was edited since.
    """
    names = ("config.json", *sorted(_VOCABULARY_FILES))
    theirs = [name for name in names if (directory / name).is_file()]
    report = directory / REPORT_FILE
    if "config.json" in theirs or (theirs and not report.is_file()):
        raise ValueError(
            f"{directory} holds {', '.join(theirs)}, which a new vocabulary would replace; name "
            f"another directory with --out"
        )
    if not theirs:
        return
    written = read_json(report).get("fingerprint")
    if edited := [name for name in theirs if _fingerprint(directory / name) != written]:
        raise ValueError(
            f"{' and '.join(edited)} in {directory}: not as learn-vocab wrote it, and a new "
            f"vocabulary would replace what was edited; name another directory with --out, or "
            f"move this one away"
        )


def _fingerprint(vocabulary: Path) -> str | None:
    """The vocabulary's; None where the file holds none any more."""
    try:
        return Tokenizer.load(vocabulary).fingerprint
    except ValueError:
        return None


def settings_of(run: LearnVocab, sources: Sequence[Source]) -> dict[str, str]:
    """What decides the vocabulary, as words; paths are left out, so that folders may move."""
    choices = {
        "vocab_size": run.vocab_size,
        **asdict(run.vocabulary),
        "language": run.reading.language,
    }
    return {
        "input": input_digest(sources),
        **{name: str(value) for name, value in choices.items()},
    }


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
        workers=choose_workers(run.reading.workers, total),
        scratch=scratch,
        memory_bytes=(run.vocabulary.memory_mb << 20) // 2,
    )
    with Stage(console, "counting words", "bytes", total) as stage:
        counts = count_batches(
            _batches(sources, run.reading.language, skipped),
            read_batch,
            rules,
            stage.reach,
        )
    skipped.update(counts.skipped)
    if not counts.num_words:
        reasons = ", ".join(f"{times:,} {reason}" for reason, times in skipped.items())
        raise ValueError(
            f"no words were found in {len(sources):,} files; left out were {reasons or 'none'}. "
            f"Check the folder and --format"
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
