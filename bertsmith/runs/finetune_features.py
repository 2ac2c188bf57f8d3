"""A run that trains a head alone -> the hidden states it learns from, kept on the disk.

Training and Dev examples have a directory each, so another run of the same model and examples that
reads the same layers in the same way finds them again, whatever its seed or labels. It knows no
files but their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertsmith.data.labelled import LabelledItems
from bertsmith.features.hidden_store import HiddenStore, encoder_fingerprint, key_of
from bertsmith.model.task_model import TaskModel
from bertsmith.packing import Packing, Watch, part
from bertsmith.runs.room import require_room, told_bytes
from bertsmith.train.config import Precision
from bertsmith.train.device import dtype_of, rounds_products


@dataclass(frozen=True, kw_only=True)
class FrozenFeatures:
    """The hidden states of both sets."""

    place: Path
    """The directory of the directories."""
    train: HiddenStore
    dev: HiddenStore
    items: tuple[LabelledItems, LabelledItems]
    """Of both sets, in this order."""
    about: Mapping[str, object]
    """What is written beside the files."""

    @staticmethod
    def of(
        model: TaskModel,
        train: LabelledItems,
        dev: LabelledItems,
        precision: Precision,
        place: Path,
        machine: Mapping[str, str],
    ) -> FrozenFeatures:
        """Where they are or will be; raises ValueError where the disk has no room for them."""
        config = model.head.config
        device = next(model.bert.parameters()).device
        dtype = dtype_of(precision, device)
        rounded = ", products in float16" if rounds_products(precision, device) else ""
        encoder = encoder_fingerprint(model.bert)

        def store(labelled: LabelledItems) -> HiddenStore:
            lengths = [len(item.token_ids) for item in labelled.items]
            return HiddenStore(
                directory=place / key_of(encoder, labelled.items, f"{dtype}{rounded}", machine),
                reads=config.reads,
                numbers=model.head.layer_numbers,
                lengths=np.array(lengths if config.reads == "tokens" else [1] * len(lengths)),
                hidden_size=model.bert.config.hidden_size,
                dtype=dtype,
            )

        features = FrozenFeatures(
            place=place,
            train=store(train),
            dev=store(dev),
            items=(train, dev),
            about={"encoder": encoder, "precision": precision, **machine},
        )
        features._require_room()
        return features

    def described(self) -> str:
        """What is kept where, how large it is, and what of it is still to be made."""
        numbers, (size, missing) = self.train.numbers, self._num_bytes()
        read = {"tokens": "every token", "pooled": "the pooled token", "mean": "the mean"}
        layers = ", ".join("embeddings" if number == 0 else str(number) for number in numbers)
        named = f"layer{'' if len(numbers) == 1 else 's'} {layers}"
        done = "all there, the encoder reads nothing"
        if missing:
            done = f"{told_bytes(missing)} of it to be made, in one pass of the encoder"
        kept = str(self.train.dtype).removeprefix("torch.")
        return (
            f"{named} of {read[self.train.reads]}, {told_bytes(size)} in {kept}; {done}; in "
            f"{self.place}"
        )

    def num_missing_bytes(self) -> int:
        """Of what is still to be made."""
        return self._num_bytes()[1]

    def num_tokens_to_read(self) -> int:
        """Tokens that the encoder has to read before training begins."""
        return sum(labelled.num_tokens for store, labelled in self._sets() if store.missing())

    def fill(self, model: TaskModel, watch: Watch) -> None:
        """Makes what is missing, with the model as it is placed; one pass over each set."""
        total, read = self.num_tokens_to_read(), 0
        for store, labelled in self._sets():
            if not store.missing():
                continue
            before, read = read, read + labelled.num_tokens
            store.fill(
                model.bert,
                Packing.of(model.bert),
                labelled.items,
                part(watch, before / total, read / total),
                {**self.about, "sequences": len(labelled.items)},
            )

    def _sets(self) -> Iterator[tuple[HiddenStore, LabelledItems]]:
        return zip((self.train, self.dev), self.items, strict=True)

    def _num_bytes(self) -> tuple[int, int]:
        """Of all layers, and of those that are missing."""
        stores = (self.train, self.dev)
        size = sum(store.num_bytes * len(set(store.numbers)) for store in stores)
        return size, sum(store.num_bytes * len(store.missing()) for store in stores)

    def _require_room(self) -> None:
        require_room(
            self.num_missing_bytes(),
            self.place,
            "the hidden states to learn from",
            "keep them elsewhere (--features), or read fewer layers (--layers)",
        )
