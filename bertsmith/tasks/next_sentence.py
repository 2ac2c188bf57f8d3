"""Pairs of texts -> sequences to read, and a model's answer whether the second follows the first.

It does not know how sequences are laid into batches.

Source: Devlin et al. 2018, section 3.1 (next sentence prediction).

Legend: N pairs, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bertsmith.data.items import Item, two_texts
from bertsmith.model.elementwise import widened
from bertsmith.model.finite import finite
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.tasks.given import require_token
from bertsmith.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Follows:
    """Whether one text follows another."""

    probability: float
    """That the second text follows the first."""
    num_unread: int
    """Tokens at the ends of the texts that the model did not see, because they were too long."""


def encode(pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, limit: int) -> list[Item]:
    """Pairs -> `[CLS] first [SEP] second [SEP]` of at most `limit` tokens each.

    Of a longer pair the longer side is trimmed at its end, and what is trimmed is counted. Raises
    ValueError for a pair of which one text has no token.
    """
    texts = [text for pair in pairs for text in pair]
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    for number, (text, encoding) in enumerate(zip(texts, encodings, strict=True)):
        place = f"pair {number // 2 + 1}: " if len(pairs) > 1 else ""
        require_token(text, len(encoding.ids), place)
    return [
        two_texts(
            first.ids,
            second.ids,
            limit=limit,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
        )
        for first, second in zip(encodings[::2], encodings[1::2], strict=True)
    ]


def answers(model: PretrainModel, stream: Stream) -> list[float]:
    """For every pair of the stream: the probability that its second text follows the first."""
    assert model.next_sentence is not None
    rows = model.bert(stream, model.bert.pooled_rows(stream))  # (N, H)
    logits = widened(model.next_sentence(model.bert.pool_rows(rows)))  # (N, 2)
    probabilities: list[float] = finite(logits, "logits").softmax(dim=1)[:, 0].tolist()
    return probabilities
