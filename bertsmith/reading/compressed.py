"""A file, compressed or not, archive or not -> named streams of bytes, and bytes -> checked text.

Compression and tar are told by the first bytes, never by the name, so a misnamed file reads all the
same. It knows neither formats nor documents.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from bertsmith.reading.decompression import decompressed, is_compressed_start
from bertsmith.reading.folders import HIDDEN, NO_FILES

BLOCK_BYTES = 1 << 20
_TAR_MAGIC_AT = 257
_BYTE_ORDER_MARK = "\ufeff"

_KOREAN = re.compile(rb"[\xb0-\xc8][\xa1-\xfe]")
"""A syllable in EUC-KR; Chinese in GBK has these bytes too, but among many others."""
_KOREAN_SHARE = 0.8


@dataclass(frozen=True, kw_only=True)
class Member:
    """One stream of bytes: a whole file, or one regular file inside a tar archive."""

    name: str
    """The path; inside an archive `archive:member`."""
    stream: IO[bytes]
    """Decompressed bytes, read once from the beginning."""
    position: Callable[[], int]
    """Bytes of the file on disk consumed so far, for progress."""
    is_empty: bool = False
    """True for a file of no bytes inside an archive."""


def open_members(path: Path, skipped: Counter[str] | None = None) -> Iterator[Member]:
    """Yields the file's only stream, or each regular file of a tar archive in the archive's order.

    What is hidden, or lies in a hidden folder, is left out as in folders, and what is neither file
    nor folder: both are counted. Each stream must be read before the next is asked for. Raises
    ValueError for damaged compression, a damaged or cut archive, and what stands behind its end.
    """
    skipped = Counter() if skipped is None else skipped
    with path.open("rb") as raw, naming_damage(str(path)):
        stream = decompressed(raw, BLOCK_BYTES)
        if stream.peek(_TAR_MAGIC_AT + 5)[_TAR_MAGIC_AT:][:5] != b"ustar":
            yield Member(name=str(path), stream=stream, position=raw.tell)
            return
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_StrictInfo) as archive:
            for info in archive:
                if info.isdir():
                    continue
                inner = archive.extractfile(info) if info.isreg() else None
                if _is_hidden(info.name):
                    skipped[HIDDEN] += 1
                elif inner is None:
                    skipped[NO_FILES] += 1
                else:
                    yield Member(
                        name=f"{path}:{info.name}",
                        stream=inner,
                        position=raw.tell,
                        is_empty=info.size == 0,
                    )
            _require_end(archive)


def is_compressed(path: Path) -> bool:
    """Whether the file begins like a gzip, xz, bzip2 or Zstandard file."""
    with path.open("rb") as file:
        return is_compressed_start(file.read(6))


def text_blocks(
    member: Member, block_bytes: int = BLOCK_BYTES, *, keeps_returns: bool = False
) -> Iterator[str]:
    r"""Yields the member's text in blocks, in bounded memory: UTF-8 checked, line ends made `\n`.

    With `keeps_returns` a `\r` that stands alone is no line end. A byte order mark is dropped.
    Raises ValueError with byte offset and line for a byte that is not UTF-8, for a NUL byte (a
    binary file, or UTF-16), and for damaged compression.
    """
    newlines = _LineFeeds() if keeps_returns else io.IncrementalNewlineDecoder(None, translate=True)
    pending, offset, line, first = b"", 0, 1, True
    with naming_damage(member.name):
        while block := member.stream.read(block_bytes):
            pending += block
            text, consumed = checked_utf8(pending, member.name, offset, line)
            line += pending.count(b"\n", 0, consumed)
            offset += consumed
            pending = pending[consumed:]
            if text := newlines.decode(text):
                yield text.removeprefix(_BYTE_ORDER_MARK) if first else text
                first = False
    checked_utf8(pending, member.name, offset, line, final=True)
    if rest := newlines.decode("", final=True):
        yield rest


def checked_utf8(
    data: bytes, name: str, offset: int = 0, line: int = 1, *, final: bool = False
) -> tuple[str, int]:
    """Decodes as much as is whole; returns the text and the bytes consumed.

    `offset` and `line` say where `data` begins, for the error.
    """
    if not offset and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(
            f"{name}: not UTF-8 but UTF-16, by its first two bytes. Convert the file first: "
            f"iconv -f UTF-16 -t UTF-8"
        )
    if (nul := data.find(b"\0")) >= 0:
        where = line + data.count(b"\n", 0, nul)
        raise ValueError(
            f"{name}:{where}: NUL byte at byte {offset + nul}: this is not UTF-8 text but a binary "
            f"file (or UTF-16). Give plain text, or .gz .xz .bz2 .zst of it"
        )
    try:
        return codecs.utf_8_decode(data, "strict", final)
    except UnicodeDecodeError as error:
        where = line + data.count(b"\n", 0, error.start)
        raise ValueError(
            f"{name}:{where}: not UTF-8: byte 0x{data[error.start]:02x} at byte offset "
            f"{offset + error.start} ({error.reason}). Convert the file to UTF-8 first, "
            f"{_conversion(data)}"
        ) from error


class _LineFeeds:
    r"""Makes `\n` of every `\r\n`, wherever blocks of text are cut."""

    def __init__(self) -> None:
        self._held = ""

    def decode(self, text: str, final: bool = False) -> str:
        """The text so far, but a return at its end, which may be the half of a line end."""
        text = self._held + text
        self._held = "\r" if text.endswith("\r") and not final else ""
        return text.removesuffix(self._held).replace("\r\n", "\n")


def _conversion(data: bytes) -> str:
    """How to convert what these bytes look like."""
    num_korean = 2 * len(_KOREAN.findall(data))
    if num_korean > _KOREAN_SHARE * sum(byte >= 0x80 for byte in data):
        return "it looks like Korean in CP949 (EUC-KR): `iconv -f CP949 -t UTF-8`"
    return "for example `iconv -f LATIN1 -t UTF-8`"


@contextmanager
def naming_damage(name: str) -> Iterator[None]:
    """Turns every decompressor's own error into one ValueError that names the file."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError) as error:
        raise ValueError(f"{name}: damaged or cut-short compression ({error})") from error


class _StrictInfo(tarfile.TarInfo):
    """A header that must be whole: the library takes a broken one for the archive's end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        if not buf:
            raise tarfile.ReadError("the archive has no end")
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if not any(buf):  # what stands at the end of an archive
                raise
            raise tarfile.ReadError(f"inside the archive: {error}") from error


def _require_end(archive: tarfile.TarFile) -> None:
    """Raises ReadError for more than zeros behind an archive's end, as of another archive."""
    assert archive.fileobj is not None
    while block := archive.fileobj.read(BLOCK_BYTES):
        if any(block):
            raise tarfile.ReadError("behind the archive's end stands more, which no tar reads")


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in name.split("/"))
