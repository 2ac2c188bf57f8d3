"""Streams behind one another: their length in memory, and errors that are the disk's own."""

import bz2
import io
import lzma

import pytest
import zstandard

from bertsmith.reading.decompression import decompressed

COMPRESSIONS = [bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress]


class Failing(io.BytesIO):
    """A file whose disk fails once its beginning is read."""

    def read(self, size=-1):
        if self.tell() > 0:
            raise OSError(5, "Input/output error")
        return super().read(size)


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_an_error_of_the_disk_is_not_taken_for_damage(compress):
    whole = Failing(compress(bytes(range(256)) * 4)[:-4])
    with pytest.raises(OSError, match="Input/output error"):
        decompressed(whole, 1 << 20).read()


@pytest.mark.parametrize("compress", COMPRESSIONS)
@pytest.mark.parametrize("size", [97, 1 << 13, 1 << 20])
def test_pieces_of_any_length_are_the_whole(compress, size):
    text = b"".join(str(number**3).encode() for number in range(20_000))
    half = len(text) // 2
    reader = decompressed(io.BytesIO(compress(text[:half]) + compress(text[half:])), 1 << 10)
    pieces = []
    while piece := reader.read(size):
        pieces.append(piece)
    assert b"".join(pieces) == text
