"""Layers with dropout, and batches for them, as tests of several at once ask for."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from bertsmith.model.config import sized
from bertsmith.model.init import initialise
from bertsmith.model.layer import Layer
from bertsmith.model.layer_rules import LearningLayer
from bertsmith.model.stream import Stream
from tests.model.plain import random_packed


def layers_of(width: int, count: int = 3) -> nn.ModuleList:
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config = replace(sized(count, width, width // 64 or 1), **rates)
    layers = nn.ModuleList(Layer(config, number) for number in range(count))
    initialise(layers, std=0.05, seed=3)
    return layers


def learning_of(layers: nn.ModuleList) -> list[LearningLayer]:
    return [whole for each in layers if isinstance(each, Layer) and (whole := each.learning())]


def stream_of(lengths: list[int], step: int = 0, device: str = "cpu") -> Stream:
    return Stream.of(random_packed(lengths, 60), device=device, dropout=(5, step))
