"""The bytes of a file, compressed or not -> the bytes that they stand for, read once.

How they are compressed is told by the first bytes. A file may hold several compressed streams, one
behind the other, as parallel compressors and `cat` write them: all are read. The libraries' own
file readers take what they cannot read behind a whole stream for the end (bz2, xz), or the file's
end inside a stream for it (Zstandard); here both are damage.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_INPUT_BYTES = 1 << 14
"""Small, because Zstandard decompresses one piece whole, up to several thousand times longer."""
_MAGICS = {b"\x1f\x8b": "gz", b"\xfd7zXZ\0": "xz", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zst"}


def is_compressed_start(start: bytes) -> bool:
    """Whether these are the first bytes of a gzip, xz, bzip2 or Zstandard file."""
    return _compression(start) is not None


def decompressed(raw: io.BufferedReader, buffer_bytes: int) -> io.BufferedReader:
    """A reader of what `raw` holds from its beginning on.

    It raises EOFError for damage, and for gzip's also zlib.error and gzip.BadGzipFile.
    """
    compression = _compression(raw.read(6))
    raw.seek(0)
    if compression is None:
        return raw
    if compression == "gz":
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), buffer_bytes)
    return io.BufferedReader(_Streams(raw, *_decompressor(compression)), buffer_bytes)


class _Decompressor(Protocol):
    """Of one stream, as the standard library has them."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Streams(io.RawIOBase):
    """One stream after the other, up to the file's end; what is asked for is filled whole."""

    def __init__(
        self, raw: IO[bytes], begun: Callable[[], _Decompressor], damage: type[Exception]
    ) -> None:
        self._raw = raw
        self._begun = begun
        self._damage = damage
        self._stream = begun()
        self._stream_start = 0
        """Where it begins in the file, in bytes."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        end = 0
        while end < len(view) and (given := self._input()) is not None:
            try:
                data = self._stream.decompress(given, len(view) - end)
            except self._damage as error:
                raise self._damaged(str(error)) from error
            view[end : end + len(data)] = data
            end += len(data)
        return end

    def _input(self) -> bytes | None:
        """What the stream, or the next one, is to be given; None at the file's end."""
        if self._stream.eof:
            start = self._next_start()
            if not start:
                return None
            self._stream = self._begun()
            self._stream_start = self._raw.tell() - len(start)
            return start
        if not self._stream.needs_input:
            return b""
        data = self._raw.read(_INPUT_BYTES)
        if not data:
            raise self._damaged("the file ends inside a stream")
        return data

    def _next_start(self) -> bytes:
        """What stands behind a whole stream; zeros are passed over, as xz pads with them."""
        data = self._stream.unused_data.lstrip(b"\0")
        while not data and (more := self._raw.read(_INPUT_BYTES)):
            data = more.lstrip(b"\0")
        return data

    def _damaged(self, found: str) -> EOFError:
        whole = self._stream_start
        return EOFError(f"{found}; whole up to byte {whole:,} of the file" if whole else found)


class _ZstandardFrame:
    """One frame, given out in pieces of the length asked for."""

    def __init__(self) -> None:
        import zstandard

        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._output = b""

    @property
    def eof(self) -> bool:
        return self._frame.eof and not self._output

    @property
    def needs_input(self) -> bool:
        return not self._output

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        self._output = self._output or self._frame.decompress(data)
        data, self._output = self._output[:max_length], self._output[max_length:]
        return data


def _compression(start: bytes) -> str | None:
    return next((name for magic, name in _MAGICS.items() if start.startswith(magic)), None)


def _decompressor(compression: str) -> tuple[Callable[[], _Decompressor], type[Exception]]:
    """Who begins a stream, and what it raises for damage."""
    if compression == "xz":
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), lzma.LZMAError
    if compression == "bz2":
        return bz2.BZ2Decompressor, OSError
    import zstandard

    return _ZstandardFrame, zstandard.ZstdError
