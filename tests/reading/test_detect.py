"""`lines` or `prose`, and the format of a file by its content and its name."""

import io

import pytest

from bertsmith.reading.compressed import Member
from bertsmith.reading.detect import format_of, lines_or_prose, suffix_of
from bertsmith.reading.documents import find_sources

SENTENCES = [
    "The rain had only ceased with the gray streaks of morning at Blazing Star.",
    "This was nearly opposite.",
    "He stopped suddenly, for something glittered in the red soil before him.",
    "It was gold!",
    "Nobody in the settlement had risen yet, and the road lay empty in both directions.",
    "He put it in his pocket.",
    "어제 늦게 잤어?",
    "어쩐지 피곤해 보이더라.",
]
WRAPPED = """The rain had only ceased with the gray streaks of morning at
Blazing Star, and the settlement awoke to a moral sense of
cleanliness, and the finding of forgotten knives, tin cups, and
smaller camp utensils, where the heavy showers had washed away
the debris and dust heaps before the cabin doors.
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n".join(SENTENCES), "lines"),
        ("\n\n".join("\n".join(SENTENCES) for _ in range(4)), "lines"),
        ("\n".join(line.lower().rstrip(".!?") for line in SENTENCES), "lines"),
        (WRAPPED, "prose"),
        ("\n".join([WRAPPED] * 5), "prose"),
        (WRAPPED.replace("\n", "\r\n"), "prose"),
        (" ".join(SENTENCES), "prose"),
        ("\n".join([" ".join(SENTENCES)] * 5), "prose"),
        ("Shall I compare thee to a day?\nThou art more lovely\nand more temperate:\n", "prose"),
        ("One sentence.", "lines"),
    ],
)  # fmt: skip
def test_one_sentence_a_line_is_told_from_prose(text, expected):
    assert lines_or_prose(text) == expected


def kind(
    name: str, start: bytes, *, is_named: bool = False, text_field: str = "text"
) -> str | None:
    member = Member(name=name, stream=io.BytesIO(), position=lambda: 0)
    return format_of(member, start, is_named=is_named, text_field=text_field)


def test_content_beats_the_name():
    assert kind("wiki_00", b'<doc id="12" url="" title="A">\n') == "wikiextractor"
    assert kind("a.txt.xz", b'\n<doc id="12" url="" title="A">\n') == "wikiextractor"
    assert kind("dump.xml-p1p2.bz2", b'<mediawiki xmlns="x">') == "mediawiki"
    assert kind("dump", b'<?xml version="1.0"?>\n<mediawiki>') == "mediawiki"
    assert kind("a.bin", b"PAR1\0\0") == "parquet"


def test_unknown_names_are_nothing_unless_named_without_extension():
    assert kind("a.jsonl.gz", b'{"text": "a"}') == "jsonl"
    assert kind("README.md", b"# Title") is None
    assert kind("notes", b"A sentence.\n") is None
    assert kind("notes", b"A sentence.\n", is_named=True) == "lines"
    assert kind("picture.png", b"\x89PNG\0\0") is None
    with pytest.raises(ValueError, match=r"a\.txt:1: NUL byte at byte 1"):
        kind("a.txt", b"a\0")


@pytest.mark.parametrize("name", ["wiki_00", "wiki_00.bz2", "a.txt", "a.json", "b.tar:c/wiki_01"])
def test_lines_of_json_are_known_by_the_first(name):
    lines = b'\n{"id": "12", "title": "A", "text": "Anarchism is\\n"}\n{"id": "13"}\n'
    assert kind(name, lines) == "jsonl"
    assert kind(name, lines.replace(b"text", b"body"), text_field="body") == "jsonl"
    assert kind(name, b"\xef\xbb\xbf" + lines[1:]) == "jsonl"
    cut = b'{"id": "12", "text": "' + b"Anarchism is " * 100
    assert kind(name, cut) == "jsonl"


def test_what_only_looks_like_lines_of_json_is_none():
    assert kind("notes", b'{"text" is how it begins.\n', is_named=True) == "lines"
    assert kind("a.txt", b'{"id": 1}\n{"id": 2}\n') == "lines"
    assert kind("a.json", b'{\n  "text": "a"\n}\n') is None
    assert kind("settings", b'{"text": 12}\n') is None


def test_a_named_file_of_other_objects_is_told_so(tmp_path):
    path = tmp_path / "wiki_00"
    path.write_text('{"body": "Anarchism is"}\n')
    with pytest.raises(ValueError, match="no text field 'text', found 'body'"):
        find_sources([path])
    (found,) = find_sources([tmp_path], text_field="body")
    assert (found.format, found.path) == ("jsonl", path)


def test_the_extension_leaves_out_compression_and_archives():
    assert suffix_of("a/b.TXT.gz") == ".txt"
    assert suffix_of("books.tar.xz") == ""
    assert suffix_of("archive.tgz:Alcott, L. M./A Garland.txt") == ".txt"
