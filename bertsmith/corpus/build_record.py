"""How far a build has come <-> its record on disk, so that a killed build goes on.

A record is one JSON file, replaced atomically, and the arrays that it names: documents that no
shard holds yet and token counts. Files that the newest record does not name are leftovers of a kill
and are overwritten. It does not know how a corpus is built.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bertsmith.batch import IntArray
from bertsmith.corpus.blocks import Position
from bertsmith.corpus.manifest import SPLITS, ShardFacts, Split, shard_facts
from bertsmith.corpus.writer import Documents, ShardWriter
from bertsmith.files import atomic_file, write_json

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
        arrays = folder / f"pending-{self.position.number}.npz"
        with atomic_file(arrays) as file:
            np.savez(file, allow_pickle=False, **_arrays(writers))
        # asdict turns a Counter into a Counter of pairs, so the two stand in as plain mappings.
        plain = dataclasses.asdict(replace(self, counts=Counter(), skipped=Counter()))
        plain |= {"counts": dict(self.counts), "skipped": dict(self.skipped)}
        write_json(folder / _RECORD, {**plain, "arrays": arrays.name})
        for older in folder.glob("pending-*.npz"):
            if older != arrays:
                older.unlink()

    @staticmethod
    def load(folder: Path) -> ProgressRecord | None:
        """The newest record, or None where no build was begun."""
        path = folder / _RECORD
        if not path.is_file():
            return None
        content = json.loads(path.read_text(encoding="utf-8"))
        return ProgressRecord(
            settings=content["settings"],
            position=Position(**content["position"]),
            counts=Counter(content["counts"]),
            skipped=Counter(content["skipped"]),
            num_runs=content["num_runs"],
            shards={split: tuple(map(shard_facts, content["shards"][split])) for split in SPLITS},
        )

    def writers(
        self, folder: Path, directory: Path, vocab_size: int, shard_tokens: int
    ) -> dict[Split, ShardWriter]:
        """The writers as they were when the record was saved."""
        arrays = folder / f"pending-{self.position.number}.npz"
        stored = dict(np.load(arrays)) if arrays.is_file() else {}
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


def _arrays(writers: Mapping[Split, ShardWriter]) -> dict[str, IntArray]:
    arrays: dict[str, IntArray] = {}
    for split, writer in writers.items():
        pending = writer.pending()
        arrays[f"{split}.counts"] = writer.counts
        arrays[f"{split}.token_ids"] = pending.token_ids
        arrays[f"{split}.sentence_lengths"] = pending.sentence_lengths
        arrays[f"{split}.sentence_counts"] = pending.sentence_counts
    return arrays
