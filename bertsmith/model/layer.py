"""One Transformer layer: attention and feed-forward, each with dropout, residual and LayerNorm.

Post-LayerNorm, as in the original. The matrix multiplications run as they are; everything between
them is fused into one pass over memory. It does not know what the hidden states are for.

Source: Devlin et al. 2018, section 3; google-research/bert, modeling.py, transformer_model.

Legend: T tokens, R rows asked for (all T if none are named), H hidden size, F feed-forward size.
"""

from __future__ import annotations

from torch import Tensor, nn

from bertsmith.model.attention import SelfAttention
from bertsmith.model.config import BertConfig
from bertsmith.model.dropout import FEED_FORWARD_SITE, site_words
from bertsmith.model.linear import Linear, project_and_norm
from bertsmith.model.stream import Stream


class Layer(nn.Module):
    """(T, H) hidden states -> (T, H) hidden states."""

    def __init__(self, config: BertConfig, number: int) -> None:
        super().__init__()
        self.number = number
        self.attention = SelfAttention(config, number)
        self.feed_forward = FeedForward(config, number)

    def forward(self, hidden: Tensor, stream: Stream, rows: Tensor | None = None) -> Tensor:
        """Both sub-layers in turn; with `rows` (R,), what only other rows need is left out."""
        attended = self.attention(hidden, stream, rows)  # (R, H)
        output: Tensor = self.feed_forward(attended, stream.keys_of(rows))  # (R, H)
        return output


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
