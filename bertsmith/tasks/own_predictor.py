"""A task class of a person's own and examples as it reads them -> what its `decode` says of each.

As in evaluation: the class encodes and decodes, the model scores. All examples of a call are
encoded together, since the class may answer some of them as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bertsmith.data.labelled import LabelledItems
from bertsmith.packing import Watch
from bertsmith.tasks.abilities import Abilities
from bertsmith.tasks.answered import OwnAnswer
from bertsmith.tasks.imported import AnyOwnTask, ReadsText
from bertsmith.tasks.own_faults import failures_named, require_one_each
from bertsmith.tasks.scores import Scoring


class OwnPredictor:
    """What a class of one's own answers; whatever it raises is a ValueError that names it."""

    def __init__(self, task: AnyOwnTask, *, scoring: Scoring, abilities: Abilities) -> None:
        self.task, self.abilities, self._scoring = task, abilities, scoring
        self.notes: list[str] = []
        """What the class said of the examples that were answered."""
        self.num_sequences = self.num_cut = 0
        """Sequences that were read, and those of them whose text did not fit."""

    def of_file(self, path: Path) -> Sequence[object]:
        """The examples of a file, as the class reads it."""
        with failures_named(type(self.task), "read"):
            return tuple(self.task.read(path))

    def of_texts(self, texts: Sequence[str]) -> list[object]:
        """An example of each text. Raises ValueError for a class that makes none."""
        task = self.task
        if not texts:
            return []
        if not isinstance(task, ReadsText):
            raise ValueError(
                f"{type(task).__name__} reads files, and no text by itself: name a file with "
                f"--file, or give the class a classmethod read_text(cls, text)"
            )
        with failures_named(type(task), "read_text"):
            return [task.read_text(text) for text in texts]

    def answers(
        self, examples: Sequence[object], watch: Watch = lambda share: None
    ) -> list[OwnAnswer]:
        """An answer to each example, in their order.

        Raises ValueError for what the model cannot read, and for a class that decodes more or fewer
        answers than there are examples.
        """
        if not examples:
            return []
        kind = type(self.task)
        with failures_named(kind, "encode"):
            encoded = self.task.encode(examples, self.abilities.tokenizer)
            labelled, notes = encoded.labelled, encoded.notes
        self._require_readable(labelled)
        scores = self._scoring(labelled, watch)
        with failures_named(kind, "decode"):
            found = list(self.task.decode(examples, encoded, scores))
        require_one_each(kind, found, len(examples))
        self.notes += notes
        self.num_sequences += len(labelled.items)
        self.num_cut += sum(item.num_unread > 0 for item in labelled.items)
        return [OwnAnswer(value=value) for value in found]

    def _require_readable(self, labelled: LabelledItems) -> None:
        limit = self.abilities.model.config.max_position_embeddings
        longest = max(len(item.token_ids) for item in labelled.items)
        if longest > limit:
            raise ValueError(
                f"{type(self.task).__name__}.encode made a sequence of {longest} tokens, and "
                f"{self.abilities.name} reads at most {limit}"
            )
        if any(item.segment_ids.any() for item in labelled.items):
            self.abilities.require_pairs()
