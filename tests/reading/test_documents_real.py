"""The readers on real Wikipedia, real books and a real dump: nothing of the frame is left."""

import os
import re
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from bertsmith.reading import borders, documents, mediawiki, prose
from bertsmith.reading import passages as rules
from bertsmith.reading.documents import find_sources, read_raw, sentences_of
from bertsmith.reading.passages import ends_like_a_sentence

pytestmark = pytest.mark.data
MARKUP = re.compile(r"\{\{|\}\}|\[\[|\]\]|<br|</|''|&\w+;|\(\s*[,;]|\(\s*\)|formula_\d|^[*#|!]")


def read(name: str, count: int | None = None) -> tuple[list[list[str]], Counter[str]]:
    skipped: Counter[str] = Counter()
    (source,) = find_sources([Path(os.environ["BERTSMITH_DATA"]) / name])
    raws = islice(read_raw(source, skipped=skipped), count)
    return [sentences_of(raw, skipped=skipped) for raw in raws], skipped


@pytest.mark.parametrize(
    ("name", "most_headings"),
    [
        ("corpora/enwiki-2015/enwiki-2015-AA.txt.xz", 6000),
        ("corpora/kowiki-2020/kowiki-2020-AA00-59.txt.xz", 20),
    ],
)
def test_wikipedia_extracts_become_clean_sentences(name, most_headings):
    found, skipped = read(name, 400)
    sentences = [sentence for document in found for sentence in document]
    assert len(found) == 400
    assert len(sentences) > 9_000
    assert sum(bool(MARKUP.search(sentence)) for sentence in sentences) < 0.001 * len(sentences)
    assert sum(map(ends_like_a_sentence, sentences)) > 0.95 * len(sentences)
    assert skipped[rules.HEADINGS] <= most_headings


def test_books_lose_their_frame_and_their_wrapping():
    found, skipped = read("corpora/gutenberg/gutenberg-books.tar.xz", 40)
    sentences = [sentence for document in found for sentence in document]
    frame = re.compile(r"project gutenberg|\betexts?\b|transcriber's note", re.IGNORECASE)
    assert [sentence for sentence in sentences if frame.search(sentence)] == []
    assert len(found) == 40
    assert 18_000 < skipped[prose.GUTENBERG] / 40 < 21_000
    mean = sum(map(len, sentences)) / len(sentences)
    assert 75 < mean < 140


def test_a_dump_gives_its_articles_and_counts_its_redirects():
    found, skipped = read("mediawiki")
    sentences = [sentence for document in found for sentence in document]
    assert len(found) + skipped[mediawiki.REDIRECTS] + skipped[mediawiki.OTHER_NAMESPACES] == 206
    assert skipped[mediawiki.REDIRECTS] == 99
    assert sum(bool(MARKUP.search(sentence)) for sentence in sentences) < 0.001 * len(sentences)
    assert sum(map(ends_like_a_sentence, sentences)) > 0.97 * len(sentences)


def test_the_original_sample_is_three_documents_of_lines():
    found, skipped = read("corpora/sample_text.txt")
    assert [len(document) for document in found] == [3, 13, 15]
    assert not skipped


def test_no_real_file_is_cut_or_left_out():
    skipped: Counter[str] = Counter()
    sources = find_sources([Path(os.environ["BERTSMITH_DATA"]) / "corpora"], skipped=skipped)
    formats = Counter(source.format for source in sources)
    assert formats == {"wikiextractor": 3, "prose": 2, "lines": 1}
    assert not skipped
    books = next(source for source in sources if source.path.name == "gutenberg-books.tar.xz")
    assert sum(1 for _ in islice(read_raw(books, skipped=skipped), 60)) == 60
    assert borders.CUT not in skipped
    assert documents.UNKNOWN_MEMBERS not in skipped
