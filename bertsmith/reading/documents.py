"""Files and folders of any known format -> documents -> sentences.

Three doors, in the order text passes them: `find_sources` finds and checks the files before the
long work; `read_raw` streams documents out of one of them in bounded memory, with light work only;
`sentences_of` does the heavy work on one document, in any process. What is skipped is counted by
reason in a `Counter`; counters of several processes add up. Nothing here knows tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from bertsmith.reading import borders, mediawiki, prose, records, wikiextractor
from bertsmith.reading.compressed import Member, naming_damage, open_members, text_blocks
from bertsmith.reading.detect import SAMPLE_BYTES, Format, check_text, format_of, suffix_of
from bertsmith.reading.folders import files_of_no_known_format, files_under
from bertsmith.text.sentences import Language, split_sentences

__all__ = [
    "Format",
    "Language",
    "RawDocument",
    "Source",
    "find_sources",
    "read_raw",
    "sentences_of",
]

SkipReport = Counter[str]
"""What was skipped or cut, by reason in words; add those of several workers together."""

EMPTY = "empty documents"
EMPTY_FILES = "empty files"
UNKNOWN_MEMBERS = "archive members of another format"


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file to read, its format decided. A tar archive is one source of one format."""

    path: Path
    format: Format
    """Never `auto`."""
    size_bytes: int
    """On disk, compressed as it is."""
    text_field: str = "text"
    """The field or column that holds the text, in JSONL and Parquet."""
    member_suffix: str | None = None
    """The extension of the members that are read, in an archive; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class RawDocument:
    """One document as it stands in its file, neither cleaned nor split; cheap to pickle."""

    text: str
    format: Format
    name: str
    """`file:number`, counted from 1; inside an archive `file:member:number`."""
    bytes_read: int = 0
    """Bytes of the file on disk consumed when the document was found, for a progress bar."""
    is_gutenberg: bool = False
    """Whether this, or what it was cut off, begins as a book of Project Gutenberg does."""


def find_sources(
    paths: Sequence[Path],
    format: Format = "auto",
    text_field: str = "text",
    *,
    skipped: SkipReport | None = None,
) -> list[Source]:
    """Finds every readable file; folders are walked as `folders.files_under` says.

    Format, compression and archives are told by content first, then by extension. Inside a folder,
    empty files and files of unknown kind are counted in `skipped`; a file named by the user must
    be readable. Raises FileNotFoundError for a missing path or a folder without text, ValueError
    for an empty, binary or wrongly encoded file and for JSONL or Parquet without the text field.
    """
    skipped = Counter() if skipped is None else skipped
    if not paths:
        raise ValueError("no input was named; name at least one file or folder of text")
    sources = []
    unknown: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder")
        files = [path] if path.is_file() else files_under(path, skipped)
        found = [
            _source(file, format, text_field, file is path, skipped, unknown) for file in files
        ]
        kept = [source for source in found if source is not None]
        if not kept:
            raise FileNotFoundError(_nothing_in(path, files))
        sources += kept
    if unknown:
        skipped[files_of_no_known_format(unknown)] += len(unknown)
    return sources


def read_raw(source: Source, *, skipped: SkipReport | None = None) -> Iterator[RawDocument]:
    """Streams a source's documents in their order, in bounded memory.

    Raises ValueError with file and line (or byte offset) for damage that `find_sources` could not
    see at the beginning: wrong encoding, bad JSON, compression cut short.
    """
    skipped = Counter() if skipped is None else skipped
    if source.format == "parquet":
        texts = records.parquet_texts(source.path, source.text_field, skipped)
        yield from _numbered(texts, source.format, str(source.path), None, skipped)
        return
    for member in open_members(source.path, skipped):
        if source.member_suffix not in (None, suffix_of(member.name)):
            skipped[UNKNOWN_MEMBERS] += 1
        elif member.is_empty:
            skipped[EMPTY_FILES] += 1
        else:
            texts = _texts(member, source, skipped)
            yield from _numbered(texts, source.format, member.name, member, skipped)


def sentences_of(
    raw: RawDocument, language: Language = "auto", *, skipped: SkipReport | None = None
) -> list[str]:
    """The document's sentences: cleaned, un-wrapped, headings and tables dropped; may be `[]`.

    `lines` documents are taken as they stand, one sentence a line.
    """
    skipped = Counter() if skipped is None else skipped
    if raw.format == "lines":
        return [line for line in map(str.strip, raw.text.split("\n")) if line]
    if raw.format == "wikiextractor":
        passages = wikiextractor.passages(raw.text, skipped)
    elif raw.format == "mediawiki":
        passages = mediawiki.passages(raw.text, skipped)
    else:
        passages = prose.passages(raw.text, skipped, is_book=raw.is_gutenberg)
    sentences = [
        sentence for passage in passages for sentence in split_sentences(passage, language)
    ]
    if not sentences:
        skipped[EMPTY] += 1
    return sentences


def _texts(member: Member, source: Source, skipped: SkipReport) -> Iterator[str]:
    if source.format == "mediawiki":
        return mediawiki.pages(member, skipped)
    blocks = text_blocks(member)
    if source.format == "jsonl":
        return records.jsonl_texts(blocks, member.name, source.text_field, skipped)
    if source.format == "lines":
        return borders.documents_between_blank_lines(blocks, skipped)
    if source.format == "wikiextractor":
        return borders.documents_in_doc_tags(blocks, skipped)
    return borders.whole_file(blocks, skipped)


def _numbered(
    texts: Iterator[str], format: Format, name: str, member: Member | None, skipped: SkipReport
) -> Iterator[RawDocument]:
    """The documents of one member: cut where they are too long, numbered, empty ones counted."""
    numbers = count(1)
    is_book = False
    for text in texts:
        # A file of prose is one document, whose later pieces come here as texts of their own.
        is_book = prose.is_gutenberg(text) or (is_book and format == "prose")
        for piece, number in zip(borders.cut(text, skipped), numbers, strict=False):
            if not piece or piece.isspace():
                skipped[EMPTY] += 1
                continue
            yield RawDocument(
                text=piece,
                format=format,
                name=f"{name}:{number}",
                bytes_read=member.position() if member is not None else 0,
                is_gutenberg=is_book,
            )


def _source(
    path: Path,
    format: Format,
    text_field: str,
    is_named: bool,
    skipped: SkipReport,
    unknown: list[Path],
) -> Source | None:
    """Decides one file's format and checks what its beginning can tell."""
    opening = _opening(path, text_field)
    if opening is None:
        if is_named:
            has_any = any(member.stream.read(1) for member in open_members(path))
            told = "holds blank lines alone" if has_any else "is empty"
            raise ValueError(f"{path}: the file {told}")
        skipped[EMPTY_FILES] += 1
        return None
    member, start = opening
    found: Format | None = format
    if format == "auto":
        found = format_of(member, start, is_named=is_named, text_field=text_field)
    if found is None:
        if is_named:
            raise ValueError(_unknown(member.name))
        unknown.append(path)
        return None
    check_text(path, member.name, start, found, text_field)
    return Source(
        path=path,
        format=found,
        size_bytes=path.stat().st_size,
        text_field=text_field,
        member_suffix=None if member.name == str(path) else suffix_of(member.name),
    )


