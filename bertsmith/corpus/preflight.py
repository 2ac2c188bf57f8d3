"""A glance at the input -> what speaks against building with this vocabulary, before the long work.

Reads the beginnings of documents from a few files spread over the input, some hundred kilobytes,
whatever the input's size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from bertsmith.reading.documents import Language, RawDocument, Source, read_raw, sentences_of
from bertsmith.text.hangul import warn_about_hangul
from bertsmith.text.rules import SPECIAL_TOKENS
from bertsmith.text.scripts import main_script, share_in_script
from bertsmith.text.tally import TokenTally
from bertsmith.text.tokenizer import Tokenizer

MOST_UNKNOWN = 0.2
UNUSUAL_UNKNOWN = 0.01
UNUSUAL_PIECES = 2.5
FEWEST_ROWS_IN_SCRIPT = 0.1
"""Korean vocabularies have 5% of their rows in Latin letters, and 2.1 tokens for an English word:
no more than a small English vocabulary needs."""

_SOURCES_SAMPLED = 8
_DOCUMENTS_A_SOURCE = 200
_CHARACTERS_A_DOCUMENT = 8_000
_CHARACTERS_A_SOURCE = 40_000
_SENTENCES_IN_WORDS = 200


def check_vocabulary(
    sources: Sequence[Source], tokenizer: Tokenizer, language: Language = "auto"
) -> list[str]:
    """Warnings about the vocabulary and this text, a sentence each; empty for an ordinary pair.

    Raises ValueError when more than one token in five would be unknown: such a vocabulary does not
    belong to the text, or to its Unicode form.
    """
    sentences = list(sample_sentences(sources, language))
    token_ids, _ = tokenizer.ids(sentences)
    if not len(token_ids):
        return []
    unknown = np.count_nonzero(token_ids == tokenizer.unk_id) / len(token_ids)
    what = f"of the sample's tokens are unknown to the vocabulary of {tokenizer.vocab_size:,}"
    tally = TokenTally(tokenizer)
    tally.look_at(sentences)
    decomposed = tally.decomposed("of the sample")
    if unknown > MOST_UNKNOWN and decomposed:
        raise ValueError(f"{unknown:.0%} {what} entries, expected well under 1%: {decomposed}")
    if unknown > MOST_UNKNOWN:
        raise ValueError(
            f"the vocabulary does not belong to this text: {unknown:.0%} {what} entries, expected "
            f"well under 1%. Learn one from the text with `bertsmith learn-vocab`"
        )
    hangul = decomposed or warn_about_hangul(tokenizer.config, sentences)
    warnings = [hangul] if hangul else []
    if unknown > UNUSUAL_UNKNOWN:
        warnings.append(f"{unknown:.1%} {what} entries; usual is well under 1%")
    shorter = sentences[:: max(1, len(sentences) // _SENTENCES_IN_WORDS)]
    words = [word for sentence in shorter for word, _ in tokenizer.words(sentence)]
    pieces = len(tokenizer.ids(shorter)[0]) / max(1, len(words))
    return warnings + _misfits(words, pieces, tokenizer)


def _misfits(words: Sequence[str], pieces: float, tokenizer: Tokenizer) -> list[str]:
    """What speaks against the rows for these words, at so many tokens a word; one or none."""
    script = main_script(words)
    entries = set(tokenizer.vocabulary).difference(SPECIAL_TOKENS)
    rows = (entry for entry in entries if not entry.startswith("[unused"))
    share = 1.0 if script is None else share_in_script(rows, script)
    advice = "learn one from the text with `bertsmith learn-vocab`"
    if share < FEWEST_ROWS_IN_SCRIPT:
        return [
            f"only {share:.0%} of the vocabulary's entries are in this text's letters ({script}), "
            f"and a word takes {pieces:.1f} tokens: it seems to come from another language; "
            f"{advice}"
        ]
    if pieces > UNUSUAL_PIECES:
        return [
            f"a word of this text takes {pieces:.1f} tokens, usual is 1.1 to {UNUSUAL_PIECES}: the "
            f"vocabulary is small, or comes from another language; {advice}"
        ]
    return []


def sample_sentences(sources: Sequence[Source], language: Language) -> Iterator[str]:
    """Sentences from the beginnings of up to eight sources, evenly spaced."""
    places = np.linspace(0, len(sources) - 1, min(len(sources), _SOURCES_SAMPLED)).round()
    for place in np.unique(places.astype(int)).tolist():
        characters = 0
        for raw in islice(read_raw(sources[place]), _DOCUMENTS_A_SOURCE):
            found = sentences_of(_beginning(raw), language)
            yield from found
            characters += sum(map(len, found))
            if characters > _CHARACTERS_A_SOURCE:
                break


def _beginning(raw: RawDocument) -> RawDocument:
    return dataclasses.replace(raw, text=raw.text[:_CHARACTERS_A_DOCUMENT])
