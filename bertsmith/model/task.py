"""What a task head reads and what its scores mean, as a frozen value.

It knows neither weights nor the files that say so.

Source: Devlin et al. 2018, section 4; the kinds are named as the classes of `transformers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TaskKind = Literal[
    "sequence_classification", "token_classification", "multiple_choice", "question_answering"
]
"""Regression is a sequence classification with one label, as in `transformers`."""
ProblemType = Literal["regression", "single_label_classification", "multi_label_classification"]

OnTop = Literal["nothing", "bilstm"]
LSTM_SIZE, LSTM_LAYERS = 768, 2
"""Of the paper's BiLSTM: states of each direction, and layers (section 5.3)."""

_FIXED_NUMBERS: dict[TaskKind, int] = {"multiple_choice": 1, "question_answering": 2}


@dataclass(frozen=True, kw_only=True)
class TaskHeadConfig:
    """One linear layer on a vector of each sequence, or on every token."""

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
        return not self.reads_tokens and self.on_top == "nothing"


def unnamed_labels(num_labels: int) -> tuple[str, ...]:
    """LABEL_0, LABEL_1, ...: what `transformers` calls labels that nobody has named."""
    return tuple(f"LABEL_{number}" for number in range(num_labels))
