"""The three doors from files to sentences, on small files of every format; every early error."""

import bz2
import gzip
import io
import json
import lzma
import pickle
import tarfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bertsmith.reading import borders, detect, documents, prose
from bertsmith.reading.documents import RawDocument, Source, find_sources, read_raw, sentences_of
from bertsmith.reading.folders import HIDDEN

LINES = "My dog is cute.\nHe likes playing.\n\n어제 늦게 잤어?\n어쩐지 피곤해 보이더라.\n"
SENTENCES = [
    ["My dog is cute.", "He likes playing."],
    ["어제 늦게 잤어?", "어쩐지 피곤해 보이더라."],
]
PROSE = [" ".join(sentences) for sentences in SENTENCES]


def read(paths: list[Path], **options) -> list[list[str]]:
    return [
        sentences_of(raw) for source in find_sources(paths, **options) for raw in read_raw(source)
    ]


def write_lines(folder: Path) -> Path:
    path = folder / "a.txt"
    path.write_text(LINES, encoding="utf-8")
    return path


def write_prose(folder: Path) -> Path:
    for number, text in enumerate(PROSE):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


def write_jsonl(folder: Path) -> Path:
    path = folder / "a.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(json.dumps({"text": t}) for t in PROSE).encode()))
    return path


def write_parquet(folder: Path) -> Path:
    path = folder / "a.parquet"
    pq.write_table(pa.table({"text": PROSE}), path)
    return path


def write_wikiextractor(folder: Path) -> Path:
    path = folder / "AA" / "wiki_00"
    path.parent.mkdir()
    docs = [f'<doc id="{n}" url="" title="T">\nT\n\n{t}\n\n</doc>\n' for n, t in enumerate(PROSE)]
    path.write_text("".join(docs), encoding="utf-8")
    return folder


def write_mediawiki(folder: Path) -> Path:
    path = folder / "pages-articles1.xml-p1p30.xz"
    pages = "".join(f"<page><ns>0</ns><revision><text>{t}</text></revision></page>" for t in PROSE)
    path.write_bytes(lzma.compress(f"<mediawiki>{pages}</mediawiki>".encode()))
    return path


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def write_archive(folder: Path) -> Path:
    members = {f"author/{number}.txt": text.encode() for number, text in enumerate(PROSE)}
    return write_tar(folder / "books.tar.gz", members)


WRITERS = {
    "lines": write_lines, "prose": write_prose, "jsonl": write_jsonl, "parquet": write_parquet,
    "wikiextractor": write_wikiextractor, "mediawiki": write_mediawiki, "archive": write_archive,
}  # fmt: skip


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_gives_the_same_sentences(kind, tmp_path):
    path = WRITERS[kind](tmp_path)
    assert {source.format for source in find_sources([path])} == {kind.replace("archive", "prose")}
    assert read([path]) == SENTENCES


def test_a_raw_document_names_its_place_and_pickles(tmp_path):
    path = write_lines(tmp_path)
    found = list(read_raw(find_sources([path])[0]))
    assert [raw.name for raw in found] == [f"{path}:1", f"{path}:2"]
    assert found[-1].bytes_read == path.stat().st_size
    assert pickle.loads(pickle.dumps(found)) == found


def test_folders_are_walked_in_sorted_order_and_what_is_left_out_is_counted(tmp_path):
    for name in ("b/1.txt", "a.txt", "b.txt", "a/2.txt", ".hidden/3.txt", "a/.4.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("A sentence.")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0")
    (tmp_path / "README.md").write_text("A title")
    (tmp_path / "empty.txt").write_text(" \n")
    skipped = Counter()
    found = find_sources([tmp_path], skipped=skipped)
    names = [source.path.relative_to(tmp_path).as_posix() for source in found]
    assert names == ["a/2.txt", "a.txt", "b/1.txt", "b.txt"]
    assert skipped == {
        "files of no known format (README.md, picture.png)": 2,
        documents.EMPTY_FILES: 1,
        HIDDEN: 2,
    }


