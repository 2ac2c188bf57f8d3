"""What a fine-tuning run is: everything that decides the weights beside the model and the examples.

A recipe builds one, a variant is `dataclasses.replace(...)`, the command line is made from the same
fields, and `run.json` in the run's directory is the same value again. Nothing here does anything.

Source: Devlin et al. 2018, sections 4 and 5.3 and appendix A.3; google-research/bert, README.md.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from bertsmith.model.layer_choice import LayerChoice
from bertsmith.model.task import LSTM_LAYERS, LSTM_SIZE, HeadPooling, OnTop
from bertsmith.train.config import OptimizerConfig, PrecisionChoice

Approach = Literal["fine_tuning", "feature_based"]

_OF_THE_PAPER = (LSTM_SIZE, LSTM_LAYERS)


def _paper_optimizer() -> OptimizerConfig:
    return OptimizerConfig(learning_rate=5e-5)


@dataclass(frozen=True, kw_only=True)
class FinetuneRun:
    """A fine-tuning run. Weights are a function of it, the model, the examples and the machine."""

    name: str = "glue"
    """What the run is called."""
    epochs: float = 3.0
    """Times the training examples are read (paper: 2, 3 or 4)."""
    batch_size: int = 32
    """Examples a step, of a text cut into windows its windows (paper: 16 or 32)."""
    optimizer: OptimizerConfig = field(default_factory=_paper_optimizer)
    """The optimizer and its peak learning rate (paper: 5e-5, 4e-5, 3e-5 or 2e-5)."""
    warmup_share: float = 0.1
    """Share of the steps with a rising rate, before it falls to 0 (google-research/bert: 0.1)."""
    dropout: bool = True
    """Whether dropout is on in training, of the encoder as of the head (paper: on)."""
    seed: int = 0
    """Keys shuffling, dropout and what is drawn anew: the head."""
    keep_head: bool = False
    """Begin with the head that the model has, of the same labels: train on, with more examples."""
    frozen_layers: int = 0
    """First layers that stay as they are, and the embeddings with them; 0: all is trained."""
    approach: Approach = "fine_tuning"
    """What is trained: all weights, or the head alone on kept hidden states (paper, 5.3: both)."""
    layers: str = "last"
    """Of feature_based, which hidden states: embeddings, second-to-last, last, concat-last-four,
    weighted-sum-last-four, weighted-sum-all, weighted-sum-with-embeddings (weights learned), or
    numbers: 0,11,12."""
    pooling: HeadPooling = "pooler"
    """Of feature_based, what of a text is read: the pooler's vector, the first token or the mean
    of all."""
    on_top: OnTop = "nothing"
    """What is drawn between the encoder and the head (paper, Table 5: also a BiLSTM)."""
    lstm_size: int = LSTM_SIZE
    """States of each direction of the BiLSTM (paper: 768)."""
    lstm_layers: int = LSTM_LAYERS
    """Layers of the BiLSTM (paper: 2)."""
    precision: PrecisionChoice = "auto"
    """Arithmetic of the matrices; auto: bf16 where that is faster, else fp16 or fp32."""
    accumulation: int = 1
    """Micro-batches a step; changes memory, not the result."""
    evaluate_every: float = 1.0
    """Epochs between two evaluations on the Dev examples."""
    save_every: float = 1.0
    """Epochs between two checkpoints to go on from; the best model on Dev, kept, makes one too."""
    keep_best: bool = True
    """Whether the model with the best Dev score is the result, and not the last one."""
    patience: int = 0
    """Stop after so many evaluations without a better score; 0: never before the end."""
    log_every: int = 50
    """Steps between two printed lines where the output is not a terminal."""

    def __post_init__(self) -> None:
        """Refuses contradictions between fields, before any text is read."""
        for name, count, least in (
            ("batch_size", self.batch_size, 1),
            ("accumulation", self.accumulation, 1),
            ("log_every", self.log_every, 1),
            ("frozen_layers", self.frozen_layers, 0),
            ("patience", self.patience, 0),
            ("lstm_size", self.lstm_size, 1),
            ("lstm_layers", self.lstm_layers, 1),
        ):
            if count < least:
                raise ValueError(f"{name} must be at least {least}, found {count}")
        for name, epochs in (
            ("epochs", self.epochs),
            ("evaluate_every", self.evaluate_every),
            ("save_every", self.save_every),
        ):
            if not 0.0 < epochs < float("inf"):
                raise ValueError(f"{name} must be a number above 0, found {epochs}")
        if not 0.0 <= self.warmup_share < 1.0:
            raise ValueError(f"warmup_share must be in [0, 1), found {self.warmup_share}")
        if self.accumulation > self.batch_size:
            raise ValueError(
                f"a step of {self.batch_size} examples cannot be cut into {self.accumulation} "
                f"micro-batches: lower accumulation or raise batch_size"
            )
        if self.patience and not self.keep_best:
            raise ValueError(
                "patience waits for a better score, and without keep_best the better model would "
                "be lost: leave one of them out"
            )
        self._refuse_what_is_passed_over()

    def _refuse_what_is_passed_over(self) -> None:
        """Fields that say something to another choice only."""
        LayerChoice(name=self.layers)
        is_usual = (self.layers, self.pooling) == ("last", "pooler")
        if self.approach == "fine_tuning" and not is_usual:
            raise ValueError(
                f"layers {self.layers} and pooling {self.pooling} are of frozen features, and all "
                f"weights are trained here: take --approach feature_based, or leave them out"
            )
        if self.approach == "feature_based" and self.frozen_layers:
            raise ValueError("feature_based trains no layer at all: leave frozen_layers out")
        if self.on_top == "nothing" and (self.lstm_size, self.lstm_layers) != _OF_THE_PAPER:
            raise ValueError(
                "lstm_size and lstm_layers are of the BiLSTM on top, and on_top is nothing: take "
                "it with --on-top bilstm, or leave them out"
            )


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Values that are tried, each with each; the best on Dev is taken.

    By default what works well across all tasks (appendix A.3).
    """

    batch_sizes: tuple[int, ...] = (16, 32)
    """Examples a step."""
    learning_rates: tuple[float, ...] = (5e-5, 3e-5, 2e-5)
    """Peak learning rates."""
    epochs: tuple[float, ...] = (2.0, 3.0, 4.0)
    """Times the training examples are read."""

    def __post_init__(self) -> None:
        """Refuses an empty list, and a value that stands there twice."""
        for name, values in dataclasses.asdict(self).items():
            if not values:
                raise ValueError(f"{name} of a grid needs at least one value, found none")
            if twice := [value for value in values if values.count(value) > 1]:
                raise ValueError(f"{name} of a grid holds {twice[0]:g} twice: name it once")

    def runs(self, run: FinetuneRun) -> list[FinetuneRun]:
        """Variants of a run, one for each point of the grid."""
        points = itertools.product(self.batch_sizes, self.learning_rates, self.epochs)
        return [
            replace(
                run,
                batch_size=size,
                optimizer=replace(run.optimizer, learning_rate=rate),
                epochs=epochs,
            )
            for size, rate, epochs in points
        ]


