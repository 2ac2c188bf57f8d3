"""Document borders: where the original's format and WikiExtractor put them, in bounded memory."""

from collections import Counter

import pytest

from bertsmith.reading import borders


def in_blocks(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_blank_lines_part_documents_whatever_the_blocks(size):
    text = "\n\n \nOne.\nTwo.\n\t\n\n\nThree.\n \nFour."
    found = borders.documents_between_blank_lines(in_blocks(text, size), Counter())
    assert [document.split() for document in found] == [["One.", "Two."], ["Three."], ["Four."]]


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_doc_tags_part_documents_whatever_the_blocks(size):
    text = '<doc id="1">\nA\n\nText a.\n\n</doc>\n<doc id="2">\nB\n</doc>\n'
    found = [d.strip() for d in borders.documents_in_doc_tags(in_blocks(text, size), Counter())]
    assert found == ['<doc id="1">\nA\n\nText a.', '<doc id="2">\nB']


@pytest.mark.parametrize(
    ("paragraph", "read"),
    [
        ("A line of prose.\nAnother.\n\n", borders.whole_file),
        ("A sentence.\n", borders.documents_between_blank_lines),
        ("A paragraph without an end. ", borders.documents_in_doc_tags),
        ("끝없는글", borders.whole_file),
    ],
)
def test_an_endless_document_is_cut_counted_and_whole(paragraph, read, monkeypatch):
    monkeypatch.setattr(borders, "LONGEST_DOCUMENT", 1000)
    text, skipped = paragraph * 500, Counter()
    pieces = list(read(iter(in_blocks(text, 300)), skipped))
    assert max(map(len, pieces)) <= 1300
    assert skipped == {borders.CUT: len(pieces) - 1}
    assert "".join("".join(pieces).split()) == "".join(text.split())
    if " " in text:
        assert [word for piece in pieces for word in piece.split()] == text.split()


def test_memory_stays_bounded_over_a_long_file(monkeypatch):
    monkeypatch.setattr(borders, "LONGEST_DOCUMENT", 10_000)
    fed, ahead = 0, []

    def blocks():
        nonlocal fed
        for _ in range(1000):
            fed += 1300
            yield "A line of thirteen hundred.\n" * 46 + "x" * 12

    given = 0
    for piece in borders.whole_file(blocks(), Counter()):
        given += len(piece)
        ahead.append(fed - given)
    assert max(ahead) <= 12_000
