"""A pre-training batch -> losses: masked LM, next sentence, left-to-right and right-to-left LM.

Each loss is the mean over the whole step's targets, whatever part of the step a micro-batch or a
process holds: a part's loss is its sum divided by the step's count, so parts add up to the step.
The language-model head reads target rows only. It does not know how the targets were chosen.

Source: Devlin et al. 2018, sections 3.1, 5.1 and A.1; google-research/bert, run_pretraining.py.

Legend: T tokens, N sequences, M target rows, H hidden size, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertsmith.batch import PretrainBatch
from bertsmith.model.bert import Bert
from bertsmith.model.config import DIRECTION_OF, BertConfig, Objective
from bertsmith.model.cpu_pooled_scores import pooled_scores
from bertsmith.model.elementwise import widened
from bertsmith.model.heads import LanguageModelHead, NextSentenceHead
from bertsmith.model.stream import Stream, builds_kernels_by_size, tensors
from bertsmith.model.vocabulary_loss import language_model_loss


@dataclass(frozen=True, kw_only=True)
class Losses:
    """What one micro-batch adds to its step."""

    loss: Tensor
    """Scalar; the parts of a step add up to the step's loss."""
    sums: dict[str, Tensor]
    """Scalars without gradient, to be added up over parts: `{objective}_loss_sum`, `_correct` and
    `_count`."""


class PretrainModel(nn.Module):
    """A `Bert` and the heads its objectives need.

    A loaded one may lack the language-model head, or hold a pooler that no head of it reads: it
    answers what it can, and cannot be trained.
    """

    def __init__(
        self, config: BertConfig, objectives: tuple[Objective, ...], *, with_pooler: bool = False
    ) -> None:
        """Raises ValueError for two language models or one that the direction forbids."""
        super().__init__()
        self.config = config
        self.objectives = objectives
        self.language_model = _language_model(config, objectives)
        with_next = "next_sentence" in objectives
        self.bert = Bert(config, with_pooler=with_next or with_pooler)
        self.masked_lm = LanguageModelHead(config) if self.language_model else None
        self.next_sentence = NextSentenceHead(config) if with_next else None

    def forward(self, batch: PretrainBatch, dropout: tuple[int, int] | None = None) -> Losses:
        """The losses of one micro-batch; `dropout` = (seed, step) switches dropout on."""
        assert self.language_model is not None
        assert self.masked_lm is not None
        device = self.masked_lm.bias.device
        stream = Stream.of(
            batch.packed,
            device=device,
            dropout=dropout,
            is_rounded=builds_kernels_by_size(self.masked_lm.bias),
        )
        target_rows, target_ids = tensors((batch.target_rows, batch.target_ids), device)
        rows = [target_rows]
        if self.next_sentence is not None:
            rows.append(self.bert.pooled_rows(stream))
        hidden = self.bert(stream, torch.cat(rows))  # (M, H), or (M + N, H)
        targets, *pooled = torch.split(hidden, [len(each) for each in rows])
        total, correct = language_model_loss(
            self.masked_lm.transform(targets),
            self.masked_lm.decoder_weight(self.bert.token_embedding),
            self.masked_lm.bias,
            target_ids,
            in_float16=self.masked_lm.in_float16,
        )
        # Differs from the paper's code: it divides by the count plus 1e-5. A step has no targets
        # where whole words are longer than what is masked; its loss is zero, as there.
        loss = total / max(batch.step_targets, 1)
        sums = _sums(self.language_model, total, correct, len(batch.target_rows))
        if self.next_sentence is not None:
            total, correct = self._next_sentence(pooled[0], batch)
            loss = loss + total / batch.step_sequences
            sums |= _sums("next_sentence", total, correct, batch.packed.num_sequences)
        return Losses(loss=loss, sums=sums)

    def _next_sentence(self, rows: Tensor, batch: PretrainBatch) -> tuple[Tensor, Tensor]:
        assert self.next_sentence is not None
        if batch.next_labels is None:
            raise ValueError("next_sentence is among the objectives, but the batch has no labels")
        (labels,) = tensors((batch.next_labels,), rows.device)  # (N,)
        logits = self._next_sentence_logits(rows)  # (N, 2)
        total = functional.cross_entropy(logits, labels, reduction="sum")
        return total, (logits.argmax(dim=1) == labels).sum()

    def _next_sentence_logits(self, rows: Tensor) -> Tensor:
        """(N, H) rows that the pooler reads -> (N, 2)."""
        assert self.next_sentence is not None
        if self.bert.pooler is not None:
            logits = pooled_scores(rows, self.bert.pooler, self.next_sentence, None, 0.0)
            if logits is not None:
                return logits
        return widened(self.next_sentence(self.bert.pool_rows(rows)))


def _language_model(config: BertConfig, objectives: tuple[Objective, ...]) -> Objective | None:
    """The language-model objective among them, checked against the config's direction."""
    language_models = [objective for objective in objectives if objective in DIRECTION_OF]
    if not language_models:
        return None
    if len(language_models) > 1:
        raise ValueError(
            f"objectives must hold one of {', '.join(DIRECTION_OF)}, found {objectives}"
        )
    expected = DIRECTION_OF[language_models[0]]
    if config.direction != expected:
        raise ValueError(
            f"{language_models[0]} needs direction {expected!r}, found {config.direction!r}"
        )
    return language_models[0]


def _sums(name: str, total: Tensor, correct: Tensor, count: int) -> dict[str, Tensor]:
    return {
        f"{name}_loss_sum": total.detach(),
        f"{name}_correct": correct,
        # Filled on the device, not copied to it: a copy would wait for the device.
        f"{name}_count": correct.new_full((), count),
    }