def restarts(run: FinetuneRun, count: int) -> list[FinetuneRun]:
    """The run and its random restarts: the same model, shuffled and headed by the next seeds.

    Source: Devlin et al. 2018, section 4.1.
    """
    return [replace(run, seed=run.seed + number) for number in range(count)]


PAPER_GRID = Grid()
"""What works well across all tasks (appendix A.3)."""
GLUE_GRID = Grid(batch_sizes=(32,), learning_rates=(5e-5, 4e-5, 3e-5, 2e-5), epochs=(3.0,))
"""What was tried for each task of GLUE (section 4.1)."""


def glue() -> FinetuneRun:
    """Classification and regression: batch 32, 3 epochs; the rate is the first of `GLUE_GRID`.

    Source: section 4.1.
    Command: `bertsmith finetune MODEL --glue GLUE --task MRPC`
    tiny: 0.5 to 8 s a run of 1,000 examples, one of 147 took 113; planned 0.7 GiB; MNLI 32.5, SST-2
        52.7, guessing.
    mini: 1.4 to 4 min a run of BASE; planned 0.8 GiB; MNLI 47.4, SST-2 79.5.
    paper: planned 8 min (CoLA) to 22 h (MNLI) a run of BASE on two cores; planned 3.0 GiB; not
        measured (the paper's BASE: MNLI 84.6, SST-2 93.5 of the tests).
    """
    return FinetuneRun(name="glue")


def squad() -> FinetuneRun:
    """SQuAD 1.1: 3 epochs, rate 5e-5, batch 32.

    Source: section 4.2.
    Command: `bertsmith finetune MODEL --squad train-v1.1.json --dev dev-v1.1.json`
    tiny: 16 to 45 s a run of 1,000 questions; planned 1.1 GiB; F1 8.0.
    mini: 36 min a run on one thread, beside other work; planned 1.3 GiB; F1 11.0.
    paper: planned 23 h a run of BASE on two cores; planned 3.4 GiB; not measured (the paper's BASE:
        F1 88.5).
    """
    return FinetuneRun(name="squad")


def squad2() -> FinetuneRun:
    """SQuAD 2.0: 2 epochs, rate 5e-5, batch 48.

    Source: section 4.3.
    Command: `bertsmith finetune MODEL --squad train-v2.0.json --dev dev-v2.0.json --recipe squad2`
    tiny: not measured; not measured; not measured (its training set is not at hand).
    mini: not measured; not measured; not measured (its training set is not at hand).
    paper: planned 81 h a run of LARGE on two cores; planned 8.5 GiB; not measured (the paper's
        LARGE: F1 81.9).
    """
    return FinetuneRun(name="squad2", epochs=2.0, batch_size=48)


