"""Sources -> blocks of raw documents, the unit of work of a build.

A block ends at the first document border past a fixed amount of text, so blocks are a function of
the input alone, and any block's end is a place from which reading can go on. It does not look into
documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bertsmith.reading.documents import RawDocument, Source, read_raw

BLOCK_CHARACTERS = 1 << 19
_DOCUMENT_CHARACTERS = 64  # what a document weighs beside its text, so that tiny ones end a block


@dataclass(frozen=True, kw_only=True)
class Position:
    """A place between two documents of the input."""

    source: int = 0
    """The source that is being read."""
    documents: int = 0
    """Documents already read from it."""
    number: int = 0
    """Documents already read from all sources."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive documents and where they end."""

    documents: Sequence[RawDocument]
    end: Position
    bytes_read: int
    """Bytes of the input on disk consumed so far."""
    skipped: Counter[str]
    """What reading left out since the block before, by reason."""


def read_blocks(sources: Sequence[Source], start: Position) -> Iterator[Block]:
    """Yields the blocks from `start`, the end of an earlier block, on.

    What lies before it in its source is read again and dropped. The last block may hold no
    document, only what was skipped.
    """
    skipped: Counter[str] = Counter()
    documents: list[RawDocument] = []
    size, end = 0, start
    finished_bytes = sum(source.size_bytes for source in sources[: start.source])
    bytes_read = finished_bytes
    for number in range(start.source, len(sources)):
        if number > start.source:
            end = replace(end, source=number, documents=0)
        raw_documents = read_raw(sources[number], skipped=skipped)
        if number == start.source and start.documents:
            for _ in zip(range(start.documents), raw_documents, strict=False):
                pass
            skipped.clear()
        for raw in raw_documents:
            documents.append(raw)
            size += len(raw.text) + _DOCUMENT_CHARACTERS
            end = replace(end, documents=end.documents + 1, number=end.number + 1)
            bytes_read = finished_bytes + raw.bytes_read
            if size >= BLOCK_CHARACTERS:
                yield Block(
                    documents=documents, end=end, bytes_read=bytes_read, skipped=Counter(skipped)
                )
                documents, size = [], 0
                skipped.clear()
        finished_bytes += sources[number].size_bytes
        bytes_read = finished_bytes
    yield Block(documents=documents, end=end, bytes_read=bytes_read, skipped=Counter(skipped))
