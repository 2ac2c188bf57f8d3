"""What is asked of a build -> settings that two builds can be compared by.

A corpus remembers them in its manifest, half a corpus in its record of progress; neither is
continued or returned for other settings. It does not know how a corpus is built.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertsmith.corpus.writer import SHARD_TOKENS
from bertsmith.reading.documents import Language, Source
from bertsmith.text.tokenizer import Tokenizer

_SETTING_NAMES = {
    "input": "input files",
    "modified": "times of the input files",
    "vocabulary": "vocabulary",
}

_END_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class BuildRules:
    """What decides the corpus's bytes, beside the input and the tokenizer."""

    language: Language = "auto"
    """Whose rules split prose into sentences."""
    held_out: float = 0.01
    """Share of the documents kept for evaluation."""
    seed: int = 0
    """Chooses the documents that are held out."""
    shard_tokens: int = SHARD_TOKENS
    """A shard is cut at the first document border past so many tokens."""

    def __post_init__(self) -> None:
        """Refuses shares that leave nothing to train on."""
        if not 0.0 <= self.held_out < 1.0:
            raise ValueError(f"held_out must be at least 0 and below 1, found {self.held_out}")
        if self.shard_tokens < 1:
            raise ValueError(f"shard_tokens must be at least 1, found {self.shard_tokens}")


def settings_of(
    sources: Sequence[Source], tokenizer: Tokenizer, rules: BuildRules
) -> dict[str, str]:
    """What decides the corpus's bytes, as words; paths are left out, so that folders may move.

    Of a file larger than 128 KiB only the size, the beginning and the end are looked at, so that a
    corpus of any size is found at once: an edit in its middle that keeps the size is not seen.
    """
    files = [
        (
            source.path.name,
            source.format,
            source.size_bytes,
            source.text_field,
            _digest_of_ends(source.path),
        )
        for source in sources
    ]
    return {
        "input": _digest(files),
        "vocabulary": tokenizer.fingerprint,
        **{name: str(value) for name, value in dataclasses.asdict(rules).items()},
    }


def modified(sources: Sequence[Source]) -> dict[str, str]:
    """When the files were last changed: half a build of older text must not be continued."""
    return {"modified": _digest([source.path.stat().st_mtime_ns for source in sources])}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode("utf-8")).hexdigest()


def _digest_of_ends(path: Path) -> str:
    """Times are no measure of a finished corpus's text: a copy has others, a restored file old."""
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(_END_BYTES))
        file.seek(max(file.tell(), path.stat().st_size - _END_BYTES))
        digest.update(file.read(_END_BYTES))
    return digest.hexdigest()


def require_same(stored: Mapping[str, str], asked: Mapping[str, str], directory: Path) -> None:
    """Raises ValueError naming what differs."""
    differing = [name for name in asked if stored.get(name) != asked[name]]
    if differing:
        named = ", ".join(
            f"{_SETTING_NAMES.get(name, name)} (there {_short(stored.get(name))}, now "
            f"{_short(asked[name])})"
            for name in differing
        )
        raise ValueError(
            f"{directory} holds a corpus, or part of one, that was built with other settings: "
            f"{named}. Choose another directory, or delete this one"
        )


def _short(value: str | None) -> str:
    return "none" if value is None else value[:12]
