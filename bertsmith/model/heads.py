"""Hidden states -> scores: the two heads of pre-training, and the one of a task.

They do not know the targets.

Source: Devlin et al. 2018, sections 3.1, 4 and A.1; google-research/bert, run_pretraining.py
(get_masked_lm_output, get_next_sentence_output), run_classifier.py and run_squad.py (create_model).

Legend: M rows to predict, T tokens, N sequences, R rows, H hidden size, S layers read, W width of
the vectors scored, V vocabulary, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertsmith.model.bert import Bert
from bertsmith.model.bilstm import BiLstm
from bertsmith.model.config import BertConfig
from bertsmith.model.cpu_pooled_scores import pooled_scores
from bertsmith.model.dropout import HEAD_SITE, site_words
from bertsmith.model.elementwise import activate, drop, norm_and_drop, widened
from bertsmith.model.layer_choice import LayerChoice
from bertsmith.model.layer_mix import LayerMix
from bertsmith.model.stream import Stream
from bertsmith.model.task import Reads, TaskHeadConfig
from bertsmith.model.watched import is_watched


class LanguageModelHead(nn.Module):
    """Dense, activation, LayerNorm, then the decoder, with a bias of its own.

    The decoder is the token embedding; a checkpoint from elsewhere may hold one of its own.
    """

    in_float16: bool = False
    """Whether products with the decoder are made of float16 (`float16`) where it learns."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.activation = config.hidden_act
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.decoder = (
            None
            if config.tie_word_embeddings
            else nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        )

    def transform(self, rows: Tensor) -> Tensor:
        """(M, H) final hidden states -> (M, H) vectors to compare with the token embeddings."""
        return norm_and_drop(activate(self.dense(rows), self.activation), None, 0.0, self.norm)

    def decoder_weight(self, embedding: Tensor) -> Tensor:
        """(V, H): what vectors are compared with; the token embedding where the two are tied."""
        return embedding if self.decoder is None else self.decoder.weight

    def forward(self, rows: Tensor, embedding: Tensor) -> Tensor:
        """(M, H) final hidden states and the (V, H) token embedding -> (M, V) logits."""
        weight = self.decoder_weight(embedding)  # (V, H)
        return functional.linear(self.transform(rows), weight, self.bias)  # (M, V)


