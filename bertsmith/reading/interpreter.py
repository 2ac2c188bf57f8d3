"""The running Python -> English documents: its language reference and its own docstrings.

Every Python carries some megabytes of good English: the topics of `help()` and the docstrings of
the standard library. Files are parsed, never imported, in sorted order, so equal interpreters give
equal text. Code, doctests and tables are left out; a document is a topic, or a module with its
classes and functions. It does not split sentences.
"""

from __future__ import annotations

import ast
import itertools
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path

_LEFT_OUT = {
    "test",
    "tests",
    "idle_test",
    "site-packages",
    "dist-packages",
    "_bundled",
    "__pycache__",
}
_BLANK_LINES = re.compile(r"\n\s*\n")
_WORD = re.compile(r"[A-Za-z]{2,}")
_MARKUP = re.compile(r"``?|\*\*?(?=\S)|(?<=\S)\*\*?|:[a-z]+:(?=`)|\s*¶")
_NOT_PROSE = re.compile(r"^\s*(>>>|\.\.\s|[-=~^*#+]{3,}|[|+])|::=|\S[ \t]{3,}\S", re.MULTILINE)
_FEWEST_WORDS = 4
_FEWEST_LETTERS = 0.7  # share of a paragraph's characters that are letters or blanks


@dataclass(frozen=True, kw_only=True)
class InterpreterDocument:
    """One document of the interpreter's own English."""

    name: str
    """A topic of `help()`, or a module."""
    paragraphs: tuple[str, ...]
    """Free text, each on one line."""
    is_topic: bool = False
    """Whether it is of the language's reference, not of the library."""


def interpreter_documents(library: Path | None = None) -> Iterator[InterpreterDocument]:
    """Yields the documents of at least two sentences, topics first.

    `library` None is the standard library of the interpreter that runs. Raises FileNotFoundError
    when it has no Python sources.
    """
    root = library or Path(sysconfig.get_paths()["stdlib"])
    sources = [
        path
        for path in sorted(root.rglob("*.py"))
        if not _LEFT_OUT.intersection(path.relative_to(root).parts)
    ]
    if not sources:
        raise FileNotFoundError(
            f"{root} holds no Python sources, so there is no text to learn from; install Python "
            f"with its library, or use your own text: bertsmith pretrain FOLDER"
        )
    topics = root / "pydoc_data" / "topics.py"
    reference = (
        (name, texts, True) for name, texts in (_topics(topics) if topics.is_file() else ())
    )
    modules = (
        (".".join(path.relative_to(root).with_suffix("").parts), _docstrings(path), False)
        for path in sources
        if path != topics
    )
    for name, found, is_topic in itertools.chain(reference, modules):
        paragraphs = tuple(paragraph for text in found for paragraph in prose_of(text))
        if sum(paragraph.count(". ") + 1 for paragraph in paragraphs) >= 2:
            yield InterpreterDocument(name=name, paragraphs=paragraphs, is_topic=is_topic)


def prose_of(text: str) -> list[str]:
    """The paragraphs of a docstring or topic that are prose, each un-wrapped to one line."""
    found = []
    for paragraph in _BLANK_LINES.split(cleandoc(text)):
        lines = paragraph.strip().splitlines()
        if _NOT_PROSE.search(paragraph) or not lines or _is_code(lines):
            continue
        joined = _MARKUP.sub("", " ".join(line.strip() for line in lines)).strip()
        letters = sum(character.isalpha() or character == " " for character in joined)
        if len(_WORD.findall(joined)) < _FEWEST_WORDS or letters < _FEWEST_LETTERS * len(joined):
            continue
        if joined[-1] in ".:!?)":
            found.append(joined)
    return found


def _is_code(lines: list[str]) -> bool:
    """True for a block that is set in: the reference shows its examples so."""
    return all(line.startswith("   ") for line in lines) and lines[0].strip()[:1].islower()


def _topics(path: Path) -> list[tuple[str, list[str]]]:
    """The values of the dict literal `topics`, in the order of their names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            topics: dict[str, str] = ast.literal_eval(node)
            return [(name, [topics[name]]) for name in sorted(topics)]
    return []


def _docstrings(path: Path) -> list[str]:
    """Every docstring of a file, in the order of the file; none where it does not parse."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    found = (ast.get_docstring(node, clean=False) for node in nodes)
    return [text for text in found if text]
