"""Sources and a tokenizer -> a corpus on disk: parallel, resumable, the same bytes every time.

This process reads and writes, workers encode. Documents keep the input's order, and where a shard
is cut and which documents are held out depends on them alone, so neither the number of workers nor
a kill changes a byte. A record of progress is written with each finished shard; a build that finds
one goes on from there. Nothing is printed here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertsmith.array_files import write_array
from bertsmith.corpus.blocks import Position, read_blocks
from bertsmith.corpus.build_record import ProgressRecord
from bertsmith.corpus.build_rules import (
    BuildRules,
    require_same,
    require_unchanged,
    settings_of,
    settings_of_half,
)
from bertsmith.corpus.duplicates import UInt64Array, count_duplicates, write_run
from bertsmith.corpus.encoding import BlockEncoder, EncodedBlock
from bertsmith.corpus.manifest import FILE_NAME, SPLITS, Manifest, Report
from bertsmith.corpus.store import COUNTS_FILE, VOCABULARY_FOLDER
from bertsmith.files import lock, remove_leftovers, sha256
from bertsmith.reading.documents import Source
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.workers import in_order

WORK_FOLDER = "building"
_OWN = {WORK_FOLDER, *SPLITS, VOCABULARY_FOLDER, COUNTS_FILE, FILE_NAME}


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a build is."""

    bytes_read: int
    """Of the input on disk, compressed as it is."""
    input_bytes: int
    documents: int
    sentences: int
    tokens: int