SENTENCE = b"A sentence."


def test_members_of_another_kind_are_counted(tmp_path):
    members = {"a.txt": SENTENCE, "cover.jpg": SENTENCE, "b.txt": SENTENCE}
    path = write_tar(tmp_path / "mixed.tar", members)
    skipped = Counter()
    found = list(read_raw(find_sources([path])[0], skipped=skipped))
    assert [raw.name for raw in found] == [f"{path}:a.txt:1", f"{path}:b.txt:1"]
    assert skipped == {documents.UNKNOWN_MEMBERS: 1}


@pytest.mark.parametrize("format", ["auto", "lines"])
@pytest.mark.parametrize(
    ("first", "counted"),
    [
        ({"cover.jpg": b"\xff\xd8\0"}, {documents.UNKNOWN_MEMBERS: 1}),
        ({"README": SENTENCE, "b/notes.md": SENTENCE}, {documents.UNKNOWN_MEMBERS: 2}),
        ({"empty": b"", "blank.md": b" \n"}, {documents.UNKNOWN_MEMBERS: 2}),
        ({"empty.txt": b""}, {documents.EMPTY_FILES: 1}),
        ({"blank.txt": b"\n \n"}, {}),
    ],
)
def test_an_archive_is_read_whatever_its_first_member(format, first, counted, tmp_path):
    path = write_tar(tmp_path / "books.tar.gz", {**first, "z.txt": SENTENCE})
    skipped = Counter()
    for inputs in ([path], [tmp_path]):
        (source,) = find_sources(inputs, format)
        skipped.clear()
        found = list(read_raw(source, skipped=skipped))
        assert [(raw.name, raw.text) for raw in found] == [(f"{path}:z.txt:1", "A sentence.")]
        assert skipped == counted


def test_an_empty_member_of_a_dump_is_counted(tmp_path):
    page = "<mediawiki><page><ns>0</ns><revision><text>Words.</text></revision></page></mediawiki>"
    members = {"a.xml": b"", "b.xml": page.encode(), "c.xml": b""}
    skipped = Counter()
    (source,) = find_sources([write_tar(tmp_path / "dumps.tar", members)])
    assert [raw.text for raw in read_raw(source, skipped=skipped)] == ["Words."]
    assert skipped == {documents.EMPTY_FILES: 2}


def test_an_archive_without_a_known_member_is_refused_by_its_first(tmp_path):
    path = write_tar(tmp_path / "a.tar", {"e.txt": b"", "a.jpg": b"\0", "b.png": b"\0"})
    with pytest.raises(ValueError, match=r"a\.tar:a\.jpg: unknown extension '\.jpg'"):
        find_sources([path])
    members = {"1": SENTENCE, "2": SENTENCE}
    (source,) = find_sources([write_tar(tmp_path / "b.tar", members)])
    assert len(list(read_raw(source))) == 2


def test_documents_without_a_sentence_are_counted():
    skipped = Counter()
    raw = RawDocument(text='<doc id="1">\nTitle\n', format="wikiextractor", name="a:1")
    assert sentences_of(raw, skipped=skipped) == []
    assert skipped[documents.EMPTY] == 1


def test_lines_are_kept_as_they_stand():
    raw = RawDocument(text="One. Two. \n\tthree (, )\n", format="lines", name="a:1")
    assert sentences_of(raw) == ["One. Two.", "three (, )"]


