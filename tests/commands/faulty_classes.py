"""Task classes of a person's own that each do one thing wrong, beside the one that is right."""

from __future__ import annotations

CODE = """
from dataclasses import dataclass

import numpy as np

from emphasis import Emphasis


@dataclass(frozen=True)
class BadDecode(Emphasis):
    def decode(self, examples, encoded, scores):
        return [self.names[7] for each in scores]


@dataclass(frozen=True)
class BadScore(Emphasis):
    def score(self, examples, answers):
        return {"f1": 1 / sum(each == "none" for each in answers)}


@dataclass(frozen=True)
class BadEncode(Emphasis):
    def encode(self, examples, tokenizer):
        return examples.texts


@dataclass(frozen=True)
class NotEncoded(Emphasis):
    def encode(self, examples, tokenizer):
        return super().encode(examples, tokenizer).labelled


@dataclass(frozen=True)
class OtherTokens(Emphasis):
    def encode(self, examples, tokenizer):
        encoded = super().encode(examples, tokenizer)
        encoded.labelled.items[1].token_ids[1] = 5_000
        return encoded


@dataclass(frozen=True)
class OtherLabel(Emphasis):
    def encode(self, examples, tokenizer):
        encoded = super().encode(examples, tokenizer)
        encoded.labelled.targets[1][0] = 2
        return encoded


@dataclass(frozen=True)
class TwoTargets(Emphasis):
    def encode(self, examples, tokenizer):
        encoded = super().encode(examples, tokenizer)
        encoded.labelled.targets[1] = np.array([0, 1])
        return encoded


@dataclass(frozen=True)
class BareTargets(Emphasis):
    def encode(self, examples, tokenizer):
        encoded = super().encode(examples, tokenizer)
        encoded.labelled.targets[:] = [1] * len(examples)
        return encoded


@dataclass(frozen=True)
class BadRead(Emphasis):
    @classmethod
    def read(cls, path):
        return {}["lines"]


@dataclass(frozen=True)
class BadText(Emphasis):
    @classmethod
    def read_text(cls, text):
        return int(text)


@dataclass(frozen=True)
class LateFault(Emphasis):
    def decode(self, examples, encoded, scores):
        return (each / 0 for each in range(2))


@dataclass(frozen=True)
class NoNotes(Emphasis):
    def encode(self, examples, tokenizer):
        labelled = super().encode(examples, tokenizer).labelled
        return type("Encoded", (), {"labelled": labelled})


@dataclass(frozen=True)
class OfFewer(Emphasis):
    def score(self, examples, answers):
        return {"loud": 1 / sum(line.endswith("!") for line in examples)}


@dataclass(frozen=True)
class BadOf(Emphasis):
    @classmethod
    def of(cls, examples, max_tokens):
        raise ValueError("train.txt:3: no emphasis")


@dataclass(frozen=True)
class BadHead(Emphasis):
    @property
    def head(self):
        return len(self.names)


@dataclass(frozen=True)
class NoList(Emphasis):
    def decode(self, examples, encoded, scores):
        return (each for each in examples)


@dataclass(frozen=True)
class NoScores(Emphasis):
    def score(self, examples, answers):
        return {}


@dataclass(frozen=True)
class NoNumber(Emphasis):
    def score(self, examples, answers):
        return {"accuracy": np.float32(0.5)}


@dataclass(frozen=True)
class TooFew(Emphasis):
    def decode(self, examples, encoded, scores):
        return ["calm"]
"""
"""What stands in faults.py."""
