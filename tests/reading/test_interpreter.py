"""The running Python as a source of English: prose only, nothing imported, the same each time."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from bertsmith.reading.interpreter import InterpreterDocument, interpreter_documents, prose_of


def write_library(folder: Path) -> Path:
    (folder / "pydoc_data").mkdir(parents=True)
    (folder / "pydoc_data" / "topics.py").write_text(
        "topics = {'with': 'The with statement wraps a block of code.  It calls two methods of "
        "a manager.', 'assert': 'Too short.'}\n"
    )
    (folder / "shelf.py").write_text(
        '"""Keep books on a shelf.\n\nThe books are kept in the order\nin which they came."""\n'
        'raise SystemExit("imported")\n'
        "def put(book):\n"
        '    """Put a book on the shelf and say where.\n\n    >>> put(1)\n    here\n    """\n'
    )
    (folder / "test").mkdir()
    (folder / "test" / "test_shelf.py").write_text('"""This is a test. It is left out here."""\n')
    (folder / "broken.py").write_text("def (:\n")
    return folder


def test_topics_come_first_then_modules_with_all_their_docstrings(tmp_path: Path) -> None:
    documents = list(interpreter_documents(write_library(tmp_path)))
    assert documents == [
        InterpreterDocument(
            name="with",
            paragraphs=(
                "The with statement wraps a block of code.  It calls two methods of a manager.",
            ),
            is_topic=True,
        ),
        InterpreterDocument(
            name="shelf",
            paragraphs=(
                "Keep books on a shelf.",
                "The books are kept in the order in which they came.",
                "Put a book on the shelf and say where.",
            ),
        ),
    ]


def test_a_library_without_sources_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="bertsmith pretrain FOLDER"):
        list(interpreter_documents(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        ">>> print(1)\n1",
        "x = 1",
        "  name     meaning of it\n  other    meaning of the other one here.",
        "stmt ::= a simple statement of the language.",
        ".. note:: do not read this line of text.",
        "a = b + c * (d - 1) / [2, 3, 4] and so on.",
    ],
)
def test_what_is_no_prose_is_left_out(text: str) -> None:
    assert prose_of(text) == []


def test_markup_is_taken_off_and_lines_are_joined() -> None:
    text = "Return the ``repr`` of *every* item\n    in the list given."
    assert prose_of(text) == ["Return the repr of every item in the list given."]


def test_this_interpreter_has_enough_english_and_importing_is_not_needed() -> None:
    before = set(sys.modules)
    documents = list(interpreter_documents())
    assert "turtle" not in set(sys.modules) - before
    assert len(documents) > 300
    assert sum(len(text) for document in documents for text in document.paragraphs) > 1_000_000
    assert list(itertools.islice(interpreter_documents(), 40)) == documents[:40]
