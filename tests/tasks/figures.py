"""A model whose vocabulary makes the paper's own tokens of the paper's own sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bertsmith.checkpoints.store import Loaded
from bertsmith.inference import Predictor
from bertsmith.model.config import Direction, LayerKind, Objective
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.text.tokenizer import Tokenizer
from tests.checkpoints.tiny import CONFIG

PAIR = ("my dog is cute", "he likes playing")
TOKENS = ("[CLS]", "my", "dog", "is", "cute", "[SEP]", "he", "likes", "play", "##ing", "[SEP]")
SEGMENTS = [0] * 6 + [1] * 5
WORDS = "my dog is cute he likes play ##ing 피 ##곤 ##해 보이 ##네 어제 늦 ##게 잤 ##니 . ?"
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split())
KOREAN = "피곤해 보이네. 어제 늦게 잤니?"
LANGUAGE_MODEL: dict[Direction, Objective] = {
    "bidirectional": "masked_lm",
    "left_to_right": "left_to_right_lm",
    "right_to_left": "right_to_left_lm",
}


def figure_tokenizer() -> Tokenizer:
    return Tokenizer(VOCABULARY, replace(Tokenizer(VOCABULARY).config, strip_accents=False))


def figure_model(
    *objectives: Objective,
    direction: Direction = "bidirectional",
    layer_kind: LayerKind = "transformer",
) -> PretrainModel:
    config = replace(CONFIG, vocab_size=len(VOCABULARY), direction=direction, layer_kind=layer_kind)
    model = PretrainModel(config, objectives)
    initialise(model, std=0.3, seed=3)
    return model.eval()


def figure_predictor(
    *objectives: Objective,
    direction: Direction = "bidirectional",
    layer_kind: LayerKind = "transformer",
) -> Predictor:
    model = figure_model(*objectives, direction=direction, layer_kind=layer_kind)
    loaded = Loaded(
        model=model,
        config=model.config,
        tokenizer=figure_tokenizer(),
        directory=Path("figures"),
        notes=(),
    )
    return Predictor(loaded)
