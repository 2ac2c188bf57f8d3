"""Items -> answers in the items' order: packed into streams, several of them at a time.

Items are sorted by length and packed under a token budget, so that nothing is padded. It does not
know what is asked of the model.

Legend: L layers, H hidden size.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeVar

import torch

from bertsmith.batch import PackedBatch
from bertsmith.data.items import Item, even_packs, packs
from bertsmith.fusion import is_available, unfused
from bertsmith.model.bert import Bert
from bertsmith.threads import one_a_thread

Answer = TypeVar("Answer")
Watch = Callable[[float], None]
"""Is told the share of the tokens that are read."""

TOKENS_PER_BATCH = 2048
_TOKENS_PER_BATCH_ON_GPU = 16_384
# Fewer in a batch than this do not fill a core.
_FEWEST_TOKENS_PER_BATCH = 512
# Fusing costs 14 to 25 seconds of compilation. On a CPU it saves nothing that the products of
# `model.linear` do not (figures in docs/log.md); on a GPU it saves passes over hidden states, so it
# is their values that count, tokens * L * H: from about 250,000 tokens of Mini on.
_VALUES_BEFORE_FUSING = 250_000 * 1024


def part(watch: Watch, start: float, end: float) -> Watch:
    """A watch over the work between two shares of the whole."""
    return lambda share: watch(start + share * (end - start))


class Packing:
    """How one model is given what it is to read."""

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype,
        values_per_token: int,
        tokens_per_batch: int | None,
    ) -> None:
        """Device and dtype of the model, its L * H, and a budget (None: by the device)."""
        by_device = TOKENS_PER_BATCH if device.type == "cpu" else _TOKENS_PER_BATCH_ON_GPU
        self.device = device
        self.dtype = dtype
        self.values_per_token = values_per_token
        self.tokens_per_batch = tokens_per_batch or by_device
        self.num_values_read = 0

    @classmethod
    def of(cls, bert: Bert, tokens_per_batch: int | None = None) -> Packing:
        """How this encoder is given it."""
        values = bert.config.num_hidden_layers * bert.config.hidden_size
        return cls(
            device=bert.device,
            dtype=bert.dtype,
            values_per_token=values,
            tokens_per_batch=tokens_per_batch,
        )

    def in_order(
        self,
        items: Sequence[Item],
        answer: Callable[[list[int], PackedBatch], Sequence[Answer]],
        watch: Watch,
    ) -> list[Answer]:
        """Calls `answer` with packed batches of `items`, and gives its answers in items' order.

        `answer` takes the items' numbers and their batch, and returns one answer a sequence. On a
        CPU it is called from several threads at once; `watch` is not, after every batch.
        """
        total = sum(len(item.token_ids) for item in items)
        is_fused = self._fuses(total)
        lock, read = threading.Lock(), 0

        def answers(batch: tuple[list[int], PackedBatch]) -> list[tuple[int, Answer]]:
            nonlocal read
            with torch.inference_mode(), unfused(not is_fused):
                found = list(zip(batch[0], answer(*batch), strict=True))
            with lock:
                read += batch[1].num_tokens
                watch(read / total)
            return found

        if self.device.type == "cpu":
            answered = one_a_thread(answers, self._even_batches(items))
        else:
            answered = [answers(batch) for batch in packs(items, self.tokens_per_batch)]
        found = dict(chain.from_iterable(answered))
        return [found[number] for number in range(len(items))]

    def _fuses(self, num_tokens: int) -> bool:
        """True when so much has been read, these tokens included, that fused kernels pay."""
        self.num_values_read += num_tokens * self.values_per_token
        is_enough = self.num_values_read >= _VALUES_BEFORE_FUSING
        return self.device.type != "cpu" and is_enough and is_available(self.device.type)

    def _even_batches(self, items: Sequence[Item]) -> list[tuple[list[int], PackedBatch]]:
        """Batches that give every thread as much to do, where there is enough for all."""
        threads = torch.get_num_threads()
        total = sum(len(item.token_ids) for item in items)
        multiple = threads if total >= threads * _FEWEST_TOKENS_PER_BATCH else 1
        return list(even_packs(items, self.tokens_per_batch, multiple))