def build(
    sources: Sequence[Source],
    tokenizer: Tokenizer,
    directory: Path,
    rules: BuildRules,
    *,
    num_workers: int = 1,
    skipped: Mapping[str, int] | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Manifest:
    """Writes a corpus at `directory`, or goes on with an interrupted one; returns its manifest.

    `skipped` is what finding the sources left out, by reason; it joins the report. A finished
    corpus of the same input, vocabulary and rules is returned as it is. Raises ValueError when
    `directory` holds anything else, or when the input has no sentence; InUseError while another
    process builds there.
    """
    settings = settings_of(sources, tokenizer, rules)
    if finished := _finished(directory, settings):
        return finished
    _require_free(directory)
    input_bytes = sum(source.size_bytes for source in sources)
    with lock(directory / WORK_FOLDER / "lock"):
        # Asked again: another process may have finished it, and let go of the lock, just now.
        if finished := _finished(directory, settings):
            return finished
        half = {**settings, **settings_of_half(sources)}
        builder = _Builder(tokenizer, directory, rules, half)
        encoder = BlockEncoder(tokenizer, rules.language)
        blocks = read_blocks(sources, builder.position)
        with contextlib.closing(in_order(encoder, blocks, num_workers)) as encoded_blocks:
            for encoded in encoded_blocks:
                builder.add(encoded)
                on_progress(builder.progress(encoded.bytes_read, input_bytes))
        require_unchanged(sources, half, directory)
        manifest = builder.finish(
            settings, Counter(skipped or {}), files=len(sources), input_bytes=input_bytes
        )
    shutil.rmtree(directory / WORK_FOLDER, ignore_errors=True)
    return manifest


class _Builder:
    """Takes encoded blocks in order; keeps the writers, the counts and the record of progress."""

    def __init__(
        self, tokenizer: Tokenizer, directory: Path, rules: BuildRules, settings: dict[str, str]
    ) -> None:
        self._tokenizer, self._directory, self._rules = tokenizer, directory, rules
        self._folder = directory / WORK_FOLDER
        self._record = ProgressRecord.load(self._folder, settings)
        for folder in (directory, self._folder, *(directory / split for split in SPLITS)):
            remove_leftovers(folder)
        self._record.remove_unnamed_shards(directory)
        self._writers = self._record.writers(
            self._folder, directory, tokenizer.vocab_size, rules.shard_tokens
        )
        self._counts, self._skipped = self._record.counts, self._record.skipped
        self._hashes: list[UInt64Array] = []

    @property
    def position(self) -> Position:
        """Where reading begins."""
        return self._record.position

    def add(self, encoded: EncodedBlock) -> None:
        """Appends the block's documents to their splits; records progress when a shard is full."""
        shards_before = self._num_shards()
        self._count(encoded)
        self._hashes.append(encoded.hashes)
        is_held_out = self._choose_held_out(encoded)
        self._writers["train"].append(encoded.documents.select(~is_held_out))
        self._writers["held_out"].append(encoded.documents.select(is_held_out))
        if self._num_shards() > shards_before:
            self._save(encoded.end)

    def progress(self, bytes_read: int, input_bytes: int) -> Progress:
        """How far the build is after the latest block."""
        return Progress(
            bytes_read=bytes_read,
            input_bytes=input_bytes,
            documents=self._counts["documents"],
            sentences=self._counts["sentences"],
            tokens=self._counts["tokens"],
        )

    def finish(
        self, settings: dict[str, str], skipped: Counter[str], *, files: int, input_bytes: int
    ) -> Manifest:
        """Writes what is left, the vocabulary, the counts and, last of all, the manifest."""
        if not self._counts["documents"]:
            raise ValueError(_nothing_kept(files, skipped + self._skipped))
        self._hold_out_one()
        for writer in self._writers.values():
            writer.flush()
        self._spill()
        runs = [self._run(number) for number in range(self._record.num_runs + 1)]
        reasons = sorted((skipped + self._skipped).items(), key=lambda item: (-item[1], item[0]))
        self._tokenizer.save(self._directory / VOCABULARY_FOLDER)
        counts_path = self._directory / COUNTS_FILE
        write_array(counts_path, self._writers["train"].counts)
        manifest = Manifest(
            vocabulary_fingerprint=self._tokenizer.fingerprint,
            vocab_size=self._tokenizer.vocab_size,
            settings=settings,
            shards={split: tuple(writer.shards) for split, writer in self._writers.items()},
            counts_checksum=sha256(counts_path),
            report=Report(
                files=files,
                input_bytes=input_bytes,
                duplicate_lines=count_duplicates(runs),
                skipped=dict(reasons),
                **self._counts,
            ),
        )
        manifest.write(self._directory)
        return manifest

    def _count(self, encoded: EncodedBlock) -> None:
        documents = encoded.documents
        self._skipped += encoded.skipped
        self._counts += Counter(
            characters=encoded.characters,
            documents=len(documents.sentence_counts),
            sentences=len(documents.sentence_lengths),
            tokens=len(documents.token_ids),
            unknown_tokens=encoded.unknown_tokens,
            one_sentence_documents=int(np.count_nonzero(documents.sentence_counts == 1)),
            cut_sentences=encoded.cut_sentences,
        )

    def _choose_held_out(self, encoded: EncodedBlock) -> npt.NDArray[np.bool_]:
        """(D,) keyed by the document's number; the very first one is always trained on."""
        is_held_out = self._rules.is_held_out(encoded.numbers)
        if not self._writers["train"].num_documents:
            is_held_out[:1] = False
        self._counts["held_out_documents"] += int(np.count_nonzero(is_held_out))
        return is_held_out

    def _hold_out_one(self) -> None:
        """Moves the last document to those held out, where the rules want one and none is."""
        train = self._writers["train"]
        is_wanted = self._rules.holds_out_one and not self._counts["held_out_documents"]
        if is_wanted and train.num_documents > 1:
            self._writers["held_out"].append(train.take_last())
            self._counts += Counter(held_out_documents=1, held_out_beyond_share=1)

    def _save(self, end: Position) -> None:
        self._spill()
        self._record = dataclasses.replace(
            self._record,
            position=end,
            num_runs=self._record.num_runs + 1,
            shards={split: tuple(writer.shards) for split, writer in self._writers.items()},
        )
        self._record.save(self._folder, self._writers)

    def _spill(self) -> None:
        write_run(self._run(self._record.num_runs), self._hashes)
        self._hashes = []

    def _run(self, number: int) -> Path:
        return self._record.run(self._folder, number)

    def _num_shards(self) -> int:
        return sum(len(writer.shards) for writer in self._writers.values())


def _finished(directory: Path, settings: Mapping[str, str]) -> Manifest | None:
    """The manifest of a finished corpus of these settings, if there is one."""
    if not (directory / FILE_NAME).is_file():
        return None
    manifest = Manifest.read(directory)
    require_same(manifest.settings, settings, directory)
    shutil.rmtree(directory / WORK_FOLDER, ignore_errors=True)
    return manifest


def _require_free(directory: Path) -> None:
    if directory.is_file():
        raise ValueError(f"{directory} is a file; a corpus is a directory")
    entries = sorted(directory.iterdir()) if directory.is_dir() else []
    own = _OWN if (directory / WORK_FOLDER).is_dir() else set()
    strangers = [path.name for path in entries if path.name not in own and path.name[0] != "."]
    if strangers:
        raise ValueError(
            f"{directory} holds files that are no corpus, {strangers[0]} among them; choose an "
            f"empty or a new directory"
        )


def _nothing_kept(files: int, skipped: Counter[str]) -> str:
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())
    return (
        f"the input holds no sentence: {files} files were read, left out were {reasons or 'none'}. "
        f"Check the folder and --format"
    )
