"""The interpreter's documents -> sentences, each with the chapter of the manual it belongs to.

A small labelled set that every Python carries: whether a sentence is of the language itself, or of
the library's part on windows, on the internet, on doing several things at once, or on packages.
Documents of no such chapter are left out. It does not know which sentences are learned from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bertsmith.reading.interpreter import InterpreterDocument
from bertsmith.text.sentences import split_sentences

LANGUAGE = "language"
CHAPTERS = {
    "concurrency": (
        "_threading_local asynchat asyncio asyncore concurrent multiprocessing queue sched "
        "selectors signal socketserver subprocess threading"
    ),
    "graphics": "idlelib tkinter turtle turtledemo",
    "internet": (
        "cgi cgitb email ftplib html http imaplib ipaddress mailbox mimetypes netrc nntplib poplib "
        "smtpd smtplib socket ssl telnetlib urllib webbrowser wsgiref xmlrpc"
    ),
    "packaging": (
        "compileall distutils ensurepip imp importlib lib2to3 modulefinder pkgutil py_compile "
        "runpy site sysconfig venv zipapp zipimport"
    ),
}  # fmt: skip
"""The modules of each chapter; a Python that lacks some of them has fewer sentences."""

_CHAPTER_OF = {
    module: chapter for chapter, modules in CHAPTERS.items() for module in modules.split()
}
_WORD = re.compile(r"[A-Za-z]{2,}")
_FEWEST_WORDS = 6
_MOST_OF_A_DOCUMENT = 60
"""Sentences: no single document should be what a chapter is known by."""


@dataclass(frozen=True, kw_only=True)
class ChapterSentence:
    """A sentence and where it comes from."""

    text: str
    chapter: str
    document: str


def chapter_sentences(
    documents: Iterable[InterpreterDocument], known: Iterable[str] = ()
) -> list[ChapterSentence]:
    """The sentences of at least six words, each once, and none that is `known`; in order."""
    seen = {_folded(text) for text in known}
    found: list[ChapterSentence] = []
    for document in documents:
        chapter = chapter_of(document)
        taken: list[ChapterSentence] = []
        for paragraph in document.paragraphs if chapter else ():
            for text in split_sentences(paragraph, "en"):
                folded = _folded(text)
                if len(_WORD.findall(text)) >= _FEWEST_WORDS and folded not in seen:
                    seen.add(folded)
                    taken.append(
                        ChapterSentence(text=text, chapter=chapter, document=document.name)
                    )
        found += taken[:_MOST_OF_A_DOCUMENT]
    return found


def chapter_of(document: InterpreterDocument) -> str:
    """The chapter's name; empty for a document of no chapter."""
    if document.is_topic:
        return LANGUAGE
    return _CHAPTER_OF.get(document.name.partition(".")[0], "")


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
