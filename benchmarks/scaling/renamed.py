"""Real text -> as much of it as is wanted: copies in which other letters stand for rare words.

Plain copies would be too easy: a build remembers the words it has met, and counts lines that it met
before. So every copy, the first one too, writes its rare words in letters of its own, vowels for
vowels and consonants for consonants: lines differ, new words keep coming, as in real text, and
frequent words stay. A function of the text and the copy's number.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from bertsmith.randomness import permutation
from bertsmith.reading.documents import find_sources, read_raw

FREQUENT = 10
"""A word that the text holds so often stays as it is."""
_LETTERS = ("aeiou", "bcdfghjklmnpqrstvwxyz")
_WORD = re.compile(r"([A-Za-z]+)")
_FILE_BYTES = 50_000_000


def read_texts(paths: Sequence[Path], most_bytes: int) -> list[str]:
    """The documents' texts, from the first on, until there are so many bytes of them."""
    texts: list[str] = []
    missing = most_bytes
    documents = (raw for source in find_sources(paths) for raw in read_raw(source))
    while missing > 0 and (document := next(documents, None)) is not None:
        texts.append(document.text[:missing])
        missing -= len(texts[-1].encode("utf-8"))
    return texts


def renamed(texts: Sequence[str]) -> Iterator[str]:
    """The documents again and again, without end, every time with other rare words."""
    parted = [_WORD.split(text) for text in texts]  # words at the odd places
    counts = Counter(word for parts in parted for word in parts[1::2])
    rare = [word for word, count in counts.items() if count < FREQUENT]
    for copy in itertools.count():
        letters = _exchanged(copy)
        names = {word: word.translate(letters) for word in rare}
        for parts in parted:
            words = parts.copy()
            words[1::2] = [names.get(word, word) for word in parts[1::2]]
            yield "".join(words)


def write_text(texts: Sequence[str], megabytes: float, folder: Path) -> int:
    """Writes JSONL files of so much text, the last document cut short; returns their bytes."""
    folder.mkdir(parents=True)
    missing, written = int(megabytes * 1e6), 0
    documents = renamed(texts)
    for number in itertools.count():
        if not missing:
            return written
        path = folder / f"{number:04}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            while missing and file.tell() < _FILE_BYTES:
                text = next(documents).encode("utf-8")[:missing].decode("utf-8", errors="ignore")
                missing -= max(1, len(text.encode("utf-8")))
                file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
        written += path.stat().st_size
    raise AssertionError("numbers end")


def _exchanged(copy: int) -> dict[int, int]:
    """Small and capital letters -> those that stand for them in this copy."""
    table: dict[int, int] = {}
    for kind, letters in enumerate(_LETTERS):
        others = [letters[place] for place in permutation(len(letters), copy, kind).tolist()]
        for letter, other in zip(letters, others, strict=True):
            table[ord(letter)] = ord(other)
            table[ord(letter.upper())] = ord(other.upper())
    return table