class NextSentenceHead(nn.Linear):
    """(N, H) pooled vectors -> (N, 2) logits: column 0 says next, column 1 says random."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config.hidden_size, 2)


class TaskHead(nn.Module):
    """What fine-tuning adds: dropout and one linear layer, on whatever `TaskHeadConfig` says.

    It reads in two steps: `states`, which the encoder alone decides, and `of_states`, which is
    learned. So what a frozen encoder gives can be kept.
    """

    def __init__(self, config: BertConfig, head: TaskHeadConfig) -> None:
        """Raises ValueError for layers that the encoder has not."""
        super().__init__()
        self.config = head
        self.choice = LayerChoice(name=head.layers)
        self.layer_numbers = self.choice.numbers(config.num_hidden_layers)
        width = self.choice.width(config.num_hidden_layers, config.hidden_size)
        self.layer_mix = LayerMix(len(self.layer_numbers)) if self.choice.is_weighted else None
        self.bilstm: BiLstm | None = None
        if head.on_top == "bilstm":
            self.bilstm = BiLstm(width, head.lstm_size, head.lstm_layers)
            width = 2 * head.lstm_size
        self.scores = nn.Linear(width, head.num_labels)

    def forward(self, rows: Tensor, row_keys: Tensor | None = None) -> Tensor:
        """(R, W) vectors -> (R, C) logits in float32 at least; `row_keys` switch dropout on.

        Rounded to bfloat16, answers would be tied that are not equal, and ranks are scores too.
        """
        words = site_words(row_keys, 0, HEAD_SITE)
        dropped = widened(drop(rows, words, self.config.dropout))  # (R, W)
        return functional.linear(dropped, widened(self.scores.weight), widened(self.scores.bias))

    def logits(self, bert: Bert, stream: Stream, rows: Tensor | None = None) -> Tensor:
        """A packed stream -> (T, C) logits of its tokens, or (N, C) of its sequences.

        With `rows` (R,) of a head that reads tokens: (R, C), of these alone. Of the highest layer
        only the rows are made that are read, except under a BiLSTM, which reads them all.
        """
        return self.of_states(bert, self.states(bert, stream, rows), stream, rows)

    def states(self, bert: Bert, stream: Stream, rows: Tensor | None = None) -> tuple[Tensor, ...]:
        """What it reads of each of its S layers: (T, H), (R, H) or (N, H) hidden states."""
        if self.config.reads == "mean":
            every = bert.chosen_states(stream, self.layer_numbers)
            return reduced_states(bert, stream, every, "mean")
        if self.config.reads == "pooled":
            rows = bert.pooled_rows(stream)
        return bert.chosen_states(stream, self.layer_numbers, None if self.bilstm else rows)

    def of_kept(
        self, bert: Bert, kept: Sequence[Tensor], stream: Stream, rows: Tensor | None = None
    ) -> Tensor:
        """As `of_states`, of states that were kept of every token, whichever are scored."""
        if rows is not None and self.bilstm is None:
            kept = [each.index_select(0, rows) for each in kept]
        return self.of_states(bert, kept, stream, rows)

    def of_states(
        self, bert: Bert, states: Sequence[Tensor], stream: Stream, rows: Tensor | None = None
    ) -> Tensor:
        """The logits, of what `states` gives; `bert` is asked for its pooler alone."""
        read = self._joined(states).to(states[0].dtype)
        if self.bilstm is not None:
            return self._logits_of_bilstm(self.bilstm, read, stream, rows)
        if not self.config.reads_tokens:
            rows = bert.pooled_rows(stream)  # (N,)
        keys = stream.token_keys if rows is None else stream.keys_of(rows)
        if self.config.needs_pooler:
            return self._logits_of_pooled(bert, read, keys)
        return self(read, keys)  # type: ignore[no-any-return]

    def _logits_of_pooled(self, bert: Bert, rows: Tensor, keys: Tensor | None) -> Tensor:
        """(N, H) rows that the pooler reads -> (N, C)."""
        is_as_made = type(self).forward is TaskHead.forward and not is_watched(self)
        if bert.pooler is not None and is_as_made:
            scores = pooled_scores(rows, bert.pooler, self.scores, keys, self.config.dropout)
            if scores is not None:
                return scores
        return self(bert.pool_rows(rows), keys)  # type: ignore[no-any-return]

    def _joined(self, states: Sequence[Tensor]) -> Tensor:
        if self.layer_mix is not None:
            return self.layer_mix(states)  # type: ignore[no-any-return]
        return states[0] if len(states) == 1 else self.choice.joined_chosen(states)

    def _logits_of_bilstm(
        self, bilstm: BiLstm, read: Tensor, stream: Stream, rows: Tensor | None
    ) -> Tensor:
        states = bilstm(read, stream)  # (T, 2D)
        if not self.config.reads_tokens:
            pooled = bilstm.pool(states, stream)  # (N, 2D)
            return self(pooled, stream.keys_of(stream.first_rows))  # type: ignore[no-any-return]
        if rows is not None:
            states = states.index_select(0, rows)  # (R, 2D)
        keys = stream.token_keys if rows is None else stream.keys_of(rows)
        return self(states, keys)  # type: ignore[no-any-return]


def reduced_states(
    bert: Bert, stream: Stream, states: Sequence[Tensor], reads: Reads
) -> tuple[Tensor, ...]:
    """(T, H) states of all tokens -> what a head needs of them: (T, H), or (N, H)."""
    if reads == "tokens":
        return tuple(states)
    if reads == "pooled":
        rows = bert.pooled_rows(stream)
        return tuple(hidden.index_select(0, rows) for hidden in states)
    lengths = (stream.last_rows - stream.first_rows + 1).tolist()
    return tuple(
        torch.stack([widened(part).mean(dim=0) for part in torch.split(hidden, lengths)]).to(
            hidden.dtype
        )
        for hidden in states
    )
