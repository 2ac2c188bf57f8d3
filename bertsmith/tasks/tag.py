"""Sentences of words -> windows to read; scores of words -> a tag for every word.

A word is scored at its first token, in the window where that token sees most of its surroundings. A
document is read as a whole, as far as the model reaches (the paper's maximal context), or each of
its sentences alone. Words without a token of their own (a character inside a token, a blank) go on
with what stands around them, so that no word is ever without a tag.

Source: Devlin et al. 2018, section 5.3.

Legend: n tokens of a text, W words, R words scored in an item, C labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np
import numpy.typing as npt

from bertsmith.batch import IntArray
from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems
from bertsmith.data.windows import windows_of
from bertsmith.reading.conll import TaggedSentence
from bertsmith.tasks.entities import OUTSIDE
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.text.encoding import Encoding
from bertsmith.text.rules import NUM_SPECIAL
from bertsmith.text.tokenizer import Tokenizer

FloatArray = npt.NDArray[np.floating]

Context = Literal["document", "sentence"]

_NO_TOKEN = -1


@dataclass(frozen=True, kw_only=True)
class TagConfig:
    """How sentences are read."""

    context: Context = "document"
    """What a word may look at (paper: the document, as far as the model reaches)."""
    max_tokens: int = 512
    """The longest window, special tokens included."""
    stride_tokens: int = 0
    """Tokens from one window's start to the next one's; 0: half of what a window holds."""

    def __post_init__(self) -> None:
        """Refuses windows that hold nothing or would leave words out."""
        room = self.max_tokens - NUM_SPECIAL
        if room < 1 or not 0 <= self.stride_tokens <= room:
            raise ValueError(
                f"stride_tokens must be in [0, {room}], what a window of max_tokens "
                f"{self.max_tokens} holds; found {self.stride_tokens}"
            )

    @property
    def step(self) -> int:
        """The stride, the default decided."""
        return self.stride_tokens or max(1, (self.max_tokens - NUM_SPECIAL) // 2)


@dataclass(frozen=True, kw_only=True)
class EncodedWords:
    """Sentences as a model reads them."""

    labelled: LabelledItems
    """A window an item; its rows are those of the words scored in it."""
    words: Sequence[IntArray]
    """Of each item: (R,) the number of each scored word, counted through all sentences."""
    is_inside: npt.NDArray[np.bool_]
    """(W,) whether a word without a token of its own lies inside the token of the one before."""
    num_hidden: int
    """Words with a label of their own that stand inside a token, and so are never scored."""

    @property
    def notes(self) -> tuple[str, ...]:
        """How many words are never scored."""
        if not self.num_hidden:
            return ()
        return (
            f"{self.num_hidden:,} of {len(self.is_inside):,} words stand inside a token and have "
            f"another tag than the word before, which nothing can learn of them",
        )


def encode(
    sentences: Sequence[TaggedSentence], tokenizer: Tokenizer, scheme: TagScheme, config: TagConfig
) -> EncodedWords:
    """Windows of `[CLS] words [SEP]`, those of a document, or of a sentence, one after the other.

    Sentences without tags get no targets. Raises ValueError as `TagScheme.tags_of` does.
    """
    texts = list(_texts(sentences, config.context, "" if scheme.is_by_character else " "))
    encodings = tokenizer.encode_batch([text for text, _ in texts], add_special_tokens=False)
    numbers = {label: number for number, label in enumerate(scheme.labels)}
    has_tags = all(sentence.tags is not None for sentence in sentences)
    tags = [tag for each in sentences for tag in scheme.tags_of(each)] if has_tags else []
    items: list[Item] = []
    rows: list[IntArray] = []
    words: list[IntArray] = []
    is_inside = np.zeros(sum(len(sentence.words) for sentence in sentences), np.bool_)
    first_word = 0
    for (_, spans), encoding in zip(texts, encodings, strict=True):
        first_tokens, inside = _first_tokens(spans, encoding)
        is_inside[first_word : first_word + len(spans)] = inside
        for window in windows_of(len(encoding.ids), config.max_tokens - NUM_SPECIAL, config.step):
            is_kept = (first_tokens >= window.kept_start) & (first_tokens < window.kept_end)
            scored = np.flatnonzero(is_kept)
            items.append(window.item(encoding.ids, tokenizer.cls_id, tokenizer.sep_id))
            rows.append(first_tokens[scored] - window.start + 1)
            words.append(first_word + scored)
        first_word += len(spans)
    num_hidden = (
        0
        if not has_tags
        else sum(tags[at] != scheme.continued(tags[at - 1]) for at in np.flatnonzero(is_inside))
    )
    return EncodedWords(
        labelled=LabelledItems(
            items=items,
            groups=np.arange(len(items)),
            rows=rows,
            targets=[np.array([numbers[tags[word]] for word in each], np.int64) for each in words]
            if has_tags
            else [],
            by_row=True,
        ),
        words=words,
        is_inside=is_inside,
        num_hidden=num_hidden,
    )


def decode(
    sentences: Sequence[TaggedSentence],
    encoded: EncodedWords,
    scores: Sequence[FloatArray],
    scheme: TagScheme,
) -> list[list[str]]:
    """A tag for every word of every sentence, of each item's (R, C) scores of its words.

    The likeliest, which may go on with an entity that none began: `TagScheme.well_formed` mends it.
    """
    labels = np.full(len(encoded.is_inside), _NO_TOKEN)
    for words, of_item in zip(encoded.words, scores, strict=True):
        labels[words] = of_item.argmax(axis=1)
    found: list[list[str]] = []
    first = 0
    for sentence in sentences:
        there = slice(first, first + len(sentence.words))
        found.append(_completed(labels[there], encoded.is_inside[there], scheme))
        first = there.stop
    return found


def probabilities(encoded: EncodedWords, scores: Sequence[FloatArray]) -> FloatArray:
    """(W,) the probability of each word's likeliest label; nan for a word without a token."""
    found = np.full(len(encoded.is_inside), np.nan)
    for words, of_item in zip(encoded.words, scores, strict=True):
        powers = np.exp(of_item.astype(np.float64) - of_item.max(axis=1, keepdims=True))
        found[words] = 1.0 / powers.sum(axis=1)
    return found


