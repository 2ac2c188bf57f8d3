"""Items -> answers in the items' order: packed into streams, several of them at a time.

Items are sorted by length and packed under a token budget, so that nothing is padded. It does not
know what is asked of the model.

Legend: L layers, H hidden size.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import torch
from torch import Tensor

from bertsmith.batch import PackedBatch
from bertsmith.data.items import Item, Items, even_packs, packs
from bertsmith.fusion import unfused
from bertsmith.model.bert import Bert
from bertsmith.threads import one_a_thread

Answer = TypeVar("Answer")
Begun = TypeVar("Begun")
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
# Begun on a GPU before the answers of the one before them are waited for: its work for some 15 ms,
# in which Python may pause.
_BATCHES_AHEAD = 4


def part(watch: Watch, start: float, end: float) -> Watch:
    """A watch over the work between two shares of the whole."""
    return lambda share: watch(start + share * (end - start))


class Arriving(Generic[Answer]):
    """Answers made of a tensor that is on its way to the host: who iterates over them waits for it.

    On a GPU nobody waits before, so that it has work while Python makes answers of earlier work.
    """

    def __init__(self, there: Tensor, finish: Callable[[Tensor], Iterable[Answer]]) -> None:
        """`finish` copies what it keeps: a GPU's tensors arrive in pinned memory, a scarce one."""
        self._here = there.to("cpu", non_blocking=True) if there.is_cuda else there.cpu()
        self._finish = finish
        self._arrived: torch.Event | None = None
        if there.is_cuda:  # behind the copy, and before whatever is begun later
            self._arrived = torch.cuda.current_stream(there.device).record_event()

    def __iter__(self) -> Iterator[Answer]:
        """What `finish` makes of the tensor."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return iter(self._finish(self._here))


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
        items: Iterable[Item],
        answer: Callable[[list[int], PackedBatch], Iterable[Answer]],
        watch: Watch,
    ) -> list[Answer]:
        """Calls `answer` with packed batches of `items`, and gives its answers in items' order.

        `answer` takes the items' numbers and their batch, and returns one answer a sequence. On a
        CPU it is called from several threads at once; `watch` is not, when a batch's answers are
        there. On a GPU these are iterated over when the next batches are begun: see `Arriving`.
        """
        items = Items.of(items)
        total = items.packed.num_tokens
        is_fused = self._fuses(total)
        found: dict[int, Answer] = {}
        lock, read = threading.Lock(), 0

        def begin(numbers: list[int], packed: PackedBatch) -> Iterable[Answer]:
            with torch.inference_mode(), unfused(not is_fused):
                answers = answer(numbers, packed)
                return list(answers) if self.device.type == "cpu" else answers

        def keep(numbers: list[int], packed: PackedBatch, answers: Iterable[Answer]) -> None:
            nonlocal read
            found.update(zip(numbers, answers, strict=True))
            with lock:  # in no mode but the one that who watches is in
                read += packed.num_tokens
                watch(read / total)

        if self.device.type == "cpu":
            one_a_thread(lambda batch: keep(*batch, begin(*batch)), self._even_batches(items))
        else:
            batches = packs(items, self.tokens_per_batch)
            begun = ((*batch, begin(*batch)) for batch in batches)
            for numbers, packed, answers in _behind(begun, _BATCHES_AHEAD):
                with torch.inference_mode():
                    arrived = list(answers)
                keep(numbers, packed, arrived)
        return [found[number] for number in range(len(items))]

    def _fuses(self, num_tokens: int) -> bool:
        """True when so much has been read, these tokens included, that fused kernels pay.

        Whether there are any is asked by who comes to one: finding out takes seconds, and a GPU's
        layers have kernels in Triton.
        """
        self.num_values_read += num_tokens * self.values_per_token
        is_enough = self.num_values_read >= _VALUES_BEFORE_FUSING
        return self.device.type != "cpu" and is_enough

    def _even_batches(self, items: Items) -> list[tuple[list[int], PackedBatch]]:
        """Batches that give every thread as much to do, where there is enough for all."""
        threads = torch.get_num_threads()
        is_enough = items.packed.num_tokens >= threads * _FEWEST_TOKENS_PER_BATCH
        return list(even_packs(items, self.tokens_per_batch, threads if is_enough else 1))


def _behind(begun: Iterable[Begun], num_ahead: int) -> Iterator[Begun]:
    """The same one after the other, each when so many more are begun."""
    waiting: deque[Begun] = deque()
    for each in begun:
        waiting.append(each)
        if len(waiting) > num_ahead:
            yield waiting.popleft()
    yield from waiting
