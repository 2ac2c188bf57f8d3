"""A model and words of one's own -> what a run begins with that goes on from the model.

Its vocabulary, grown by the words; its sizes; its weights, a row for every new entry among them;
its heads of pre-training where it has them. The weights are read again from the model when the
first step is to be taken, and known by their fingerprint: so a run that was killed before its first
checkpoint begins again with the same bits. It trains nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.checkpoints import store
from bertsmith.checkpoints.fingerprint import weights_fingerprint
from bertsmith.checkpoints.store import Loaded
from bertsmith.model.config import DIRECTION_OF, BertConfig
from bertsmith.model.new_rows import with_new_rows
from bertsmith.model.objectives import PretrainModel
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.ancestry import ancestry
from bertsmith.runs.directory import Record
from bertsmith.text.new_words import NewWords, pieces_of_new_rows, read_words, with_words
from bertsmith.text.tokenizer import Tokenizer

_PARTS = {
    "masked_lm.": "language-model head",
    "next_sentence.": "next-sentence head",
    "bert.pooler.": "pooler",
}


@dataclass(frozen=True, kw_only=True)
class PretrainStart:
    """What is known of a run before its corpus is made."""

    loaded: Loaded
    """The model as it was read."""
    words: NewWords | None
    """What was added to its vocabulary."""
    place: str
    """Where it lies: a directory, or the prefix of a TensorFlow checkpoint."""
    fingerprint: str
    """SHA-256 of the weights as they were loaded."""
    ancestry: tuple[str, ...]
    """The runs that the model came out of, the newest first."""

    @property
    def tokenizer(self) -> Tokenizer:
        """That of the run."""
        return self.loaded.tokenizer if self.words is None else self.words.tokenizer

    @property
    def config(self) -> BertConfig:
        """That of the run: the model's, with a row at least for every entry."""
        rows = max(self.loaded.config.vocab_size, self.tokenizer.vocab_size)
        return replace(self.loaded.config, vocab_size=rows)

    def notes(self, run: PretrainRun) -> list[str]:
        """What is drawn, left aside or respelt, a sentence each; `run` says what it trains."""
        with torch.device("meta"):
            trained = set(PretrainModel(self.config, run.objectives).state_dict())
        held = set(self.loaded.model.state_dict())
        new, unread = _parts_in(trained - held), _parts_in(held - trained)
        told = [f"a new {part}, drawn by seed {run.seed}: the model holds none" for part in new]
        if unread:
            told.append(f"not part of the run's model: {', '.join(unread)}")
        if self.loaded.head is not None:
            told.append("the head that fine-tuning gave the model is left aside")
        of_words = () if self.words is None else (self.words.told(), *self.words.notes)
        return [*self.loaded.notes, *told, *of_words]


def read_pretrain_start(place: Path, words: Path | None) -> PretrainStart:
    """Loads the model that lies there and adds the words of the file to its vocabulary.

    Raises as `store.load`, `read_words` and `with_words` do.
    """
    loaded = store.load(place)
    return PretrainStart(
        loaded=loaded,
        words=None
        if words is None
        else with_words(loaded.tokenizer, read_words(words), str(words)),
        place=str(place),
        fingerprint=weights_fingerprint(loaded),
        ancestry=ancestry(place),
    )


def first_weights(record: Record, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """The weights that a run begins with which goes on from a model; `tokenizer` is the run's.

    Raises FileNotFoundError where the model is no longer there, ValueError where it is another.
    """
    loaded = store.load(Path(record.model))
    if weights_fingerprint(loaded) != record.model_fingerprint:
        raise ValueError(
            f"the weights of {record.model} are others than those the run began with: put them "
            f"back, or start a new run in another directory (--out)"
        )
    return with_new_rows(loaded.model.state_dict(), pieces_of_new_rows(loaded.tokenizer, tokenizer))


def require_trainable(config: BertConfig, run: PretrainRun, model: str) -> None:
    """Raises ValueError for a model that the run's objectives and phases do not fit."""
    if config.direction == "two_way":
        raise ValueError(
            f"{model} is two models joined, each trained on its own side: go on from one of them, "
            f"and join again (bertsmith join)"
        )
    if config.layer_kind == "lstm":
        raise ValueError(f"{model} is a language model of LSTM layers; --from goes on from a BERT")
    for objective in run.objectives:
        needed = DIRECTION_OF.get(objective, config.direction)
        if needed != config.direction:
            own = [name for name, reads in DIRECTION_OF.items() if reads == config.direction]
            raise ValueError(
                f"{model} reads {config.direction.replace('_', ' ')}, and the objective "
                f"{objective} needs a model that is {needed.replace('_', ' ')}: choose "
                f"--objectives {' '.join(own)}"
            )
    longest = max(phase.sequence_length for phase in run.phases)
    positions = config.max_position_embeddings
    if longest > positions:
        shorter = replace(run.phases[0], sequence_length=positions)
        raise ValueError(
            f"{model} has {positions} positions, and a phase has sequences of {longest} tokens: "
            f"choose shorter ones, as with --phases {shorter}"
        )


def _parts_in(names: set[str]) -> list[str]:
    """The heads and the pooler that these parameters are of."""
    return [part for prefix, part in _PARTS.items() if any(n.startswith(prefix) for n in names)]
