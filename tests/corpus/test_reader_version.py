"""The version of the reader moves when the same text gives other sentences or tokens.

Where this test fails because a rule was changed on purpose: raise `READER_VERSION` and write down
the digest that the failure shows.
"""

from __future__ import annotations

import hashlib
import json

from bertsmith.corpus.build_rules import READER_VERSION
from bertsmith.reading.documents import RawDocument, sentences_of
from tests.corpus.building import some_tokenizer

DIGESTS = {1: "fd2726b6a2537b04"}

DOCUMENTS = [
    ("lines", "The cat sleeps.\n a dog runs near the house \n\u200b\n"),
    (
        "prose",
        "The Project Gutenberg EBook of A\n\n*** START OF THIS PROJECT GUTENBERG EBOOK A ***\n\n"
        "CHAPTER I\n\nMr. Cat _never_ slept in all of his long\nlife--he ran (it is said) near "
        "the\nriver, e.g. at St. Ives. “Why?” asked\nthe dog. Nobody knew!\n\n[Illustration: A "
        "cat]\n\nProduced by a dog\n\n*** END OF THIS PROJECT GUTENBERG EBOOK A ***\nNo one.\n",
    ),
    (
        "wikiextractor",
        '<doc id="1" url="" title="T">\nT\n\nEarly life.\nA cat of formula_1 sleeps (, ) near the '
        "house. 그는 2020. 5. 3. 서울에 갔다.그리고 잤다.\nSee also\n* a list\n</doc>\n",
    ),
    (
        "mediawiki",
        "'''The cat''' [[run|runs]] near {{convert|3|km}}.<ref>x</ref>\n== Head ==\n* item\n"
        "{| class=x\n| cell\n|}\nThe dog&nbsp;sleeps {{lang|fr|là}}.",
    ),
]


def test_the_same_version_reads_the_same_text_as_the_same_tokens() -> None:
    tokenizer = some_tokenizer()
    read = [
        sentences_of(RawDocument(text=text, format=format, name="a:1"))
        for format, text in DOCUMENTS
    ]
    tokens = [tokenizer.tokenize(sentence) for sentences in read for sentence in sentences]
    digest = hashlib.sha256(json.dumps([read, tokens]).encode()).hexdigest()[:16]
    assert DIGESTS.get(READER_VERSION) == digest, read
