"""The position-wise feed-forward sub-layer, whose inner rows nobody else sees.

Source: Devlin et al. 2018, section 3; google-research/bert, modeling.py, transformer_model.

Legend: T tokens, H hidden size, F feed-forward size.
"""

from __future__ import annotations

from torch import Tensor, nn

from bertsmith.model.config import BertConfig
from bertsmith.model.dropout import FEED_FORWARD_SITE, site_words
from bertsmith.model.linear import Linear, project_and_norm


class FeedForward(nn.Module):
    """The position-wise sub-layer, with its residual and norm."""

    def __init__(self, config: BertConfig, number: int) -> None:
        super().__init__()
        self.number = number
        self.activation = config.hidden_act
        self.dropout = config.hidden_dropout_prob
        self.up = Linear(config.hidden_size, config.intermediate_size)
        self.down = Linear(config.intermediate_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden: Tensor, row_keys: Tensor | None) -> Tensor:
        """(T, H) -> (T, H)."""
        inner = self.up.activated(hidden, self.activation)  # (T, F)
        words = site_words(row_keys, self.number, FEED_FORWARD_SITE)
        return project_and_norm(self.down, inner, hidden, words, self.dropout, self.norm)  # (T, H)
