"""Opening and decoding: every compression, archives, and what damage looks like to a person."""

import bz2
import gzip
import io
import lzma
import tarfile
from collections import Counter
from pathlib import Path

import pytest
import zstandard

from bertsmith.reading.compressed import Member, open_members, text_blocks
from bertsmith.reading.folders import HIDDEN, NO_FILES

TEXT = "첫 문장이다.\nA second line.\n" * 500
COMPRESSIONS = [
    gzip.compress,
    lzma.compress,
    bz2.compress,
    zstandard.ZstdCompressor(write_checksum=True).compress,
]


def read(path: Path, block_bytes: int = 64) -> list[tuple[str, str]]:
    return [
        (member.name, "".join(text_blocks(member, block_bytes))) for member in open_members(path)
    ]


def member_of(data: bytes) -> Member:
    return Member(name="book.txt", stream=io.BytesIO(data), position=lambda: 0)


@pytest.mark.parametrize("compress", [bytes, *COMPRESSIONS])
def test_compression_is_told_by_content_not_by_name(compress, tmp_path):
    path = tmp_path / "named_by_nobody"
    path.write_bytes(compress(TEXT.encode()))
    assert read(path) == [(str(path), TEXT)]


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_files_of_several_compressed_parts_are_read_to_the_end(compress, tmp_path):
    path = tmp_path / "parts"
    path.write_bytes(compress(b"one ") + compress(b"two"))
    assert read(path) == [(str(path), "one two")]


def test_zstandard_frames_are_read_to_the_end(tmp_path):
    path = tmp_path / "parts.zst"
    compressor = zstandard.ZstdCompressor()
    path.write_bytes(compressor.compress(b"one ") + compressor.compress(b"two"))
    assert read(path) == [(str(path), "one two")]


