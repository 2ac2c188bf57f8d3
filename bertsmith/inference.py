"""Questions -> answers: the one path from items to what a model says of them.

Answers come back in the order of the questions. What is handed in goes through `tasks.given`. How a
question is read, and what its answer is made of, stands in `tasks` too, a file for each; how items
become batches, in `packing`. This file knows neither files nor terminals.

Legend: N texts, D width of a sentence vector.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Never, TypeVar

import numpy as np
import torch

from bertsmith.batch import PackedBatch
from bertsmith.checkpoints.store import Loaded, load
from bertsmith.data.items import Item
from bertsmith.model.config import DIRECTION_OF
from bertsmith.model.heads import TaskHead
from bertsmith.model.linear import lay_out
from bertsmith.model.sentence import Pooling, SentenceConfig
from bertsmith.model.stream import Stream
from bertsmith.packing import Packing, Watch, part
from bertsmith.task_predictor import TaskPredictor
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
from bertsmith.tasks.abilities import Abilities
from bertsmith.tasks.answered import AnsweredQuestion, ChosenText, ClassifiedText, TaggedText
from bertsmith.tasks.assumed import require_same_head
from bertsmith.tasks.explanation import Explanation
from bertsmith.tasks.fill_mask import FilledText
from bertsmith.tasks.given import Pair
from bertsmith.tasks.hidden_places import Hiding
from bertsmith.tasks.imported import AnyOwnTask, read_own_task
from bertsmith.tasks.look import Look
from bertsmith.tasks.next_sentence import Follows
from bertsmith.tasks.own_predictor import OwnPredictor
from bertsmith.tasks.pseudo_perplexity import ScoredText
from bertsmith.tasks.sentence_vectors import FloatArray, SentenceVector, Similar
from bertsmith.train.config import PrecisionChoice
from bertsmith.train.device import cast_, choose_device, choose_precision

Answer = TypeVar("Answer")

# Pseudo-perplexity makes a sequence of every token: those of so many batches exist at once.
_BATCHES_AT_ONCE = 32


class Predictor:
    """A pre-trained model that answers: `Predictor.load("mini-en").fill_mask([...])`."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        device: torch.device | str = "cpu",
        tokens_per_batch: int | None = None,
        own_task: AnyOwnTask | None = None,
    ) -> None:
        """Takes the model in the precision it has; `tokens_per_batch` None: by the device.

        `own_task` is the model's task where that is of a class of one's own.
        """
        self.name = str(loaded.directory)
        self.notes = loaded.notes
        self.model = loaded.model.to(device).eval()
        lay_out(self.model)
        self.tokenizer = loaded.tokenizer
        self.sentence = loaded.sentence or SentenceConfig()
        self.dense = None if loaded.dense is None else loaded.dense.to(device)
        self.is_sentence_model = loaded.sentence is not None
        self._loaded, self._own_task = loaded, own_task
        self.abilities = Abilities(name=self.name, model=self.model, tokenizer=self.tokenizer)
        self.device = torch.device(device)
        config = self.model.config
        self.packing = Packing(
            device=self.device,
            dtype=self.model.bert.dtype,
            values_per_token=config.num_hidden_layers * config.hidden_size,
            tokens_per_batch=tokens_per_batch,
        )
        self.watch: Watch = lambda share: None
        """Told after every batch; for whoever shows progress, who may replace it."""

    @cached_property
    def fine_tuned(self) -> TaskPredictor:
        """What answers questions of the task that the model was fine-tuned on.

        Raises ValueError for a model without a task head, and of a class of one's own.
        """
        if self._own_task is not None:
            raise ValueError(
                f"{self.name} learned {type(self._own_task).__name__}, a task class of your own: "
                f"ask it with own_answers"
            )
        return TaskPredictor(
            self._loaded,
            bert=self.model.bert,
            head=self._task_head(),
            packing=self.packing,
            abilities=self.abilities,
        )

    @cached_property
    def own(self) -> OwnPredictor:
        """What answers by the class that `load` was told as `task_class`.

        Raises ValueError where it was told none, and for a class with another head than the model.
        """
        task = self._own_task
        if task is None:
            raise ValueError(
                f"{self.name} was loaded without a task class of your own: name the one that it "
                f"learned by, Predictor.load(..., task_class='module:Class')"
            )
        head = self._task_head()
        require_same_head(task, head.config, type(task).__name__)
        return OwnPredictor(
            task,
            bert=self.model.bert,
            head=head,
            packing=self.packing,
            abilities=self.abilities,
        )

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        device: torch.device | str = "cpu",
        precision: PrecisionChoice = "auto",
        tokens_per_batch: int | None = None,
        task_class: str | None = None,
    ) -> Predictor:
        """Reads a model as `checkpoints.store.load` does, once, for any number of questions.

        Device and precision are chosen as in training: `auto` is bf16 where the hardware multiplies
        it. Raises ValueError for one that is not there, before anything is read. `task_class` is
        the `module:Class` of one's own that the model learned by, which is imported: code is run;
        raises ValueError, as `tasks.imported.read_own_task` does, for a model of another one.
        """
        device = choose_device(str(device))
        chosen = choose_precision(precision, device)
        loaded = load(name_or_path)
        own_task = None if task_class is None else read_own_task(loaded.directory, task_class)
        cast_(loaded.model, chosen)
        return cls(loaded, device=device, tokens_per_batch=tokens_per_batch, own_task=own_task)

    @property
    def limit(self) -> int:
        """The longest sequence the model reads, in tokens."""
        return self.model.config.max_position_embeddings

    @property
    def sentence_limit(self) -> int:
        """The longest sequence that a sentence vector is made of, in tokens."""
        return self.sentence.limit(self.limit)

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
        if not words and top_k < 1:
            raise ValueError(f"top_k must be at least 1, found {top_k}")
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
        `sentence_vectors` counts it text by text.
        """
        texts = given.texts(texts, "embed")
        found = self.sentence_vectors(texts, pooling, is_normalized)
        if num_cut := sum(each.num_unread > 0 for each in found):
            warnings.warn(
                f"{num_cut:,} of {len(texts):,} texts were longer than the {self.sentence_limit} "
                f"tokens that a sentence vector is made of: their end was not read",
                stacklevel=2,
            )
        config = self.sentence.overruled(pooling, is_normalized)
        width = config.width(self.model.config.hidden_size)
        return np.array([each.vector for each in found], np.float32).reshape(len(texts), width)

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
        config = self.sentence.overruled(pooling, is_normalized)
        config.require_context(self.model.config.direction)
        items = sentence_vectors.encode(texts, self.tokenizer, self.sentence_limit)
        bert, dense = self.model.bert, self.dense
        answers = self._read(
            items, lambda _, stream: sentence_vectors.answers(bert, stream, config, dense)
        )
        return [
            SentenceVector(vector=vector, num_unread=item.num_unread)
            for vector, item in zip(answers, items, strict=True)
        ]

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

    def in_order(
        self,
        items: Sequence[Item],
        answer: Callable[[list[int], PackedBatch], Sequence[Answer]],
        watch: Watch | None = None,
    ) -> list[Answer]:
        """As `Packing.in_order`, for whoever has made items of their own."""
        return self.packing.in_order(items, answer, watch or self.watch)

    if not TYPE_CHECKING:  # a checker still knows which names there are

        def __getattr__(self, name: str) -> Never:
            """Raises AttributeError, which for a request to write text says why."""
            told = generation.refusal(name)
            raise AttributeError(told or f"'Predictor' object has no attribute '{name}'")

    def _task_head(self) -> TaskHead:
        """The head, where and as it computes."""
        head = self._loaded.head
        if head is None:
            raise ValueError(
                f"{self.name} holds no task head: fine-tune it first, with bertsmith finetune"
            )
        return head.to(self.device, self.packing.dtype).eval()

    def _read(
        self,
        items: Sequence[Item],
        answer: Callable[[list[int], Stream], Sequence[Answer]],
        watch: Watch | None = None,
    ) -> list[Answer]:
        """`in_order` for an `answer` that takes tensors on the model's device."""

        def on_device(numbers: list[int], packed: PackedBatch) -> Sequence[Answer]:
            return answer(numbers, Stream.of(packed, device=self.device))

        return self.in_order(items, on_device, watch)
