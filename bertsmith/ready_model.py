"""A model on disk -> one that is ready: the one path from items to what a model says of them.

It is on its device, in its precision, with what answers by its task head where it has one. How
items become batches stands in `packing`. What questions mean, and how items are made of them, this
file does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

import torch

from bertsmith.answering import make_ready, rest_of
from bertsmith.batch import PackedBatch
from bertsmith.checkpoints.store import Loaded, load
from bertsmith.data.items import Item, Items
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.heads import TaskHead
from bertsmith.model.layers import lay_out
from bertsmith.model.linear import linears
from bertsmith.model.sentence import SentenceConfig
from bertsmith.model.stream import Stream
from bertsmith.packing import Packing, Watch
from bertsmith.task_predictor import TaskPredictor
from bertsmith.tasks.abilities import Abilities
from bertsmith.tasks.assumed import require_same_head
from bertsmith.tasks.imported import AnyOwnTask, read_own_task
from bertsmith.tasks.own_predictor import OwnPredictor
from bertsmith.tasks.scores import FloatArray, Scoring, item_scores
from bertsmith.text.tally import TokenTally
from bertsmith.threads import outlive_forks
from bertsmith.train.config import AnswerPrecision
from bertsmith.train.device import choose_device, rounds_products

Answer = TypeVar("Answer")


class ReadyModel:
    """A loaded model that gives an answer for every item, in the items' order."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        device: torch.device | str = "cpu",
        tokens_per_batch: int | None = None,
        own_task: AnyOwnTask | None = None,
    ) -> None:
        """Takes the model in the precision it has; `tokens_per_batch` None: by the device.

        `own_task` is the model's task where that is of a class of one's own.
        """
        self.name = str(loaded.directory)
        self.notes = loaded.notes
        self.model = loaded.model.to(device).eval()
        if not any(linear.is_rounded for linear in linears(self.model)):
            lay_out(self.model)
        self.model.bert.prepare()
        self.computed_in = str(self.model.bert.dtype).removeprefix("torch.")
        """The precision, told: of int8 the rest's too."""
        self.tokenizer = loaded.tokenizer
        self.sentence = loaded.sentence or SentenceConfig()
        self.dense = None if loaded.dense is None else loaded.dense.to(device)
        self.is_sentence_model = loaded.sentence is not None
        self._loaded, self._own_task = loaded, own_task
        self.tally = TokenTally(self.tokenizer)
        """Of all that was read."""
        self.abilities = Abilities(name=self.name, model=self.model, tokenizer=self.tokenizer)
        self.device = torch.device(device)
        self.packing = Packing.of(self.model.bert, tokens_per_batch)
        self.watch: Watch = lambda share: None
        """Told after every batch; for whoever shows progress, who may replace it."""

    @cached_property
    def fine_tuned(self) -> TaskPredictor:
        """What answers questions of the task that the model was fine-tuned on.

        Raises ValueError for a model without a task head, and of a class of one's own.
        """
        if self._own_task is not None:
            raise ValueError(
                f"{self.name} learned {type(self._own_task).__name__}, a task class of your own: "
                f"ask it with own_answers"
            )
        head = self._task_head()
        return TaskPredictor(
            self._loaded, head.config, scoring=self._scoring(head), abilities=self.abilities
        )

    @cached_property
    def own(self) -> OwnPredictor:
        """What answers by the class that `load` was told as `task_class`.

        Raises ValueError where it was told none, and for a class with another head than the model.
        """
        task = self._own_task
        if task is None:
            raise ValueError(
                f"{self.name} was loaded without a task class of your own: name the one that it "
                f"learned by, Predictor.load(..., task_class='module:Class')"
            )
        head = self._task_head()
        require_same_head(task, head.config, type(task).__name__)
        return OwnPredictor(task, scoring=self._scoring(head), abilities=self.abilities)

    @classmethod
    def load(
        cls,
        name_or_path: str | Path,
        *,
        device: torch.device | str = "cpu",
        precision: AnswerPrecision = "auto",
        tokens_per_batch: int | None = None,
        task_class: str | None = None,
    ) -> Self:
        """Reads a model as `checkpoints.store.load` does, once, for any number of questions.

        Device and precision are chosen as in training: `auto` is bf16, or on some CPUs fp16, where
        the hardware multiplies it faster; `int8` has the matrices of all layers in eight bits, on
        CPUs that multiply these. Raises ValueError for one that is not there, before anything is
        read. `task_class` is the `module:Class` of one's own that the model learned by, which is
        imported: code is run; raises ValueError, as `tasks.imported.read_own_task` does, for a
        model of another one. A process that is forked from this one later answers in one thread.
        """
        device = choose_device(str(device))
        rest_of(precision, device)
        outlive_forks()
        loaded = load(name_or_path)
        own_task = None if task_class is None else read_own_task(loaded.directory, task_class)
        rest = make_ready(loaded.model, precision, device)
        ready = cls(loaded, device=device, tokens_per_batch=tokens_per_batch, own_task=own_task)
        if precision == "int8":
            ready.computed_in = f"int8, the rest in {ready.computed_in}"
        elif rounds_products(rest, device):
            ready.computed_in = f"{ready.computed_in}, products in float16"
        return ready

    @property
    def limit(self) -> int:
        """The longest sequence the model reads, in tokens."""
        return self.model.config.max_position_embeddings

    @property
    def sentence_limit(self) -> int:
        """The longest sequence that a sentence vector is made of, in tokens."""
        return self.sentence.limit(self.limit)

    def in_order(
        self,
        items: Iterable[Item],
        answer: Callable[[list[int], PackedBatch], Iterable[Answer]],
        watch: Watch | None = None,
    ) -> list[Answer]:
        """As `Packing.in_order`, for whoever has made items of their own."""
        items = Items.of(items)
        self.tally.add([items.packed.token_ids])
        return self.packing.in_order(items, answer, watch or self.watch)

    def _task_head(self) -> TaskHead:
        """The head, where and as it computes."""
        return self._loaded.task_head().to(self.device, self.packing.dtype).eval()

    def _scoring(self, head: TaskHead) -> Scoring:
        """What the head says of items; what they hold is counted."""
        # Not `self`: in a circle a model would outlive whoever asked for it.
        bert, packing, tally = self.model.bert, self.packing, self.tally

        def scores(labelled: LabelledItems, watch: Watch) -> list[FloatArray]:
            tally.add(item.token_ids for item in labelled.items)
            return item_scores(bert, head, labelled, packing, watch)

        return scores

    def _read(
        self,
        items: Iterable[Item],
        answer: Callable[[list[int], Stream], Iterable[Answer]],
        watch: Watch | None = None,
    ) -> list[Answer]:
        """`in_order` for an `answer` that takes tensors on the model's device."""

        def on_device(numbers: list[int], packed: PackedBatch) -> Iterable[Answer]:
            return answer(numbers, Stream.of(packed, device=self.device))

        return self.in_order(items, on_device, watch)
