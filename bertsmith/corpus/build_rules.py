"""What is asked of a build -> settings that two builds can be compared by.

A corpus remembers them in its manifest, half a corpus in its record of progress; neither is
continued or returned for other settings. It does not know how a corpus is built.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertsmith.corpus.manifest import FORMAT_VERSION
from bertsmith.corpus.writer import SHARD_TOKENS
from bertsmith.randomness import Stream, uniform
from bertsmith.reading.documents import Language, Source
from bertsmith.text.tokenizer import Tokenizer

READER_VERSION = 1
"""Raised with every change that gives another corpus of the same text, or another record."""

_SETTING_NAMES = {
    "input": "input files",
    "holds_out_one": "whether one document is held out at least",
    "modified": "times of the input files",
    "format": "format of corpora",
    "reader": "version of bertsmith's reader",
    "unicode": "version of Python's Unicode",
    "tokenizers": "version of tokenizers",
}

_UNNAMED_BEFORE = {"holds_out_one"}
"""Settings that older corpora do not name: such a corpus is taken for what is asked."""

_END_BYTES = 1 << 16


class OtherSettingsError(ValueError):
    """A directory holds a corpus of other settings, which are named in `differing`."""

    def __init__(self, directory: Path, differing: str) -> None:
        super().__init__(
            f"{directory} holds a corpus, or part of one, that was built with other settings: "
            f"{differing}. Choose another directory, or delete this one"
        )
        self.differing = differing


@dataclass(frozen=True, kw_only=True)
class BuildRules:
    """What decides the corpus's bytes, beside the input and the tokenizer."""

    language: Language = "auto"
    """Whose rules split prose into sentences."""
    held_out: float = 0.01
    """Share of the documents kept for evaluation."""
    holds_out_one: bool = False
    """Whether the last of several documents is kept for evaluation where the share finds none."""
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

    def is_held_out(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """(D,) which documents are kept for evaluation, by their numbers in the whole input.

        The first one that is kept at all is trained on, whatever this says.
        """
        chosen: npt.NDArray[np.bool_] = uniform(self.seed, Stream.HOLD_OUT, numbers) < self.held_out
        return chosen


def settings_of(
    sources: Sequence[Source], tokenizer: Tokenizer, rules: BuildRules
) -> dict[str, str]:
    """What decides the corpus's bytes, as words; paths are left out, so that folders may move.

    Of a file larger than 128 KiB only the size, the beginning and the end are looked at, so that a
    corpus of any size is found at once: an edit in its middle that keeps the size is not seen.
    """
    return {
        "input": input_digest(sources),
        "vocabulary": tokenizer.fingerprint,
        **{name: str(value) for name, value in dataclasses.asdict(rules).items()},
    }


def input_digest(sources: Sequence[Source]) -> str:
    """What the files are and hold, in hexadecimal; quick, as `settings_of` says."""
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
    return _digest(files)


def settings_of_half(sources: Sequence[Source]) -> dict[str, str]:
    """What may differ between two equal corpora, but not between the halves of one build.

    The files' times, which show every edit, and the versions of all that makes tokens of text.
    """
    return {
        "modified": _digest([source.path.stat().st_mtime_ns for source in sources]),
        "format": str(FORMAT_VERSION),
        "reader": str(READER_VERSION),
        "unicode": unicodedata.unidata_version,
        "tokenizers": importlib.metadata.version("tokenizers"),
    }


def require_unchanged(
    sources: Sequence[Source], settings: Mapping[str, str], directory: Path
) -> None:
    """Raises ValueError when a file is not what it was when the build of `settings` began."""
    sizes = [source.path.stat().st_size for source in sources]
    is_same = settings_of_half(sources)["modified"] == settings["modified"]
    if is_same and sizes == [source.size_bytes for source in sources]:
        return
    newest = max((source.path for source in sources), key=lambda path: path.stat().st_mtime_ns)
    raise ValueError(
        f"the text was changed while it was read, {newest} at last, so the corpus would be of "
        f"neither text. Delete {directory} and build it again"
    )


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
    """Raises OtherSettingsError naming what differs."""
    if differing := differing_settings(stored, asked):
        raise OtherSettingsError(directory, differing)


def differing_settings(stored: Mapping[str, str], asked: Mapping[str, str]) -> str:
    """What differs, each with both values; empty where nothing does."""
    return ", ".join(
        f"{_SETTING_NAMES.get(name, name)} (there {_short(stored.get(name))}, now {_short(value)})"
        for name, value in asked.items()
        if stored.get(name) != value and (name in stored or name not in _UNNAMED_BEFORE)
    )


def _short(value: str | None) -> str:
    return "none" if value is None else value[:12]
