"""What a task head reads and what its scores mean, as a frozen value.

It knows neither weights nor the files that say so.

Source: Devlin et al. 2018, section 4; the kinds are named as the classes of `transformers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertsmith.model.layer_choice import LayerChoice

TaskKind = Literal[
    "sequence_classification", "token_classification", "multiple_choice", "question_answering"
]
"""Regression is a sequence classification with one label, as in `transformers`."""
ProblemType = Literal["regression", "single_label_classification", "multi_label_classification"]

OnTop = Literal["nothing", "bilstm"]
LSTM_SIZE, LSTM_LAYERS = 768, 2
"""Of the paper's BiLSTM: states of each direction, and layers (section 5.3)."""

HeadPooling = Literal["pooler", "cls", "mean"]
"""What stands for a sequence: the pooler's vector, `[CLS]` as the layers give it, or the mean."""
Reads = Literal["tokens", "pooled", "mean"]
"""Hidden states that a head needs: of all tokens, of the one that is pooled, or their mean."""

_FIXED_NUMBERS: dict[TaskKind, int] = {"multiple_choice": 1, "question_answering": 2}


@dataclass(frozen=True, kw_only=True)
class TaskHeadConfig:
    """One linear layer on a vector of each sequence, or on every token.

    The fields from `layers` on are at their defaults in what other libraries have classes for.
    """

    kind: TaskKind
    """`multiple_choice` has one score a sequence, `question_answering` a start and an end score a
    token."""
    labels: tuple[str, ...]
    """The names of the scores, in their order."""
    problem_type: ProblemType | None = None
    """What the scores of a sequence mean, where it is said."""
    dropout: float = 0.1
    """On what the head reads, in training (google-research/bert: 0.1 in run_classifier.py, none in
    run_squad.py)."""

    layers: str = "last"
    """Which hidden states it reads and how they are joined, as `LayerChoice` names it (paper, Table
    7); the weights of a weighted sum are learned."""
    pooling: HeadPooling = "pooler"
    """What of a sequence is scored (paper, section 4.1: the pooler's vector)."""
    on_top: OnTop = "nothing"
    """What stands between the encoder and the layer (paper, Table 5: a BiLSTM, drawn at random)."""
    lstm_size: int = LSTM_SIZE
    """States of each direction of the BiLSTM (paper, section 5.3: 768)."""
    lstm_layers: int = LSTM_LAYERS
    """Its layers (paper, section 5.3: two)."""

    def __post_init__(self) -> None:
        """Refuses a number of labels that the kind cannot have, and an impossible size."""
        expected = _FIXED_NUMBERS.get(self.kind, max(1, self.num_labels))
        if self.num_labels != expected:
            raise ValueError(f"{self.kind} has {expected} scores, found {self.num_labels} labels")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout before the head must be in [0, 1), found {self.dropout}")
        if self.lstm_size < 1 or self.lstm_layers < 1:
            raise ValueError(
                f"lstm_size and lstm_layers must be at least 1, found {self.lstm_size} and "
                f"{self.lstm_layers}"
            )
        LayerChoice(name=self.layers)
        if self.pooling != "pooler" and (self.reads_tokens or self.on_top != "nothing"):
            read = "tokens" if self.reads_tokens else "the ends of a BiLSTM"
            raise ValueError(
                f"pooling is {self.pooling}, and this head for {self.kind.replace('_', ' ')} reads "
                f"{read}: leave it out"
            )
        if self.needs_pooler and self.layers != "last":
            raise ValueError(
                f"layers is {self.layers}, and the pooler reads the last layer alone: choose the "
                f"pooling cls or mean"
            )

    @property
    def num_labels(self) -> int:
        """How many scores."""
        return len(self.labels)

    @property
    def reads_tokens(self) -> bool:
        """Whether every token is scored, and not the pooled vector of each sequence."""
        return self.kind in ("token_classification", "question_answering")

    @property
    def needs_pooler(self) -> bool:
        """Whether it reads what the encoder's pooler makes of a sequence."""
        is_of_sequence = not self.reads_tokens and self.on_top == "nothing"
        return is_of_sequence and self.pooling == "pooler"

    @property
    def reads(self) -> Reads:
        """Which hidden states it needs."""
        if self.reads_tokens or self.on_top != "nothing":
            return "tokens"
        return "mean" if self.pooling == "mean" else "pooled"

    @property
    def additions(self) -> tuple[str, ...]:
        """What stands under its linear layer that no other library has a class for, in words."""
        told = []
        if self.on_top == "bilstm":
            told.append("a BiLSTM on top")
        if self.layers != "last":
            told.append(f"a head on the layers {self.layers}")
        if self.pooling != "pooler":
            pooled = "first token" if self.pooling == "cls" else "mean of all tokens"
            told.append(f"a head on the {pooled} without the pooler")
        return tuple(told)


def unnamed_labels(num_labels: int) -> tuple[str, ...]:
    """LABEL_0, LABEL_1, ...: what `transformers` calls labels that nobody has named."""
    return tuple(f"LABEL_{number}" for number in range(num_labels))
