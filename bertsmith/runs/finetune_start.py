"""A model and a task's examples -> what every run of both begins with, read once for all of them.

The model's files are read, the texts encoded and both hashed a single time, however many runs
follow: a search's restarts differ in none of it. It trains nothing.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Generic

from bertsmith.checkpoints.fingerprint import weights_fingerprint
from bertsmith.checkpoints.store import Loaded
from bertsmith.runs.learning_set import (
    AnswerT,
    EncodedT,
    ExampleT,
    LearningSet,
    ReadExamples,
    fingerprint,
    read_examples,
)
from bertsmith.runs.trial import require_learnable, try_out


@dataclass(frozen=True, kw_only=True)
class Start(Generic[ExampleT, EncodedT, AnswerT]):
    """A model in memory, and examples as it reads them."""

    loaded: Loaded
    """As it was read: what trains is a copy."""
    train: ReadExamples[ExampleT, EncodedT, AnswerT]
    dev: ReadExamples[ExampleT, EncodedT, AnswerT]
    model_fingerprint: str
    """SHA-256 of the weights as they were loaded."""
    examples_fingerprint: str
    """SHA-256 of all that is learned and measured."""
    train_fingerprint: str
    """SHA-256 of what is learned alone."""

    def copied(self) -> Loaded:
        """The model to be trained, with weights of its own."""
        return replace(self.loaded, model=copy.deepcopy(self.loaded.model))


def start_of(
    loaded: Loaded, learning: LearningSet[ExampleT, EncodedT, AnswerT]
) -> Start[ExampleT, EncodedT, AnswerT]:
    """Encodes the examples with the model's tokenizer.

    Raises as `read_examples`, `require_learnable` and `try_out` do.
    """
    skips = learning.skip_malformed
    train = read_examples(learning.task, learning.train, loaded, "training", skip_malformed=skips)
    dev = read_examples(learning.task, learning.dev, loaded, "Dev", skip_malformed=skips)
    for each in (train, dev):
        require_learnable(each, loaded.config.vocab_size)
    try_out(dev)
    return Start(
        loaded=loaded,
        train=train,
        dev=dev,
        model_fingerprint=weights_fingerprint(loaded),
        examples_fingerprint=fingerprint(train.labelled, dev.labelled),
        train_fingerprint=fingerprint(train.labelled),
    )