def test_a_named_format_beats_detection(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("One. Two.\nThree.\n")
    assert read([path], format="lines") == [["One. Two.", "Three."]]
    assert read([path], format="prose") == [["One.", "Two.", "Three."]]


@pytest.mark.parametrize("kind", ["lines", "jsonl", "parquet", "wikiextractor", "mediawiki"])
def test_a_long_document_of_any_format_is_cut_and_counted(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(borders, "LONGEST_DOCUMENT", 2000)
    words = [f"{number}" for number in range(1200)]
    monkeypatch.setitem(globals(), "PROSE", [f"It says {' '.join(words)}.", "A short one."])
    monkeypatch.setitem(globals(), "LINES", "\n".join([*words, "", "A short one."]))
    skipped = Counter()
    found = list(read_raw(find_sources([WRITERS[kind](tmp_path)], kind)[0], skipped=skipped))
    assert max(len(raw.text) for raw in found) <= 2000
    assert skipped == {borders.CUT: sum("A short one" not in raw.text for raw in found) - 1}
    text = " ".join(raw.text for raw in found).split()
    assert [word.strip(".") for word in text if word.strip(".").isdecimal()] == words


def test_a_long_file_of_prose_is_cut_at_paragraphs_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(borders, "LONGEST_DOCUMENT", 2000)
    path = tmp_path / "long.txt"
    path.write_text("The first sentence. The second one.\n\n" * 200)
    skipped = Counter()
    found = list(read_raw(find_sources([path])[0], skipped=skipped))
    assert skipped == {borders.CUT: len(found) - 1}
    assert len(found) > 3
    sentences = [sentence for raw in found for sentence in sentences_of(raw)]
    assert sentences == ["The first sentence.", "The second one."] * 200


@pytest.mark.parametrize("kind", ["prose", "jsonl"])
def test_every_piece_of_a_cut_book_loses_the_frame(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(borders, "LONGEST_DOCUMENT", 6000)
    story = "He had _never_ seen such a thing in all\nof his long life.\n\n"
    book = (
        f"The Project Gutenberg EBook of A\n\n*** START OF THIS PROJECT GUTENBERG EBOOK A ***\n\n"
        f"{story * 400}*** END OF THIS PROJECT GUTENBERG EBOOK A ***\n\n"
        f"No one owns a United States copyright in these works.\n"
    )
    monkeypatch.setitem(globals(), "PROSE", [book])
    skipped = Counter()
    (source,) = find_sources([WRITERS[kind](tmp_path)])
    found = list(read_raw(source, skipped=skipped))
    assert len(found) == skipped[borders.CUT] + 1 > 3
    sentences = [sentence for raw in found for sentence in sentences_of(raw, skipped=skipped)]
    assert sentences == ["He had never seen such a thing in all of his long life."] * 400
    assert skipped[prose.GUTENBERG] > 150


def test_a_record_after_a_book_is_no_book(tmp_path, monkeypatch):
    plain = "A _plain_ sentence."
    monkeypatch.setitem(globals(), "PROSE", ["Project Gutenberg\n\nA sentence.", plain])
    assert read([write_jsonl(tmp_path)])[1] == [plain]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", r"a\.txt: the file is empty"),
        ("a.txt", b" \n\n", r"a\.txt: the file holds blank lines alone"),
        ("a.txt.gz", gzip.compress(b"\n\n\n", mtime=0), r"a\.txt\.gz: the file holds blank lines"),
        ("a.txt.gz", gzip.compress(b"", mtime=0), r"a\.txt\.gz: the file is empty"),
        ("a.txt", b"ELF\0\1", r"a\.txt:1: NUL byte at byte 3.*binary"),
        ("a.txt", "One.\nTwo é.\n".encode("latin-1"), r"a\.txt:2: not UTF-8.*0xe9.*offset 9"),
        ("a.txt", "One.\n두 번째.\n".encode("cp949"), r"a\.txt:2: not UTF-8.*iconv -f CP949"),
        ("a.txt", "第二行是汉字。\n".encode("gbk"), r"a\.txt:1: not UTF-8.*iconv -f LATIN1"),
        ("a.txt", b"A line.\n" * 100_000 + b"\xff\n", r"a\.txt:100001: not UTF-8"),
        ("a.txt", "One.".encode("utf-16"), r"UTF-16.*iconv -f UTF-16 -t UTF-8"),
        ("a.docx", b"PK", r"a\.docx: unknown extension '\.docx', expected \.txt.*--format"),
        ("a.jsonl", b"\n{'text': 1}\n", r"a\.jsonl:2: not JSON"),
        ("a.jsonl", b'{"body": "a"}\n', r"a\.jsonl:1: no text field 'text', found 'body'"),
        ("a.parquet", b"PAR1", r"a\.parquet: not a whole Parquet file"),
        ("a.txt.xz", lzma.compress(b"A line.\n" * 999)[:60], r"a\.txt\.xz: damaged or cut-short"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error_before_the_work(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        find_sources([tmp_path / name])


@pytest.mark.parametrize(
    "compress",
    [gzip.compress, lzma.compress, bz2.compress, zstandard.ZstdCompressor(0).compress],
)
def test_damage_behind_the_first_block_is_named_before_the_work(compress, tmp_path):
    lines = "".join(f"{number**5 % 1_000_003} lines.\n" for number in range(200_000)).encode()
    part = compress(lines[:100_000])
    (tmp_path / "a.txt").write_bytes(part + compress(lines)[:50_000])
    with pytest.raises(ValueError, match=r"a\.txt: damaged or cut-short compression"):
        find_sources([tmp_path / "a.txt"])


def test_a_file_of_another_encoding_is_found_by_the_samples(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("한글이다.\n".encode() * 70_001 + "é.\n".encode("latin-1") * 9 + b"ok.\n" * 9)
    with pytest.raises(ValueError, match=r"a\.txt:70002: not UTF-8"):
        find_sources([path])
    path.write_bytes("한글이다.\n".encode() * 70_001)
    assert find_sources([path])[0].format == "lines"


def test_a_large_file_is_not_read_whole_to_be_found(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes("한글이다.\n".encode() * 100_000)
    monkeypatch.setattr(detect, "text_blocks", None)
    assert find_sources([path])[0].format == "lines"


def test_a_single_wrong_byte_is_named_when_it_is_read(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"A line.\n" * 50_000 + b"\xe9\n" + b"A line.\n" * 200_000)
    (source,) = find_sources([path])
    with pytest.raises(ValueError, match=r"a\.txt:50001: not UTF-8.*0xe9.*offset 400000"):
        list(read_raw(source))


@pytest.mark.parametrize("format", ["wikiextractor", "mediawiki", "parquet"])
def test_a_format_that_the_content_denies_is_an_error(format, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("A sentence.")
    with pytest.raises(ValueError, match=r"a\.txt.*(not|expected)"):
        find_sources([path], format=format)


def test_a_missing_path_and_a_folder_without_text_are_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such file or folder"):
        find_sources([tmp_path / "nowhere"])
    with pytest.raises(FileNotFoundError, match=r"no text found in 0 files \(none\)"):
        find_sources([tmp_path])
    (tmp_path / "a.png").write_bytes(b"\0")
    with pytest.raises(FileNotFoundError, match=r"no text found in 1 files \(\.png\)"):
        find_sources([tmp_path])
    with pytest.raises(ValueError, match="no input was named"):
        find_sources([])


def test_counters_of_two_workers_add_up():
    raw = RawDocument(text="<doc id='1'\nA heading.\n", format="wikiextractor", name="a:1")
    one, two, both = Counter(), Counter(), Counter()
    sentences_of(raw, skipped=one)
    sentences_of(raw, skipped=two)
    for _ in range(2):
        sentences_of(raw, skipped=both)
    assert one + two == both


def test_source_keeps_the_size_on_disk(tmp_path):
    path = write_jsonl(tmp_path)
    assert find_sources([path], text_field="text") == [
        Source(path=path, format="jsonl", size_bytes=path.stat().st_size, text_field="text")
    ]
