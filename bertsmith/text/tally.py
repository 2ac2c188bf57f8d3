"""Texts and token ids that a model is to read -> how many say nothing to it, and why.

A text in a language that the vocabulary was not made for is read without an error: its words become
`[UNK]`, or Hangul its jamo. So does Hangul that comes decomposed, which ids do not show: texts are
looked at too. Whoever hands texts to a model tells what is counted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from bertsmith.text.hangul import HOW_TO_COMPOSE, has_decomposed_hangul, has_whole_hangul
from bertsmith.text.tokenizer import Tokenizer

USUAL_SHARE = 0.01
"""Of tokens that say nothing: a model of the texts' own language stays well below."""
_SPECIAL, _WORD, _UNKNOWN, _JAMO = range(4)
_JAMO_LETTERS = "\u1100", "\u11ff"
_TEACHING = (
    ": take a model of their language, or teach it the words (`bertsmith pretrain FOLDER --from "
    "MODEL --add-words FILE`)"
)


class TokenTally:
    """Counts of the tokens that were read, special ones aside."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Of the ids of this tokenizer, nothing read yet."""
        kinds = np.full(tokenizer.vocab_size, _WORD, np.uint8)
        if tokenizer.config.strip_accents:
            first, last = _JAMO_LETTERS
            kinds[[first <= entry[-1:] <= last for entry in tokenizer.vocabulary]] = _JAMO
        kinds[list(tokenizer.special_ids)] = _SPECIAL
        kinds[tokenizer.unk_id] = _UNKNOWN
        self._kinds = np.pad(kinds, 1, constant_values=_SPECIAL)
        """Of every row, from 1 on, and of what is none on either side."""
        self._counts = np.zeros(4, np.int64)
        self._tokenizer = tokenizer
        self._num_texts = self._num_decomposed = 0

    def add(self, sequences: Iterable[npt.NDArray[np.integer]]) -> None:
        """Counts the token ids of some sequences; one that is no row is left to who refuses it."""
        found = list(sequences)
        if found:
            ids = found[0] if len(found) == 1 else np.concatenate(found)
            self._counts += np.bincount(self._kinds.take(ids + 1, mode="clip"), minlength=4)

    def look_at(self, texts: Iterable[str]) -> None:
        """Counts the texts whose Hangul is decomposed."""
        for text in texts:
            self._num_texts += 1
            self._num_decomposed += has_decomposed_hangul(text)

    def decomposed(self, where: str) -> str:
        """A sentence where Hangul is unknown only because it is decomposed; else empty."""
        rules = self._tokenizer.config
        if (
            self._num_decomposed <= USUAL_SHARE * self._num_texts
            or rules.unicode_form != "none"
            or rules.strip_accents  # takes syllables into the same jamo
            or not any(map(has_whole_hangul, self._tokenizer.vocabulary))
        ):
            return ""
        return (
            f"{self._num_decomposed:,} of the {self._num_texts:,} texts {where} hold Hangul that "
            f"is decomposed into jamo, as macOS writes it, and the vocabulary holds whole "
            f"syllables: take one that was learned with --unicode-form NFC, or compose the texts "
            f"first, by `{HOW_TO_COMPOSE}`"
        )

    def notes(self, where: str) -> Iterator[str]:
        """A sentence for each kind of token that says nothing and is not rare; `where` they are."""
        total = int(self._counts[_WORD:].sum())
        if decomposed := self.decomposed(where):
            yield decomposed
        for kind, told in (
            (
                _UNKNOWN,
                "[UNK], words that the vocabulary does not hold and the model cannot tell apart"
                + ("" if decomposed else _TEACHING),
            ),
            (
                _JAMO,
                "jamo, into which strip_accents takes every syllable of Hangul apart: take a model "
                "that keeps them whole, such as mini-ko",
            ),
        ):
            count = int(self._counts[kind])
            if count > USUAL_SHARE * total:
                yield f"{count:,} of the {total:,} tokens {where} are {told}"