def _texts(
    sentences: Sequence[TaggedSentence], context: Context, blank: str
) -> Iterator[tuple[str, IntArray]]:
    """What is read together, and (W, 2) the characters of its words; `blank` parts the words."""
    for _, together in groupby(
        enumerate(sentences),
        key=lambda pair: pair[1].document if context == "document" else pair[0],
    ):
        text, spans = "", []
        for _, sentence in together:
            text += " " if text else ""
            for number, word in enumerate(sentence.words):
                text += blank if number else ""
                spans.append((len(text), len(text) + len(word)))
                text += word
        yield text, np.array(spans, np.int64).reshape(-1, 2)


def _first_tokens(spans: IntArray, encoding: Encoding) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """(W,) each word's first token, or `_NO_TOKEN`; (W,) whether it lies in the one before's."""
    starts, ends = encoding.spans[:, 0], encoding.spans[:, 1]
    tokens = np.searchsorted(starts, spans[:, 0])
    has_own = tokens < len(starts)
    has_own[has_own] = starts[tokens[has_own]] < spans[has_own, 1]
    before = tokens - 1
    is_inside = ~has_own & (before >= 0)
    is_inside[is_inside] = ends[before[is_inside]] > spans[is_inside, 0]
    return np.where(has_own, tokens, _NO_TOKEN), is_inside


def _completed(labels: IntArray, is_inside: npt.NDArray[np.bool_], scheme: TagScheme) -> list[str]:
    """The tags, also of words that have no token: what no token touches stands outside.

    Between two words of one entity it does not: a name's own blanks are part of it.
    """
    tags = [scheme.labels[label] if label != _NO_TOKEN else "" for label in labels]
    for at in range(len(tags)):
        if tags[at]:
            continue
        following = next((tag for tag in tags[at + 1 :] if tag), "")
        before = scheme.continued(tags[at - 1]) if at else ""
        goes_on = bool(before) and (is_inside[at] or following == before)
        tags[at] = before if goes_on else (OUTSIDE if scheme.is_of_entities else before)
        tags[at] = tags[at] or scheme.labels[0]
    return tags
