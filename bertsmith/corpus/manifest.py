"""What a corpus on disk says of itself: `manifest.json`, as frozen values.

Counts, checksums, the vocabulary's fingerprint and the report of the build. It does not know what
is in the shards it lists.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bertsmith.files import read_json, write_json

Split = Literal["train", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "held_out")

FILE_NAME = "manifest.json"
FORMAT_VERSION = 3


@dataclass(frozen=True, kw_only=True)
class ShardFacts:
    """One shard, as the manifest lists it."""

    name: str
    """`shard-00000`; its arrays are `shard-00000.tokens.npy` and so on."""
    num_documents: int
    num_sentences: int
    num_tokens: int
    checksums: Mapping[str, str]
    """SHA-256 of each file, by the array's name."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a build read, kept and left out. Everything is a count."""

    files: int = 0
    """Input files."""
    input_bytes: int = 0
    """Their size on disk, compressed as they are."""
    characters: int = 0
    """Of the sentences kept."""
    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    held_out_documents: int = 0
    held_out_beyond_share: int = 0
    """Of these, the last document of all, where the share found none."""
    unknown_tokens: int = 0
    """Words that became `[UNK]`."""
    duplicate_lines: int = 0
    """Sentences whose token ids were seen before, by 64-bit hashes."""
    one_sentence_documents: int = 0
    """Under next-sentence prediction such a document can only be followed by another one's text."""
    cut_sentences: int = 0
    """Sentences longer than 65,535 tokens, each cut into several."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """What was left out, by reason."""

    def lines(self) -> list[str]:
        """The report for a person, a fact a line."""
        share = self.unknown_tokens / max(self.tokens, 1)
        repeated = self.duplicate_lines / max(self.sentences, 1)
        last = ", the last: the share found none" if self.held_out_beyond_share else ""
        held_out = f"{self.held_out_documents:,} held out{last}"
        facts = [
            f"documents               {self.documents:,} ({held_out})",
            f"sentences               {self.sentences:,}",
            f"tokens                  {self.tokens:,}",
            f"unknown tokens          {self.unknown_tokens:,} ({share:.3%})",
            f"duplicate lines         {self.duplicate_lines:,} ({repeated:.2%})",
            f"one-sentence documents  {self.one_sentence_documents:,}",
        ]
        if self.cut_sentences:
            facts.append(f"sentences cut           {self.cut_sentences:,}")
        return facts + [f"skipped                 {n:,} {why}" for why, n in self.skipped.items()]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A corpus as a value: equal manifests mean equal bytes."""

    vocabulary_fingerprint: str
    """`Tokenizer.fingerprint` of the vocabulary under `vocab/`."""
    vocab_size: int
    settings: Mapping[str, str]
    """What was asked for: language, held-out share, seed, and the input's fingerprint."""
    shards: Mapping[Split, tuple[ShardFacts, ...]]
    counts_checksum: str
    """SHA-256 of counts.npy: how often each token occurs in the training split."""
    report: Report

    def write(self, directory: Path) -> None:
        """Writes manifest.json atomically: from then on the corpus is complete."""
        write_json(directory / FILE_NAME, {"format": FORMAT_VERSION, **dataclasses.asdict(self)})

    @staticmethod
    def read(directory: Path) -> Manifest:
        """Reads manifest.json; raises FileNotFoundError or ValueError saying what is amiss."""
        path = directory / FILE_NAME
        if not path.is_file():
            raise FileNotFoundError(
                f"{directory} is not a finished corpus: it has no {FILE_NAME}. Make or finish it "
                f"with `bertsmith build-corpus`"
            )
        content: dict[str, Any] = read_json(path)
        try:
            version = content.pop("format")
            if version == FORMAT_VERSION:
                return _manifest(content)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a corpus manifest of bertsmith: {error!r}") from error
        raise ValueError(
            f"{path} has format {version}, this version reads {FORMAT_VERSION}: build it again"
        )


def shard_facts(content: Mapping[str, Any]) -> ShardFacts:
    """A ShardFacts from its JSON form."""
    return ShardFacts(**content)


def _manifest(content: dict[str, Any]) -> Manifest:
    shards: dict[Split, tuple[ShardFacts, ...]] = {
        split: tuple(map(shard_facts, content["shards"][split])) for split in SPLITS
    }
    report = Report(**content.pop("report"))
    return Manifest(**{**content, "shards": shards, "report": report})
