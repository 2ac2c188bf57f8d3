"""How far a build has come <-> its record on disk, so that a killed build goes on.

A record is one JSON file, replaced atomically, and the arrays that it names: documents that no
shard holds yet and token counts. Files that the newest record does not name are leftovers of a kill
and are overwritten. It does not know how a corpus is built.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertsmith.batch import IntArray
from bertsmith.corpus.blocks import Position
from bertsmith.corpus.build_rules import require_same
from bertsmith.corpus.manifest import SPLITS, ShardFacts, Split, shard_facts
from bertsmith.corpus.store import array_path
from bertsmith.corpus.writer import Documents, ShardWriter
from bertsmith.files import atomic_file, read_json, write_json

_RECORD = "progress.json"


@dataclass(frozen=True, kw_only=True)
class ProgressRecord:
    """Everything that a build needs to go on from the end of a block."""

    settings: Mapping[str, str]
    """What was asked for; a build that asks for something else must not go on from here."""
    position: Position = field(default_factory=Position)
    counts: Counter[str] = field(default_factory=Counter)
    """The report's numbers so far."""
    skipped: Counter[str] = field(default_factory=Counter)
    num_runs: int = 0
    """Runs of sentence hashes written."""
    shards: Mapping[Split, tuple[ShardFacts, ...]] = field(
        default_factory=lambda: {split: () for split in SPLITS}
    )

    def save(self, folder: Path, writers: Mapping[Split, ShardWriter]) -> None:
        """Writes the arrays, then the record that names them, then removes older arrays."""
        arrays = self._arrays(folder)
        with atomic_file(arrays) as file:
            np.savez(file, allow_pickle=False, **_contents(writers))
        # asdict turns a Counter into a Counter of pairs, so the two stand in as plain mappings.
        plain = dataclasses.asdict(replace(self, counts=Counter(), skipped=Counter()))
        plain |= {"counts": dict(self.counts), "skipped": dict(self.skipped)}
        write_json(folder / _RECORD, plain)
        for older in folder.glob("pending-*.npz"):
            if older != arrays:
                older.unlink()

    @staticmethod
    def load(folder: Path, settings: Mapping[str, str]) -> ProgressRecord:
        """The newest record; a fresh one where no build was begun.

        Raises ValueError where it is of other settings, or names a file that is not there.
        """
        path = folder / _RECORD
        if not path.is_file():
            return ProgressRecord(settings=settings)
        content: dict[str, Any] = read_json(path)
        # Asked first: a record of another version may hold other fields.
        require_same(content["settings"], settings, folder.parent)
        record = ProgressRecord(
            settings=content["settings"],
            position=Position(**content["position"]),
            counts=Counter(content["counts"]),
            skipped=Counter(content["skipped"]),
            num_runs=content["num_runs"],
            shards={split: tuple(map(shard_facts, content["shards"][split])) for split in SPLITS},
        )
        if missing := [file for file in record._files(folder) if not file.is_file()]:
            raise ValueError(
                f"half a corpus lies at {folder.parent}, but {missing[0]} is missing, one of "
                f"{len(missing)} such files. Delete {folder.parent} and build it again"
            )
        return record

    def writers(
        self, folder: Path, directory: Path, vocab_size: int, shard_tokens: int
    ) -> dict[Split, ShardWriter]:
        """The writers as they were when the record was saved."""
        stored = dict(np.load(self._arrays(folder))) if self.num_runs else {}
        writers = {}
        for split in SPLITS:
            writers[split] = ShardWriter(
                directory / split,
                vocab_size,
                shard_tokens=shard_tokens,
                shards=self.shards[split],
                counts=stored.get(f"{split}.counts"),
            )
            if stored:
                writers[split].append(
                    Documents(
                        token_ids=stored[f"{split}.token_ids"],
                        sentence_lengths=stored[f"{split}.sentence_lengths"],
                        sentence_counts=stored[f"{split}.sentence_counts"],
                    )
                )
        return writers

    def remove_unnamed_shards(self, directory: Path) -> None:
        """Deletes the shards that a kill left behind the newest record."""
        for split in SPLITS:
            named = {shard.name for shard in self.shards[split]}
            for file in (directory / split).glob("shard-*.npy"):
                if file.name.partition(".")[0] not in named:
                    file.unlink()

    def run(self, folder: Path, number: int) -> Path:
        """Where run `number` of the sentence hashes lies."""
        return folder / f"hashes-{number:06}.npy"

    def _arrays(self, folder: Path) -> Path:
        return folder / f"pending-{self.position.number}.npz"

    def _files(self, folder: Path) -> list[Path]:
        """Every file that a build needs to go on from this record."""
        shards = [
            array_path(folder.parent / split, shard.name, array)
            for split in SPLITS
            for shard in self.shards[split]
            for array in shard.checksums
        ]
        runs = [self.run(folder, number) for number in range(self.num_runs)]
        return [self._arrays(folder), *runs, *shards]


def _contents(writers: Mapping[Split, ShardWriter]) -> dict[str, IntArray]:
    arrays: dict[str, IntArray] = {}
    for split, writer in writers.items():
        pending = writer.pending()
        arrays[f"{split}.counts"] = writer.counts
        arrays[f"{split}.token_ids"] = pending.token_ids
        arrays[f"{split}.sentence_lengths"] = pending.sentence_lengths
        arrays[f"{split}.sentence_counts"] = pending.sentence_counts
    return arrays
