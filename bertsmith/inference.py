"""Questions -> answers: the one path from items to a model's logits.

Items are sorted by length and packed into streams under a token budget, so that nothing is padded
and memory does not grow with the input; answers come back in the order of the questions. This file
knows neither files nor terminals.

Legend: N sequences, M masks, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from bertsmith.batch import PackedBatch
from bertsmith.checkpoints.store import Loaded, load
from bertsmith.data.items import Item, packs
from bertsmith.fusion import unfused
from bertsmith.model.config import Objective
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.tasks import fill_mask, next_sentence
from bertsmith.tasks.fill_mask import Candidate, FilledText
from bertsmith.tasks.next_sentence import Follows

Answer = TypeVar("Answer")

TOKENS_PER_BATCH = 4096
# Logits are M x V: 512 rows of a 30,522 vocabulary are 63 MB.
_ROWS_PER_HEAD_CALL = 512
# Fusing saves a third of an encoder's time on a CPU, after 14 seconds of compilation (Mini, on one
# busy core): as much as it saves on about this many tokens.
_TOKENS_BEFORE_FUSING = 250_000


class Predictor:
    """A pre-trained model that answers: `Predictor.load("mini-en").fill_mask([...])`."""

    def __init__(
        self,
        loaded: Loaded[PretrainModel],
        *,
        device: torch.device | str = "cpu",
        tokens_per_batch: int = TOKENS_PER_BATCH,
    ) -> None:
        self.name = str(loaded.directory)
        self.notes = loaded.notes
        self.model = loaded.model.to(device).eval()
        self.tokenizer = loaded.tokenizer
        self.device = torch.device(device)
        self.tokens_per_batch = tokens_per_batch
        self._num_tokens_read = 0

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        device: torch.device | str = "cpu",
        tokens_per_batch: int = TOKENS_PER_BATCH,
    ) -> Predictor:
        """Reads a model as `checkpoints.store.load` does, once, for any number of questions."""
        return cls(load(name_or_path), device=device, tokens_per_batch=tokens_per_batch)

    @property
    def limit(self) -> int:
        """The longest sequence the model reads, in tokens."""
        return self.model.config.max_position_embeddings

    def fill_mask(
        self, texts: Sequence[str], *, top_k: int = 5, targets: Sequence[str] = ()
    ) -> list[FilledText]:
        """The `top_k` likeliest tokens at every `[MASK]` of every text, or all of `targets`.

        Raises ValueError for a model that was not pre-trained to fill masks, for targets that are
        no single token, and for texts that `tasks.fill_mask.encode` refuses.
        """
        self.require("masked_lm")
        only = fill_mask.target_ids(targets, self.tokenizer) if targets else None
        num_candidates = len(only) if only else top_k
        if num_candidates < 1:
            raise ValueError(f"top_k must be at least 1, found {top_k}")
        questions = fill_mask.encode(texts, self.tokenizer, self.limit)

        def answer(numbers: list[int], packed: PackedBatch) -> list[tuple[Mask, ...]]:
            stream = Stream.of(packed, device=self.device)
            rows = torch.nonzero(stream.token_ids == self.tokenizer.mask_id).flatten()  # (M,)
            hidden = self.model.bert(stream).index_select(0, rows)  # (M, H)
            masks = self._candidates(hidden, num_candidates, only)
            return [tuple(next(masks) for _ in questions[number].mask_spans) for number in numbers]

        answers = self.in_order([question.item for question in questions], answer)
        return [
            FilledText(question=question, masks=masks)
            for question, masks in zip(questions, answers, strict=True)
        ]

    def next_sentence(self, pairs: Sequence[tuple[str, str]]) -> list[Follows]:
        """The probability that the second text of each pair follows the first.

        Raises ValueError for a model without a next-sentence head and for pairs that
        `tasks.next_sentence.encode` refuses.
        """
        self.require("next_sentence")
        items = next_sentence.encode(pairs, self.tokenizer, self.limit)

        def answer(numbers: list[int], packed: PackedBatch) -> list[float]:
            assert self.model.next_sentence is not None
            stream = Stream.of(packed, device=self.device)
            pooled = self.model.bert.pool(self.model.bert(stream), stream)  # (N, H)
            logits = self.model.next_sentence(pooled).float()  # (N, 2)
            probabilities: list[float] = logits.softmax(dim=1)[:, 0].tolist()
            return probabilities

        return [
            Follows(probability=probability, num_unread=item.num_unread)
            for probability, item in zip(self.in_order(items, answer), items, strict=True)
        ]

    def require(self, objective: Objective) -> None:
        """Raises ValueError when the model was not pre-trained for this objective."""
        if objective not in self.model.objectives:
            raise ValueError(
                f"{self.name} was pre-trained for {' and '.join(self.model.objectives)} only; this "
                f"needs a model pre-trained for {objective}"
            )

    def in_order(
        self,
        items: Sequence[Item],
        answer: Callable[[list[int], PackedBatch], Sequence[Answer]],
    ) -> list[Answer]:
        """Calls `answer` with packed batches of `items`, and gives its answers in items' order.

        `answer` takes the items' numbers and their batch, and returns one answer a sequence.
        """
        answers: dict[int, Answer] = {}
        for numbers, packed in packs(items, self.tokens_per_batch):
            few = self._num_tokens_read < _TOKENS_BEFORE_FUSING
            with torch.inference_mode(), unfused(few):
                answers.update(zip(numbers, answer(numbers, packed), strict=True))
            self._num_tokens_read += packed.num_tokens
        return [answers[number] for number in range(len(items))]

    def _candidates(
        self, hidden: Tensor, num_candidates: int, only: list[int] | None
    ) -> Iterator[Mask]:
        """For each of (M, H) hidden states: its likeliest tokens, or those of the rows `only`."""
        rows_asked = None if only is None else torch.tensor(only, device=self.device)
        embedding = self.model.bert.embeddings.token.weight  # (V, H)
        for rows in torch.split(hidden, _ROWS_PER_HEAD_CALL):
            logits = self.model.masked_lm(rows, embedding).float()  # (M, rows of the embedding)
            logits = logits[:, : self.tokenizer.vocab_size]  # (M, V), as some models are padded
            probabilities = logits.softmax(dim=1)  # (M, V)
            if rows_asked is not None:
                probabilities = probabilities[:, rows_asked]
            best = probabilities.topk(min(num_candidates, probabilities.shape[1]), dim=1)
            ids = best.indices if rows_asked is None else rows_asked[best.indices]
            for row_ids, row_values in zip(ids.tolist(), best.values.tolist(), strict=True):
                yield tuple(map(self._candidate, row_ids, row_values))

    def _candidate(self, token_id: int, probability: float) -> Candidate:
        token = self.tokenizer.token_of(token_id)
        return Candidate(token=token, token_id=token_id, probability=probability)


Mask = tuple[Candidate, ...]
