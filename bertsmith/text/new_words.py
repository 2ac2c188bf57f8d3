"""A tokenizer and words of one's own -> the same tokenizer, with a single entry for every word.

A word takes the place of the next `[unused]` entry; where none is left, a row of its own at the
end. So no other entry moves. It knows no models: which vectors the new rows begin with is decided
elsewhere, from the pieces that are told here.

Source: google-research/bert, issue 9 (the two ways to add words).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertsmith.text.tokenizer import Tokenizer

_UNUSED = re.compile(r"\[unused\d+\]")
_NUM_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class NewWords:
    """What became of a list of words."""

    tokenizer: Tokenizer
    """The one they were added to, grown by them."""
    added: tuple[str, ...]
    """The words that have a new entry, as the tokenizer spells them."""
    num_unused: int
    """How many of them stand in place of an `[unused]` entry, the first ones."""
    notes: tuple[str, ...]
    """What was not taken as it was typed, a sentence each."""

    def told(self) -> str:
        """How many there are and where they stand, in a line."""
        rows, appended = self.tokenizer.vocab_size, len(self.added) - self.num_unused
        return (
            f"new entries for {len(self.added):,} words: {self.num_unused:,} in place of [unused] "
            f"ones, {appended:,} behind the last ({rows - appended:,} -> {rows:,} entries)"
        )


def read_words(path: Path) -> dict[int, str]:
    """The words of a file, one a line, by the numbers of their lines; empty lines are passed over.

    Raises FileNotFoundError, and ValueError for a file that is no text or holds no word.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from error
    words = {number: line.strip() for number, line in enumerate(lines, 1) if line.strip()}
    if not words:
        raise ValueError(f"{path} holds no word: expected one a line")
    return words


def with_words(tokenizer: Tokenizer, lines: Mapping[int, str], where: str) -> NewWords:
    """Adds what is not a single entry yet, in the order of the lines.

    Raises one ValueError that names the lines of `where` that cannot be entries: what holds a
    blank, or falls into several words before a vocabulary is asked, or is too long for one.
    """
    faults: list[str] = []
    spelt: dict[str, str] = {}
    for number, typed in lines.items():
        words = [word for word, _ in tokenizer.words(typed)]
        if reason := _fault(typed, words, tokenizer):
            faults.append(f"line {number}: {typed!r} {reason}")
        else:
            spelt.setdefault(words[0], typed)
    if faults:
        more = f" (and {len(faults) - _NUM_SHOWN:,} more)" if len(faults) > _NUM_SHOWN else ""
        raise ValueError(f"{where}: {'; '.join(faults[:_NUM_SHOWN])}{more}")
    pieces = {word: _pieces(tokenizer, word) for word in spelt}
    known = [word for word in spelt if _is_entry(pieces[word], tokenizer)]
    added = [word for word in spelt if not _is_entry(pieces[word], tokenizer)]
    unknown = [word for word in added if tokenizer.unk_id in pieces[word]]
    respelt = [f"{spelt[word]} -> {word}" for word in added if spelt[word] != word]
    grown, num_unused = _grown(tokenizer, added)
    _require_taken(grown, added, where)
    repeated = len(lines) - len(spelt)
    told = {
        "single entries already, which stay as they are": known,
        "taken as the tokenizer spells them": respelt,
        "unknown before, and begin with the vector of [UNK]": unknown,
    }
    notes = [f"{what} ({len(each):,}): {_some(each)}" for what, each in told.items() if each]
    if repeated:
        notes.append(f"lines of {where} that repeat a word of another: {repeated:,}")
    return NewWords(tokenizer=grown, added=tuple(added), num_unused=num_unused, notes=tuple(notes))


def pieces_of_new_rows(before: Tokenizer, after: Tokenizer) -> dict[int, tuple[int, ...]]:
    """The rows of `after` that hold another entry, each with the rows it was made of in `before`.

    Raises ValueError unless `after` is `before` with words added.
    """
    rows = [
        row
        for row, entry in enumerate(after.vocabulary)
        if row >= before.vocab_size or before.vocabulary[row] != entry
    ]
    replaced = [before.vocabulary[row] for row in rows if row < before.vocab_size]
    if (
        after.vocab_size < before.vocab_size
        or after.config != before.config
        or not all(map(_UNUSED.fullmatch, replaced))
    ):
        raise ValueError(
            f"the vocabulary of {after.vocab_size:,} entries is not the model's own of "
            f"{before.vocab_size:,} with words added to it"
        )
    return {row: tuple(_pieces(before, after.vocabulary[row])) for row in rows}


def otherwise_split(
    before: Tokenizer, new: NewWords, sentences: Iterable[str]
) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
    """The words of these sentences that are no new entry and fall into other pieces than before.

    WordPiece takes the longest entry that a word begins with, so a new entry may become that of
    longer words.
    """
    added = set(new.added)
    words = {word for sentence in sentences for word, _ in before.words(sentence)} - added
    found: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
    for word in sorted(words):
        if any(word[:end] in added for end in range(1, len(word))):
            pieces = before.tokenize(word), new.tokenizer.tokenize(word)
            if pieces[0] != pieces[1]:
                found[word] = pieces
    return found


def _fault(typed: str, words: Sequence[str], tokenizer: Tokenizer) -> str:
    """Why it cannot be an entry; empty where it can."""
    limit = tokenizer.config.word_limit
    if len(typed.split()) > 1:
        return "holds a blank: expected one word a line"
    if not words:
        return "holds no character that the tokenizer keeps"
    if len(words) > 1:
        return (
            f"is {len(words)} words to this tokenizer ({' '.join(words)}): it parts texts at "
            f"punctuation, and where it is set to at Chinese characters, before it looks words up"
        )
    if len(words[0]) > limit:
        return f"has {len(words[0])} characters, and words beyond {limit} are not looked up"
    return ""


def _grown(tokenizer: Tokenizer, added: Sequence[str]) -> tuple[Tokenizer, int]:
    """The tokenizer with these entries, and how many took an `[unused]` row."""
    vocabulary = list(tokenizer.vocabulary)
    free = [
        row
        for row, entry in enumerate(vocabulary)
        if _UNUSED.fullmatch(entry) and entry not in tokenizer.config.added_tokens
    ]
    for row, word in zip(free, added, strict=False):
        vocabulary[row] = word
    num_unused = min(len(free), len(added))
    return Tokenizer([*vocabulary, *added[num_unused:]], tokenizer.config), num_unused


def _require_taken(grown: Tokenizer, added: Sequence[str], where: str) -> None:
    """Raises ValueError for words that an entry taken whole wherever it stands would cut."""
    cut = [word for word in added if _pieces(grown, word) != [grown.id_of(word)]]
    if cut:
        raise ValueError(
            f"{where}: {_some(cut)} cannot be entries, since they hold tokens that this tokenizer "
            f"takes whole wherever they stand: leave them out"
        )


def _pieces(tokenizer: Tokenizer, word: str) -> list[int]:
    encoding = tokenizer.encode(word, add_special_tokens=False, special_tokens_in_text=False)
    return [int(id) for id in encoding.ids]


def _is_entry(pieces: Sequence[int], tokenizer: Tokenizer) -> bool:
    return len(pieces) == 1 and pieces[0] != tokenizer.unk_id


def _some(words: Collection[str]) -> str:
    shown = ", ".join(list(words)[:_NUM_SHOWN])
    return shown if len(words) <= _NUM_SHOWN else f"{shown}, ..."
