"""Tiny models that answer, and texts of their vocabulary to ask them about."""

from __future__ import annotations

from pathlib import Path

from bertsmith.checkpoints.store import Loaded
from bertsmith.inference import Predictor
from bertsmith.model.config import Direction, Objective
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.pooling import Dense
from bertsmith.model.sentence import SentenceConfig
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer

SENTENCES = ["the dog likes my cat .", "a", "paris is the capital of france ?", "", "the dog"]


def predictor_of(
    *objectives: Objective,
    direction: Direction = "bidirectional",
    tokens_per_batch: int = 4096,
    sentence: SentenceConfig | None = None,
    dense: Dense | None = None,
    model: PretrainModel | None = None,
) -> Predictor:
    model = model or tiny_model(*objectives, direction=direction)
    loaded = Loaded(
        model=model,
        config=model.config,
        tokenizer=tiny_tokenizer(),
        directory=Path("tiny"),
        sentence=sentence,
        dense=dense,
        notes=(),
    )
    return Predictor(loaded, tokens_per_batch=tokens_per_batch)


def bare_encoder() -> PretrainModel:
    model = PretrainModel(CONFIG, ())
    initialise(model, std=0.3, seed=3)
    return model.eval()
