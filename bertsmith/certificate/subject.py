"""A model's name or path -> everything its checks look at, each part made once.

The model as `load` gives it, the tensors and files as they lie on disk, and what is computed on two
fixed batches: short sequences of mixed lengths, and one of every position there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bertsmith.batch import PackedBatch
from bertsmith.certificate.computed import Outputs, in_float64, original_outputs, outputs_of
from bertsmith.certificate.golden.modeling import Architecture
from bertsmith.checkpoints.places import find_model
from bertsmith.checkpoints.sentence_transformers import dense_directory, encoder_directory
from bertsmith.checkpoints.store import Loaded, load, tokenizer_directory
from bertsmith.checkpoints.weights import Weights, module_tensors, read_weights
from bertsmith.model.config import Direction
from bertsmith.model.objectives import PretrainModel
from bertsmith.randomness import integers
from bertsmith.text.tokenizer import Tokenizer

_SHORT_LENGTHS = (61, 17, 5, 17, 33, 3)
_SEED = 7


def spelt(direction: Direction) -> str:
    """The direction as a text has it."""
    return direction.replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The model under test."""

    loaded: Loaded
    weights: Weights
    """Its tensors as they lie on disk."""
    tokenizer_directory: Path
    """Where its tokenizer files lie."""

    @staticmethod
    def read(name_or_path: str | Path) -> Subject:
        """Reads the model and, apart from that, its files; raises as `checkpoints.store.load`."""
        place = find_model(name_or_path)
        loaded = load(place, dtype=torch.float32)
        if (kind := loaded.config.told_kind) != "BERT":
            raise ValueError(
                f"a certificate says whether a model computes what BERT is defined to compute, and "
                f"{loaded.directory} is none: it is of the kind {kind}"
            )
        home = encoder_directory(loaded.directory)
        return Subject(
            loaded=loaded,
            weights=read_weights(home if place.is_dir() else place),
            tokenizer_directory=tokenizer_directory(loaded.directory),
        )

    @property
    def model(self) -> PretrainModel:
        """The model as it was loaded, in float32."""
        return self.loaded.model

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer as it was loaded."""
        return self.loaded.tokenizer

    @property
    def kind(self) -> str:
        """What it is in words: a model, or one of a single direction."""
        direction = self.loaded.config.direction
        return "model" if direction == "bidirectional" else f"{spelt(direction)} model"

    @property
    def architecture(self) -> Architecture:
        """The config's numbers, for the restated original."""
        config = self.loaded.config
        return Architecture(
            num_layers=config.num_hidden_layers,
            num_heads=config.num_attention_heads,
            activation=config.hidden_act,
            epsilon=config.layer_norm_eps,
            direction=config.direction,
        )

    @cached_property
    def dense(self) -> dict[str, Tensor]:
        """The tensors of the sentence vectors' dense layer as they lie on disk, if there is one."""
        folder = dense_directory(self.loaded.directory)
        return {} if folder is None else module_tensors(folder)

    @cached_property
    def short(self) -> PackedBatch:
        """Sequences of mixed lengths."""
        return self._batch(_SHORT_LENGTHS)

    @cached_property
    def long(self) -> PackedBatch:
        """One sequence of every position."""
        return self._batch((self.loaded.config.max_position_embeddings,))

    @cached_property
    def of_short(self) -> Outputs:
        """What the model computes on `short`, in float64."""
        with in_float64(self.model):
            return outputs_of(self.model, self.short)

    @cached_property
    def of_long(self) -> Outputs:
        """What the model computes on `long`, in float64."""
        with in_float64(self.model):
            return outputs_of(self.model, self.long)

    @cached_property
    def original_of_short(self) -> Outputs:
        """What the restated original computes on `short`."""
        return original_outputs(self.weights.tensors, self.short, self.architecture)

    @cached_property
    def original_of_long(self) -> Outputs:
        """What the restated original computes on `long`."""
        return original_outputs(self.weights.tensors, self.long, self.architecture)

    def _batch(self, lengths: tuple[int, ...]) -> PackedBatch:
        """Any tokens of the vocabulary, `[CLS]` first; the second half of each sequence is B."""
        config = self.loaded.config
        fitting = np.minimum(lengths, config.max_position_embeddings).astype(np.int32)
        starts, total = np.cumsum(fitting) - fitting, int(fitting.sum())
        tokens = integers(config.vocab_size, _SEED, len(lengths), np.arange(total))
        tokens[starts] = self.tokenizer.cls_id
        positions = np.arange(total) - np.repeat(starts, fitting)
        is_second = positions >= np.repeat((fitting + 1) // 2, fitting)
        return PackedBatch(
            token_ids=tokens.astype(np.int32),
            segment_ids=(is_second & (config.type_vocab_size > 1)).astype(np.int32),
            lengths=fitting,
            keys=np.arange(len(lengths)),
        )
