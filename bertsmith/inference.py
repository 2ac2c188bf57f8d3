"""Questions -> answers: all that a model can be asked.

Answers come back in the order of the questions. What is handed in goes through `tasks.given`. How a
question is read, and what its answer is made of, stands in `tasks` too, a file for each; how a
model comes to answer for items, in `ready_model`. This file knows neither files nor terminals.

Legend: N texts, D width of a sentence vector.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Never

import numpy as np

from bertsmith.batch import IntArray
from bertsmith.model.config import DIRECTION_OF
from bertsmith.model.sentence import Pooling
from bertsmith.model.stream import Stream
from bertsmith.packing import Arriving, part
from bertsmith.reading.counted import counted
from bertsmith.ready_model import ReadyModel
from bertsmith.tasks import (
    explanation,
    fill_mask,
    generation,
    given,
    hidden_places,
    look,
    next_sentence,
    pseudo_perplexity,
    sentence_vectors,
)
from bertsmith.tasks.answered import AnsweredQuestion, ChosenText, ClassifiedText, TaggedText
from bertsmith.tasks.explanation import Explanation
from bertsmith.tasks.fill_mask import FilledText
from bertsmith.tasks.given import Pair
from bertsmith.tasks.hidden_places import Hiding
from bertsmith.tasks.look import Look
from bertsmith.tasks.next_sentence import Follows
from bertsmith.tasks.pseudo_perplexity import ScoredText
from bertsmith.tasks.sentence_vectors import FloatArray, SentenceVector, Similar

# Pseudo-perplexity makes a sequence of every token: those of so many batches exist at once.
_BATCHES_AT_ONCE = 32


class Predictor(ReadyModel):
    """A pre-trained model that answers: `Predictor.load("mini-en").fill_mask([...])`."""

    def fill_mask(
        self, texts: Iterable[str], *, top_k: int = 5, targets: Iterable[str] = ()
    ) -> list[FilledText]:
        """The `top_k` likeliest tokens at every `[MASK]` of every text, or all of `targets`.

        Raises ValueError for a model that was not pre-trained to fill masks, for targets that are
        no single token, and for texts that `tasks.fill_mask.encode` refuses.
        """
        texts = given.texts(texts, "fill_mask")
        words = given.texts(targets, "targets", "word")
        self.abilities.require("masked_lm")
        top_k = given.count(top_k, "top_k")
        only = fill_mask.target_ids(words, self.tokenizer) if words else None
        questions = fill_mask.encode(texts, self.tokenizer, self.limit)
        windows = [window for question in questions for window in question.windows]
        answer = partial(fill_mask.answers, self.model, self.tokenizer, windows, top_k, only)
        return fill_mask.filled(questions, self._read([each.item for each in windows], answer))

    def next_sentence(self, pairs: Iterable[Pair]) -> list[Follows]:
        """The probability that the second text of each pair follows the first.

        Raises ValueError for a model without a next-sentence head or without a second segment, and
        for pairs that `tasks.next_sentence.encode` refuses.
        """
        pairs = given.pairs(pairs, "next_sentence")
        self.abilities.require("next_sentence")
        self.abilities.require_pairs()
        items = next_sentence.encode(pairs, self.tokenizer, self.limit)
        answers = self._read(items, lambda _, stream: next_sentence.answers(self.model, stream))
        return [
            Follows(probability=probability, num_unread=item.num_unread)
            for probability, item in zip(answers, items, strict=True)
        ]

    def embed(
        self,
        texts: Iterable[str],
        pooling: Pooling | None = None,
        is_normalized: bool | None = None,
    ) -> FloatArray:
        """(N, D) float32 sentence vectors, pooled as the model says, else the mean of all tokens.

        `pooling` and `is_normalized` overrule the model; a pooling that is asked for is of the
        hidden states alone, without the model's dense layer. Warns of texts whose end was not read;
        `sentence_vectors` counts it text by text, and `tally` the tokens that the model does not
        know.
        """
        texts = given.texts(texts, "embed")
        vectors, num_unread = self._vectors(texts, pooling, is_normalized)
        if num_cut := int(np.count_nonzero(num_unread)):
            were = "was" if len(texts) == 1 else "were"
            warnings.warn(
                f"{num_cut:,} of {counted(len(texts), 'text')} {were} longer than the "
                f"{self.sentence_limit} tokens that a sentence vector is made of: their end was "
                f"not read",
                stacklevel=2,
            )
        return vectors

    def sentence_vectors(
        self,
        texts: Iterable[str],
        pooling: Pooling | None = None,
        is_normalized: bool | None = None,
    ) -> list[SentenceVector]:
        """What `embed` gives, each with the number of its text's tokens that were not read.

        Raises ValueError for the first token of a model that reads from left to right.
        """
        texts = given.texts(texts, "sentence_vectors")
        found = zip(*self._vectors(texts, pooling, is_normalized), strict=True)
        return [SentenceVector(vector=vector, num_unread=int(count)) for vector, count in found]

    def similarity(self, pairs: Iterable[Pair], pooling: Pooling | None = None) -> list[Similar]:
        """The cosine of the sentence vectors of each pair; a text in many pairs is read once."""
        pairs = given.pairs(pairs, "similarity")
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        found = self.sentence_vectors(texts, pooling, is_normalized=True)
        of = dict(zip(texts, found, strict=True))
        return [sentence_vectors.similar(of[first], of[second]) for first, second in pairs]

    def pseudo_perplexity(self, texts: Iterable[str]) -> list[ScoredText]:
        """How well the model foretells every token of every text; `.perplexity` sums it up.

        With both sides in view each token is masked in turn: a text of n tokens is n sequences. A
        model of one side gives its ordinary perplexity. Raises ValueError for a model without a
        language-model head and for a text without a token.
        """
        texts = given.texts(texts, "pseudo_perplexity")
        self.abilities.require(*DIRECTION_OF)
        questions = pseudo_perplexity.encode(texts, self.tokenizer, self.limit)
        direction = self.model.config.direction
        windows = pseudo_perplexity.windows(questions, self.tokenizer, self.limit, direction)
        answers: list[FloatArray] = []
        asked, total = 0, sum(len(question.tokens) for question in questions)
        for chunk in pseudo_perplexity.chunks(
            windows, _BATCHES_AT_ONCE * self.packing.tokens_per_batch
        ):
            answer = partial(pseudo_perplexity.answers, self.model, self.tokenizer, chunk)
            before, asked = asked, asked + sum(len(window.rows) for window in chunk)
            watch = part(self.watch, before / total, asked / total)
            answers += self._read([window.item for window in chunk], answer, watch)
        return pseudo_perplexity.scored(questions, answers)

    def look(
        self, text: str, pair: str | None = None, *, special_tokens_in_text: bool = False
    ) -> Look:
        """Every layer's hidden states and attention while the model reads a text, or a pair.

        With `special_tokens_in_text` a `[MASK]` in it is the mask, not six characters. Raises
        ValueError for a pair and a model without a second segment.
        """
        asked = (text,) if pair is None else (text, pair)
        sides = [given.text(side, "what look reads") for side in asked]
        if pair is not None:
            self.abilities.require_pairs()
        question = look.encode(sides, self.tokenizer, self.limit, special_tokens_in_text)
        (answer,) = self._read(
            [question.item], lambda _, stream: [look.answer(question, self.model.bert, stream)]
        )
        return answer

    def explain(
        self, text: str, pair: str | None = None, hiding: Hiding | None = None, *, top_k: int = 5
    ) -> Explanation:
        """What the paper's Figures 1 to 3 draw, of a text or a pair: what is hidden, said and seen.

        Without `hiding`, tokens are drawn as in pre-training with seed 0; a `[MASK]` in a text is
        the mask. What the model has no head for is left out and named. Raises ValueError for what
        `tasks.hidden_places.encode` refuses, a text without a token, and a pair and a model
        without a second segment.
        """
        asked = (text,) if pair is None else (text, pair)
        sides = [given.text(side, "what explain reads") for side in asked]
        if pair is not None:
            self.abilities.require_pairs()
        self.abilities.require_tokens(*sides)
        hidden = hidden_places.encode(sides, self.tokenizer, self.limit, hiding or Hiding())
        top_k = given.count(top_k, "top_k")
        return explanation.explanation(self.abilities, hidden, top_k, self._read)

    def classify(self, texts: Iterable[str | Pair]) -> list[ClassifiedText]:
        """Labels with probabilities, or numbers, by a model fine-tuned for these."""
        return self.fine_tuned.classify(texts, self.watch)

    def tag(self, texts: Iterable[str | Sequence[str]]) -> list[TaggedText]:
        """A tag for every word, and entities, by a model fine-tuned to tag."""
        return self.fine_tuned.tag(texts, self.watch)

    def answer(self, questions: Iterable[Pair]) -> list[AnsweredQuestion]:
        """Answers to (question, passage), by a model fine-tuned to answer."""
        return self.fine_tuned.answer(questions, self.watch)

    def choose(self, questions: Iterable[tuple[str, Sequence[str]]]) -> list[ChosenText]:
        """The likeliest of each (text, choices), by a model fine-tuned to choose."""
        return self.fine_tuned.choose(questions, self.watch)

    def own_answers(self, examples: Sequence[object]) -> list[object]:
        """What the class of `load`'s `task_class` decodes of each example, as it reads them."""
        return [answer.value for answer in self.own.answers(examples, self.watch)]

    def _vectors(
        self, texts: list[str], pooling: Pooling | None, is_normalized: bool | None
    ) -> tuple[FloatArray, IntArray]:
        """(N, D) the texts' vectors, and (N,) how many tokens of each were not read."""
        config = self.sentence.overruled(pooling, is_normalized)
        config.require_context(self.model.config.direction)
        items = sentence_vectors.encode(texts, self.tokenizer, self.sentence_limit)
        bert, dense = self.model.bert, self.dense
        vectors = np.empty((len(items), config.width(bert.config.hidden_size)), np.float32)

        def answer(numbers: list[int], stream: Stream) -> Arriving[None]:
            found = sentence_vectors.answers(bert, stream, config, dense)
            return Arriving(found, partial(sentence_vectors.keep, vectors, numbers))

        self._read(items, answer)
        return vectors, items.num_unread

    if not TYPE_CHECKING:  # a checker still knows which names there are

        def __getattr__(self, name: str) -> Never:
            """Raises AttributeError, which for a request to write text says why."""
            told = generation.refusal(name)
            raise AttributeError(told or f"'Predictor' object has no attribute '{name}'")