def swag() -> FinetuneRun:
    """SWAG: 3 epochs, rate 2e-5, batch 16.

    Source: section 4.4.
    Command: `bertsmith finetune MODEL --choices train.csv --dev val.csv`
    tiny: not measured; not measured; not measured (the set is not at hand).
    mini: not measured; not measured; not measured (the set is not at hand).
    paper: planned 14 h a run of BASE on two cores; planned 3.2 GiB; not measured (the paper's BASE:
        81.6).
    """
    return FinetuneRun(name="swag", batch_size=16, optimizer=OptimizerConfig(learning_rate=2e-5))


def ner() -> FinetuneRun:
    """Tagging. The paper only says that the values were chosen on Dev: these are of its grid.

    Source: section 5.3, Table 7.
    Command: `bertsmith finetune MODEL --tagged TRAIN --dev DEV`
    tiny: 1 to 4 s a run of 1,000 sentences; planned 0.6 GiB; F1 10.9.
    mini: 4 min a run on one thread; planned 0.7 GiB; F1 74.9.
    paper: planned 32 min a run of BASE on two cores; planned 3.2 GiB; not measured (the paper's
        BASE: F1 96.4).
    """
    return FinetuneRun(name="ner", batch_size=16)


def ner_features(layers: str) -> FinetuneRun:
    """A row of Table 7: a BiLSTM on frozen hidden states, under the head.

    The paper names neither rate nor epochs. A BiLSTM that is drawn wants a rate 20 times that of
    fine-tuning, and epochs that read kept states are cheap.

    Source: section 5.3, Table 7.
    Command: `bertsmith finetune MODEL --tagged TRAIN --dev DEV --recipe ner-features-last`
    tiny: 2 to 24 s a run of 1,000 sentences; planned 0.6 GiB; F1 0.0 of all choices of BASE's.
    mini: 3 min a run on one thread; planned 0.7 GiB; F1 76.2 of the weighted sum of all layers, the
        embeddings among them.
    paper: planned 2.4 h a run of BASE on two cores; planned 3.0 GiB; not measured (the paper's
        BASE: F1 91.0 to 96.1).
    """
    return FinetuneRun(
        name=f"ner-features-{layers}",
        approach="feature_based",
        layers=layers,
        on_top="bilstm",
        batch_size=16,
        epochs=10.0,
        optimizer=OptimizerConfig(learning_rate=1e-3),
    )


def probe() -> FinetuneRun:
    """Logistic regression on the mean of the last hidden states: what an encoder shows as it is.

    Not of the paper. Without dropout and decay, so that it is what its name says.

    Source: ours.
    Command: `bertsmith finetune MODEL --texts FILE --recipe probe`
    Expected: not measured; not measured; not measured.
    """
    return FinetuneRun(
        name="probe",
        approach="feature_based",
        pooling="mean",
        dropout=False,
        epochs=10.0,
        optimizer=OptimizerConfig(learning_rate=1e-2, weight_decay=0.0),
    )


TABLE_7 = (
    "embeddings",
    "second-to-last",
    "last",
    "weighted-sum-last-four",
    "concat-last-four",
    "weighted-sum-all",
)
"""What the paper reads of a frozen encoder, in its order."""

RECIPES: dict[str, Callable[[], FinetuneRun]] = {
    "glue": glue,
    "squad": squad,
    "squad2": squad2,
    "swag": swag,
    "ner": ner,
    **{f"ner-features-{layers}": partial(ner_features, layers) for layers in TABLE_7},
    "probe": probe,
}
FEATURE_GRID = Grid(batch_sizes=(16,), learning_rates=(1e-3, 5e-4), epochs=(10.0,))
"""Ours: the paper does not say what it tried."""
GRIDS = {
    "glue": GLUE_GRID,
    "squad": Grid(batch_sizes=(32,), learning_rates=(5e-5,), epochs=(3.0,)),
    "squad2": Grid(batch_sizes=(48,), learning_rates=(5e-5,), epochs=(2.0,)),
    "swag": Grid(batch_sizes=(16,), learning_rates=(2e-5,), epochs=(3.0,)),
    "ner": PAPER_GRID,
    **{f"ner-features-{layers}": FEATURE_GRID for layers in TABLE_7},
    "probe": Grid(batch_sizes=(32,), learning_rates=(1e-2, 1e-3), epochs=(10.0,)),
}
"""What is tried, by the recipe's name: what the paper did where it says so."""


def to_json(run: FinetuneRun) -> dict[str, object]:
    """The run as JSON values."""
    return dataclasses.asdict(run)


def from_json(value: Mapping[str, Any]) -> FinetuneRun:
    """The run that `to_json` wrote. Raises TypeError for fields that this version has not."""
    return FinetuneRun(**{**value, "optimizer": OptimizerConfig(**value["optimizer"])})
