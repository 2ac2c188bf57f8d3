"""Sentences of the manual, each with its chapter."""

from __future__ import annotations

from bertsmith.reading.chapters import (
    CHAPTERS,
    LANGUAGE,
    ChapterSentence,
    chapter_of,
    chapter_sentences,
)
from bertsmith.reading.interpreter import InterpreterDocument

SENTENCE = "Send the whole message over the network now."


def document(name: str, *paragraphs: str, is_topic: bool = False) -> InterpreterDocument:
    return InterpreterDocument(name=name, paragraphs=paragraphs, is_topic=is_topic)


def test_a_module_has_the_chapter_of_its_package_and_a_topic_is_of_the_language() -> None:
    assert chapter_of(document("email.mime.text", "")) == "internet"
    assert chapter_of(document("import", "", is_topic=True)) == LANGUAGE
    assert chapter_of(document("emails", "")) == ""
    listed = [module for modules in CHAPTERS.values() for module in modules.split()]
    assert len(listed) == len(set(listed))


def test_sentences_come_once_with_their_chapter_and_without_short_or_known_ones() -> None:
    other = "Wait for the reply of the server here."
    documents = [
        document("email.message", f"{SENTENCE} Too short this one.", f"{SENTENCE.upper()}"),
        document("nowhere", "This module is of no chapter at all, so it goes."),
        document("http", f"{other} {SENTENCE}"),
    ]
    first = ChapterSentence(text=SENTENCE, chapter="internet", document="email.message")
    second = ChapterSentence(text=other, chapter="internet", document="http")
    assert chapter_sentences(documents) == [first, second]
    assert chapter_sentences(documents, known=[SENTENCE.lower()]) == [second]


def test_no_document_gives_more_than_sixty_sentences() -> None:
    text = " ".join(f"The window number {n} is drawn on the screen again." for n in range(100))
    assert len(chapter_sentences([document("tkinter", text)])) == 60