def tar_of(num_files: int) -> bytes:
    """A header and a block each, and the two empty blocks at least that end an archive."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for number in range(num_files):
            info = tarfile.TarInfo(f"{number}.txt")
            info.size = 4
            archive.addfile(info, io.BytesIO(b"text"))
    return written.getvalue()


@pytest.mark.parametrize(
    "size", [2 * 512, 2 * 512 + 1, 2 * 512 + 300, 3 * 512, 3 * 512 + 2, 4 * 512]
)
def test_an_archive_that_is_cut_anywhere_before_its_end_is_named(size, tmp_path):
    path = tmp_path / "books.tar"
    path.write_bytes(tar_of(3)[:size])
    with pytest.raises(ValueError, match=r"books\.tar.*: damaged or cut-short"):
        read(path)


@pytest.mark.parametrize("place", [512 * header + byte for header in (0, 2, 4) for byte in (0, 90)])
def test_an_archive_with_a_damaged_header_is_named(place, tmp_path):
    path, content = tmp_path / "books.tar", bytearray(tar_of(3))
    assert len(content) > 8 * 512
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"books\.tar.*: damaged or cut-short"):
        read(path)


def test_an_archive_ends_where_it_says(tmp_path):
    path = tmp_path / "books.tar"
    path.write_bytes(tar_of(3)[: 7 * 512])  # with one of its two empty blocks
    assert [name for name, _ in read(path)] == [f"{path}:{number}.txt" for number in range(3)]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_what_stands_behind_an_archives_end_is_named(compress, tmp_path):
    path, twice = tmp_path / "books.tar", compress(tar_of(3)) + compress(tar_of(3))
    for content in (twice, compress(tar_of(3)) + b"notes" * 200):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"books\.tar: damaged or cut-short"):
            read(path)


def test_what_an_archive_holds_besides_files_is_counted_as_in_folders(tmp_path):
    path, skipped = tmp_path / "books.tar", Counter()
    with tarfile.open(path, "w") as archive:
        for name, kind in (
            ("./sub", tarfile.DIRTYPE),
            ("./sub/a.txt", tarfile.REGTYPE),
            ("./.cache/b.txt", tarfile.REGTYPE),
            ("./sub/.c.txt", tarfile.REGTYPE),
            ("./sub/d.txt", tarfile.SYMTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "a.txt" if kind == tarfile.SYMTYPE else ""
            archive.addfile(info)
    assert [each.name for each in open_members(path, skipped)] == [f"{path}:./sub/a.txt"]
    assert skipped == {HIDDEN: 2, NO_FILES: 1}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_members_of_an_archive_come_in_its_order_without_hidden_ones(mode, tmp_path):
    path = tmp_path / "books"
    with tarfile.open(path, mode) as archive:
        for name, text in (("b/2.txt", "two"), ("b/._2.txt", "attributes"), ("a/1.txt", "one")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    assert read(path) == [(f"{path}:b/2.txt", "two"), (f"{path}:a/1.txt", "one")]


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_cut_short_file_is_named(compress, tmp_path):
    path = tmp_path / "cut.txt"
    path.write_bytes(compress(bytes(range(32, 127)) * 997)[:-20])
    with pytest.raises(ValueError, match=r"cut\.txt: damaged or cut-short compression"):
        read(path)


def test_zstandard_cut_at_any_byte_is_an_error_and_never_a_shorter_text(tmp_path):
    path = tmp_path / "cut.zst"
    part = zstandard.ZstdCompressor(level=1).compress(TEXT.encode())
    for length in range(4, 2 * len(part)):
        path.write_bytes((part + part)[:length])
        if length == len(part):
            assert read(path) == [(str(path), TEXT)]
            continue
        with pytest.raises(ValueError, match=r"cut\.zst: damaged or cut-short compression"):
            read(path)


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_flipped_bit_anywhere_is_an_error_with_the_name_or_changes_nothing(compress, tmp_path):
    path = tmp_path / "flipped.txt"
    whole = compress(TEXT.encode())
    refusals = []
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            assert read(path) == [(str(path), TEXT)]
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > len(whole) / 2
    assert all("flipped.txt" in refusal for refusal in refusals)


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_what_is_no_stream_behind_a_whole_one_is_named(compress, tmp_path):
    path, whole = tmp_path / "a.txt", compress(TEXT.encode())
    for rest in (
        b"a note in plain text\n",
        b"B",
        b"\xfd7zXZ\0",
        compress(b"")[:-1],
        b"\0" * 9 + b"a",
    ):
        path.write_bytes(whole + rest)
        with pytest.raises(ValueError, match=r"a\.txt: damaged or cut-short compression"):
            read(path)


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress, COMPRESSIONS[-1]])
def test_an_error_behind_a_whole_stream_says_up_to_where_the_file_is_whole(compress, tmp_path):
    path, whole = tmp_path / "a.txt", compress(b"text")
    path.write_bytes(whole + b"\0" * 40_000 + b"a note in plain text\n")
    with pytest.raises(ValueError, match=f"whole up to byte {len(whole) + 40_000:,} of the file"):
        read(path)


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_zeros_between_streams_and_behind_them_are_padding(compress, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(compress(b"one ") + b"\0" * 40_000 + compress(b"two") + b"\0" * 8)
    assert read(path) == [(str(path), "one two")]


def test_zstandard_parts_without_text_are_passed_over(tmp_path):
    path = tmp_path / "parts.zst"
    part = zstandard.ZstdCompressor().compress(b"text")
    note = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    path.write_bytes(part + note + zstandard.ZstdCompressor().compress(b"") + part + note)
    assert read(path) == [(str(path), "texttext")]


def test_a_large_zstandard_file_is_read_whole(tmp_path):
    path = tmp_path / "large.zst"
    text = "".join(f"{number**5 % 1_000_003} of many.\n" for number in range(100_000))
    path.write_bytes(zstandard.ZstdCompressor(level=1).compress(text.encode()))
    assert path.stat().st_size > 1 << 18
    assert read(path, 1 << 20) == [(str(path), text)]


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 1 << 20])
def test_text_does_not_depend_on_the_block_size(block_bytes):
    data = "\ufeff한글 a\r\nb\rc\nd\r\n\r\n".encode()
    text = "".join(text_blocks(member_of(data), block_bytes))
    assert text == "한글 a\nb\nc\nd\n\n"


@pytest.mark.parametrize("block_bytes", [1, 4, 1 << 20])
def test_a_wrong_byte_is_named_with_line_and_offset(block_bytes):
    data = "한글\nok\n".encode() + b"caf\xe9 noir\n"
    with pytest.raises(ValueError, match=r"book\.txt:3: not UTF-8: byte 0xe9 at byte offset 13"):
        list(text_blocks(member_of(data), block_bytes))


def test_a_character_cut_off_by_the_end_of_the_file_is_an_error():
    with pytest.raises(ValueError, match=r"book\.txt:1: not UTF-8: byte 0xea at byte offset 1"):
        list(text_blocks(member_of(b"a" + "가".encode()[:2])))


def test_a_nul_byte_means_binary():
    with pytest.raises(ValueError, match=r"book\.txt:1: NUL byte at byte 2.*binary"):
        list(text_blocks(member_of(b"ab\0c")))
    with pytest.raises(ValueError, match=r"book\.txt:3: NUL byte at byte 5"):
        list(text_blocks(member_of(b"a\nb\nc\0d"), block_bytes=4))


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 1 << 20])
def test_a_lone_carriage_return_is_kept_where_that_is_asked_for(block_bytes):
    data = "\ufeff한글 a\r\nb\rc\nd\r\r\n\r\ne\r".encode()
    blocks = text_blocks(member_of(data), block_bytes, keeps_returns=True)
    assert "".join(blocks) == "한글 a\nb\rc\nd\r\n\ne\r"