def _opening(path: Path, text_field: str) -> tuple[Member, bytes] | None:
    """The member that speaks for the file, and its beginning; None where all members are blank.

    In an archive it is the first one of a known format, else the first that is not blank.
    """
    first = None
    for member in open_members(path):
        with naming_damage(member.name):
            start = member.stream.read(SAMPLE_BYTES)
            while start and not start.strip():
                start = member.stream.read(SAMPLE_BYTES)
        if not start:
            continue
        first = first or (member, start)
        if member.name == str(path):
            return member, start
        if format_of(member, start, is_named=False, text_field=text_field) is not None:
            return member, start
    return first


def _unknown(name: str) -> str:
    return (
        f"{name}: unknown extension {suffix_of(name)!r}, expected .txt, .jsonl, .parquet, "
        f"WikiExtractor output or a MediaWiki dump, compressed or not; rename it, or say what it "
        f"is with --format"
    )


def _nothing_in(folder: Path, files: list[Path]) -> str:
    endings = sorted({suffix_of(file.name) or "no extension" for file in files})
    return (
        f"{folder}: no text found in {len(files)} files ({', '.join(endings[:8]) or 'none'}), "
        f"expected .txt, .jsonl, .parquet, WikiExtractor output or a MediaWiki dump, compressed "
        f"or not"
    )
