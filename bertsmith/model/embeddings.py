"""Token, segment and position ids -> the encoder's input.

Looking rows up is easy; the gradient is where care is owed. A frequent token, a segment or a
position occurs hundreds of times in a step, so its gradient is a long sum, made here in float32
whatever the dtype of the weights. It does not know where the ids come from.

Source: Devlin et al. 2018, Figure 2; google-research/bert, modeling.py, embedding_postprocessor.

Legend: T tokens, H hidden size, R rows of a table, U distinct rows in the step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bertsmith.model import gpu_embeddings
from bertsmith.model.config import BertConfig
from bertsmith.model.cpu_embeddings import EmbeddingRules, embed, embed_and_learn
from bertsmith.model.dropout import EMBEDDING_SITE, site_words
from bertsmith.model.elementwise import norm_and_drop
from bertsmith.model.stream import Stream
from bertsmith.model.watched import is_watched


class Embeddings(nn.Module):
    """dropout(LayerNorm(token + segment + position)): a stream -> (T, H)."""

    only_answers = False
    """Whether what nobody trains may be computed in one call, which calls no hook of a part."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dropout = config.hidden_dropout_prob
        self.token = Table(config.vocab_size, config.hidden_size)
        self.segment = Table(config.type_vocab_size, config.hidden_size)
        self.position = Table(config.max_position_embeddings, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, stream: Stream) -> Tensor:
        """The first hidden states of every token of the stream."""
        states = self._in_one_call(stream)
        if states is not None:
            return states
        rows = (
            self.token(stream.token_ids)
            + self.segment(stream.segment_ids)
            + self.position(stream.positions)
        )  # (T, H)
        words = site_words(stream.row_keys, 0, EMBEDDING_SITE)
        return norm_and_drop(rows, words, self.dropout, self.norm)  # (T, H)

    def _in_one_call(self, stream: Stream) -> Tensor | None:
        """(T, H) where all of it is done together; None where parts are to be called."""
        learns = torch.is_grad_enabled()
        if stream.token_ids.is_cuda:
            return self._on_a_gpu(stream)
        if not (self._is_as_made() if learns else self.only_answers):
            return None
        parts = (self.token, self.segment, self.position)
        tables = tuple(part.weight for part in parts)
        if not learns:
            return embed(stream, tables, self.norm)
        rules = EmbeddingRules(
            epsilon=self.norm.eps,
            probability=self.dropout,
            are_sparse=tuple(part.leaves_sparse_gradients for part in parts),
        )
        return embed_and_learn(stream, tables, self.norm, rules)

    def _on_a_gpu(self, stream: Stream) -> Tensor | None:
        if not self._is_as_made():
            return None
        tables = (self.token.weight, self.segment.weight, self.position.weight)
        if not gpu_embeddings.suits(tables, self.norm):
            return None
        return gpu_embeddings.embed(stream, tables, self.norm, self.dropout)

    def _is_as_made(self) -> bool:
        """Whether nobody hooked into a part or changed it, or is compiling all of them."""
        if torch.compiler.is_compiling():
            return False
        parts = (self.token, self.segment, self.position, self.norm)
        kinds = (Table, Table, Table, nn.LayerNorm)
        is_changed = any(type(part) is not kind for part, kind in zip(parts, kinds, strict=True))
        return not is_changed and not is_watched(*parts)


class Table(nn.Module):
    """An embedding matrix (R, H) whose gradient is summed in float32."""

    def __init__(self, num_rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_rows, width))
        self.leaves_sparse_gradients = False
        """Whether a CPU's gradient holds only the rows that were looked up, as torch's Embedding
        can leave it: few optimizers take such ones."""

    def forward(self, ids: Tensor) -> Tensor:
        """(T,) int64 -> (T, H)."""
        if not torch.is_grad_enabled():
            return self.weight.index_select(0, ids)
        rows: Tensor = _LookUp.apply(  # type: ignore[no-untyped-call]
            self.weight, ids, self.leaves_sparse_gradients
        )
        return rows


class _LookUp(torch.autograd.Function):
    """Of a (R, H) table and (T,) ids; `is_sparse`: the gradient has the rows looked up alone."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, ids: Tensor, is_sparse: bool) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.shape, ctx.is_sparse = weight.shape, is_sparse
        return weight.index_select(0, ids)  # (T, H)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (ids,) = ctx.saved_tensors
        (rows,) = gradients
        if rows.device.type != "cpu":
            return gpu_embeddings.summed_by_id(rows, ids, ctx.shape[0]), None, None  # (R, H)
        wide = torch.promote_types(rows.dtype, torch.float32)
        distinct, places = ids.unique(return_inverse=True)  # (U,), (T,)
        sums = rows.new_zeros((distinct.shape[0], ctx.shape[1]), dtype=wide)
        sums.index_add_(0, places, rows.to(wide))  # (U, H)
        sums = sums.to(rows.dtype)
        if ctx.is_sparse:
            gradient = torch.sparse_coo_tensor(
                distinct[None], sums, ctx.shape, is_coalesced=True, check_invariants=False
            )
        else:
            gradient = rows.new_zeros(ctx.shape).index_copy_(0, distinct, sums)
        return gradient, None, None  # (R, H)
