"""A file's first bytes and its name -> its format; and whether text is `lines` or `prose`.

What the content says beats what the name says. Every check that can be made before the long work is
made here, by reading the beginning of the file and, where it is not compressed, eight short samples
of the rest: the time does not grow with the files.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal

from bertsmith.reading.compressed import (
    Member,
    checked_utf8,
    is_compressed,
    open_members,
    text_blocks,
)
from bertsmith.reading.prose import BROKEN_SHARE, is_gutenberg, num_broken
from bertsmith.reading.records import check_first_record, check_parquet
from bertsmith.text.sentences import split_sentences

Format = Literal["auto", "lines", "prose", "jsonl", "parquet", "wikiextractor", "mediawiki"]
SAMPLE_BYTES = 1 << 18
_SAMPLED_LINES = 2000
_SAMPLES = 8
_SHORT_SAMPLE_BYTES = 1 << 14
_INSIDE_CHARACTER = bytes(range(0x80, 0xC0))
_TEXT_SUFFIXES = (".txt", ".text")
_JSONL_SUFFIXES = (".jsonl", ".ndjson")
_COMPRESSION_SUFFIXES = (".gz", ".xz", ".bz2", ".zst", ".tar", ".tgz", ".txz", ".tbz2")
_WIKIEXTRACTOR = re.compile(r"\s*<doc id=")
_MEDIAWIKI = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<mediawiki\b")


def format_of(
    member: Member, start: bytes, *, is_named: bool, text_field: str = "text"
) -> Format | None:
    """The format that the content, then the name, says; None for a name that says nothing.

    `start` is the first `SAMPLE_BYTES`; `is_named` is True for a file the user named, which is read
    as text when it has no extension. Lines of JSON are known by a first one that is an object with
    the `text_field`, in a file of text that the user named by any object. Raises ValueError for
    binary or wrongly encoded text.
    """
    if start.startswith(b"PAR1"):
        return "parquet"
    suffix = suffix_of(member.name)
    known = suffix in _TEXT_SUFFIXES + _JSONL_SUFFIXES or (is_named and not suffix)
    try:
        text = checked_utf8(start, member.name)[0].lstrip("\ufeff")
    except ValueError:
        if known:
            raise
        return None
    if _WIKIEXTRACTOR.match(text):
        return "wikiextractor"
    if _MEDIAWIKI.match(text):
        return "mediawiki"
    if suffix in _JSONL_SUFFIXES or _is_json_lines(text, text_field, is_named and known):
        return "jsonl"
    return lines_or_prose(text) if known else None


def _is_json_lines(text: str, text_field: str, has_any_field: bool) -> bool:
    first, line_end, _ = text.lstrip().partition("\n")
    if not first.startswith("{"):
        return False
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        # The sample's end may have cut a long line.
        return not line_end and re.search(_named_string(text_field), first) is not None
    return has_any_field or isinstance(record.get(text_field), str)


def _named_string(field: str) -> str:
    return rf"{re.escape(json.dumps(field))}\s*:\s*\""


def lines_or_prose(text: str) -> Literal["lines", "prose"]:
    """Tells one sentence a line from free prose, by the lines at the beginning of a text.

    A line speaks against `lines` when it holds more than one sentence, or when a sentence is broken
    at its end (`prose.num_broken` says when). Above one line in five the text is `prose`, and any
    Project Gutenberg book is. In text of one sentence a line a few in a hundred speak against it;
    in paragraphs, wrapped books and verse from a third to nearly all do.
    """
    if is_gutenberg(text):
        return "prose"
    lines = text.replace("\r\n", "\n").split("\n")[:_SAMPLED_LINES]
    if len(text) > 1000 and len(lines) > 1:
        lines.pop()  # cut in the middle by the sample's end
    several = sum(len(split_sentences(line)) > 1 for line in lines)
    count = sum(not line.isspace() and line != "" for line in lines)
    return "prose" if several + num_broken(lines) > BROKEN_SHARE * count else "lines"


def suffix_of(name: str) -> str:
    """The extension in lower case, compression and archives left out: `a.txt.gz` gives `.txt`.

    Of `archive:member` it is the member's.
    """
    path = Path(name.rpartition(":")[2])
    while path.suffix.lower() in _COMPRESSION_SUFFIXES:
        path = path.with_suffix("")
    return path.suffix.lower()


def check_text(path: Path, name: str, start: bytes, format: Format, text_field: str) -> None:
    """Raises ValueError for what can be known of a file before the long work.

    Text must be UTF-8: the beginning and a few short samples are checked here, which finds a file
    of another encoding, and every byte while reading, which finds a single wrong one.
    """
    if format == "parquet":
        check_parquet(path, text_field)
        return
    text = checked_utf8(start, name)[0].lstrip("\ufeff")
    if format == "jsonl":
        check_first_record(text, name, text_field)
    for named, mark, expected in (
        ("wikiextractor", _WIKIEXTRACTOR, "<doc id=..."),
        ("mediawiki", _MEDIAWIKI, "<mediawiki ..."),
    ):
        if format == named and not mark.match(text):
            raise ValueError(
                f"{name}:1: not {named} input, expected it to begin with {expected}, found "
                f"{text[:40]!r}"
            )
    is_plain = name == str(path) and not is_compressed(path)
    if is_plain and not _samples_are_utf8(path, path.stat().st_size):
        for member in open_members(path):
            for _ in text_blocks(member):  # finds the place, and raises
                pass


def _samples_are_utf8(path: Path, size: int) -> bool:
    """Looks behind the beginning: at places evenly spread over the rest, the last at the end."""
    room = max(0, size - SAMPLE_BYTES)
    length = min(room, _SHORT_SAMPLE_BYTES)
    with path.open("rb") as file:
        for number in range(_SAMPLES if room else 0):
            file.seek(SAMPLE_BYTES + (room - length) * number // (_SAMPLES - 1))
            sample = file.read(length)
            # A sample may begin inside a character: with at most three bytes of its rest.
            inside = len(sample[:3]) - len(sample[:3].lstrip(_INSIDE_CHARACTER))
            try:
                checked_utf8(sample[inside:], str(path))
            except ValueError:
                return False
    return True
