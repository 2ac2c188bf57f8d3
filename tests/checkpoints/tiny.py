"""A tiny model with a vocabulary of words, for the tests."""

from __future__ import annotations

from dataclasses import replace

from bertsmith.model.config import BertConfig, Direction, Objective, sized
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.text.tokenizer import Tokenizer

WORDS = "the a capital of france is paris london dog cat was hairy my he likes play ##ing ##s . ?"
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split())
CONFIG = replace(sized(2, 32, 4), vocab_size=len(VOCABULARY), max_position_embeddings=24)


def tiny_config(**changes: object) -> BertConfig:
    return replace(CONFIG, **changes)


def tiny_tokenizer() -> Tokenizer:
    return Tokenizer(VOCABULARY)


def tiny_model(
    *objectives: Objective,
    direction: Direction = "bidirectional",
    seed: int = 3,
    type_vocab_size: int = 2,
) -> PretrainModel:
    """Weights large enough (deviation 0.3) that wrong wiring shows in the fourth digit."""
    chosen = objectives or ("masked_lm", "next_sentence")
    config = tiny_config(direction=direction, type_vocab_size=type_vocab_size)
    model = PretrainModel(config, chosen)
    initialise(model, std=0.3, seed=seed)
    return model.eval()
