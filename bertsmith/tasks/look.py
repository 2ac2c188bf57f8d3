"""A text or pair -> what goes on inside the model while it reads it: attention and hidden states.

It does not know how they are drawn.

Source: Vaswani et al. 2017, section 3.2; Clark et al. 2019, What Does BERT Look At?

Legend: n tokens, L layers, A heads, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from bertsmith.batch import IntArray
from bertsmith.data.items import Item, one_text, two_texts
from bertsmith.model.bert import Bert
from bertsmith.model.block_attention import attention_probabilities
from bertsmith.model.finite import finite
from bertsmith.model.layer import Layer
from bertsmith.model.stream import Stream
from bertsmith.text.tokenizer import Tokenizer

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One text or pair, ready to be read."""

    item: Item
    """The model's input."""
    tokens: tuple[str, ...]
    """(n,) as the vocabulary writes them."""
    spans: IntArray
    """(n, 2) each token's characters in its own text, half-open; (0, 0) for `[CLS]`, `[SEP]`."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """One token's attention to one token."""

    query: int
    """Number of the token that looks."""
    key: int
    """Number of the token looked at."""
    weight: float
    """Its share of what the first one takes in: all shares of a token sum to 1."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a model saw in one text or pair."""

    question: Question
    """What was read."""
    attention: FloatArray
    """(L, A, n, n): in each layer and head, the share that a token (third) takes of another."""
    hidden: FloatArray
    """(L + 1, n, H): the embedding output, then every layer's."""

    @property
    def num_unread(self) -> int:
        """Tokens that the model did not see, because the text was too long."""
        return self.question.item.num_unread

    def shares(self, layer: int, head: int | None = None) -> FloatArray:
        """(n, n) attention of a layer's head, or of its heads' mean; both are counted from 1.

        Raises ValueError for a layer or a head that the model has not.
        """
        num_layers, num_heads = self.attention.shape[:2]
        for name, number, count in (("layer", layer, num_layers), ("head", head, num_heads)):
            if number is not None and not 1 <= number <= count:
                raise ValueError(f"{name} must be 1 to {count} for this model, found {number}")
        heads = self.attention[layer - 1]  # (A, n, n)
        weights: FloatArray = heads.mean(axis=0) if head is None else heads[head - 1]  # (n, n)
        return weights

    def links(
        self, layer: int, head: int | None = None, *, top_k: int = 10, with_special: bool = True
    ) -> list[Link]:
        """The `top_k` strongest links of a layer's head, or of its heads' mean, strongest first.

        Without special tokens, links from and to `[CLS]` and `[SEP]` are left out, which are often
        the strongest. Raises ValueError as `shares` does.
        """
        weights = self.shares(layer, head)  # (n, n)
        num_tokens = len(weights)
        is_shown = np.full(num_tokens, True) if with_special else self.question.spans[:, 1] > 0
        shown = np.flatnonzero(is_shown)
        among = weights[np.ix_(shown, shown)].reshape(-1)
        best = np.argsort(-among, kind="stable")[:top_k].tolist()
        pairs = [(shown[place // len(shown)], shown[place % len(shown)]) for place in best]
        return [
            Link(query=int(query), key=int(key), weight=float(weights[query, key]))
            for query, key in pairs
        ]


def encode(
    sides: Sequence[str], tokenizer: Tokenizer, limit: int, special_tokens_in_text: bool = False
) -> Question:
    """One text or two -> a sequence of at most `limit` tokens; what is cut off is counted."""
    encodings = [
        tokenizer.encode(
            side, add_special_tokens=False, special_tokens_in_text=special_tokens_in_text or None
        )
        for side in sides
    ]
    ids = [encoding.ids for encoding in encodings]
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    if len(sides) == 1:
        item = one_text(*ids, limit=limit, cls_id=cls_id, sep_id=sep_id, keep=(0, 0))
    else:
        item = two_texts(*ids, limit=limit, cls_id=cls_id, sep_id=sep_id)
    spans = np.zeros((len(item.token_ids), 2), np.int32)
    row = 1  # behind [CLS]
    for number, encoding in enumerate(encodings):
        num_kept = int((item.segment_ids == number).sum()) - (2 if number == 0 else 1)
        spans[row : row + num_kept] = encoding.spans[:num_kept]
        row += num_kept + 1
    tokens = tuple(map(tokenizer.token_of, item.token_ids.tolist()))
    return Question(item=item, tokens=tokens, spans=spans)


def no_attention(bert: Bert) -> str:
    """Why there is none to look at; empty where there is."""
    if all(isinstance(layer, Layer) for layer in bert.layers):
        return ""
    kind = bert.config.told_kind
    return f"there is no attention of BERT's layers to look at: the model is of the kind {kind}"


def answer(question: Question, bert: Bert, stream: Stream) -> Look:
    """What happens in a stream of this one sequence. Raises ValueError without any attention."""
    if told := no_attention(bert):
        raise ValueError(told)
    (block,) = stream.blocks
    hidden = bert.hidden_states(stream)  # L + 1 of (n, H)
    attention = []
    for layer, states in zip(bert.layers, hidden[:-1], strict=True):
        assert isinstance(layer, Layer)
        qkv = layer.attention.qkv(states)  # (n, 3H)
        attention.append(attention_probabilities(qkv, block, layer.attention.rules)[0])  # (A, n, n)
    return Look(
        question=question,
        attention=torch.stack(attention).float().cpu().numpy(),
        hidden=finite(torch.stack(hidden).float(), "hidden states").cpu().numpy(),
    )
