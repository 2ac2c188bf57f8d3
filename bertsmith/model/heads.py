"""Hidden states -> scores: the two heads of pre-training.

They do not know the targets.

Source: Devlin et al. 2018, section 3.1 and A.1; google-research/bert, run_pretraining.py,
get_masked_lm_output and get_next_sentence_output.

Legend: M rows to predict, N sequences, H hidden size, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertsmith.model.config import BertConfig
from bertsmith.model.elementwise import activate, norm_and_drop


class LanguageModelHead(nn.Module):
    """Dense, activation, LayerNorm, then the decoder, with a bias of its own.

    The decoder is the token embedding; a checkpoint from elsewhere may hold one of its own.
    """

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
        return nn.functional.linear(self.transform(rows), weight, self.bias)  # (M, V)


class NextSentenceHead(nn.Linear):
    """(N, H) pooled vectors -> (N, 2) logits: column 0 says next, column 1 says random."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config.hidden_size, 2)
