"""A model -> what it can be asked, or one error that says why not."""

from __future__ import annotations

from dataclasses import dataclass

from bertsmith.model.config import Objective
from bertsmith.model.objectives import PretrainModel
from bertsmith.tasks.given import require_token
from bertsmith.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """What one model was made for."""

    name: str
    """The model's, for errors."""
    model: PretrainModel
    """Its heads and its segments count."""
    tokenizer: Tokenizer
    """Its own."""

    def require(self, *objectives: Objective) -> None:
        """Raises ValueError when the model was pre-trained for none of these objectives."""
        has = " and ".join(self.model.objectives)
        if not set(objectives) & set(self.model.objectives):
            only = f"was pre-trained for {has} only" if has else "holds no pre-training head"
            needed = " or ".join(objectives)
            raise ValueError(f"{self.name} {only}; this needs a model pre-trained for {needed}")

    def require_pairs(self) -> None:
        """Raises ValueError when the model has no segment for the second text of a pair."""
        if self.model.config.type_vocab_size < 2:
            raise ValueError(
                f"{self.name} reads no pairs: it has one segment (type_vocab_size 1), and the "
                f"second text needs another; ask of one text at a time"
            )

    def require_tokens(self, *texts: str) -> None:
        """Raises ValueError for a text of which the model would see nothing."""
        _, counts = self.tokenizer.ids(texts)
        for text, num_tokens in zip(texts, counts.tolist(), strict=True):
            require_token(text, num_tokens)
