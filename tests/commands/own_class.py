"""A task class of a person's own as one writes it, and what begins a run that learns by it."""

from __future__ import annotations

from pathlib import Path

from tests.commands.small_files import RUN
from tests.commands.small_task import write_model

NAME = "emphasis:Emphasis"
CODE = '''
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertsmith.data.items import one_text
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import TaskHeadConfig
from bertsmith.tasks.task import EncodedTexts

Path(__file__).with_name("imported").touch()


@dataclass(frozen=True)
class Emphasis:
    """Whether a line ends in an exclamation mark, which is not shown."""

    names: tuple[str, ...]
    max_tokens: int = 16

    @classmethod
    def read(cls, path):
        return path.read_text().splitlines()

    @classmethod
    def of(cls, examples, max_tokens):
        return cls(names=("calm", "loud"), max_tokens=max_tokens)

    @property
    def head(self):
        return TaskHeadConfig(kind="sequence_classification", labels=self.names)

    def encode(self, examples, tokenizer):
        texts = [line.rstrip("!") for line in examples]
        ids = [each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)]
        special = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id}
        return EncodedTexts(labelled=LabelledItems(
            items=[one_text(each, limit=self.max_tokens, keep=(0, 0), **special) for each in ids],
            groups=np.arange(len(ids)), rows=None,
            targets=[np.array([int(line.endswith("!"))]) for line in examples],
        ))

    def decode(self, examples, encoded, scores):
        return [self.names[int(each.argmax())] for each in scores]

    def score(self, examples, answers):
        right = [self.names[line.endswith("!")] == each for line, each in zip(examples, answers)]
        return {"accuracy": sum(right) / len(right)}


class Plain:
    pass


@dataclass(frozen=True)
class Typed(Emphasis):
    @classmethod
    def read_text(cls, text):
        return text

    def decode(self, examples, encoded, scores):
        return [{"text": line, "kind": {1}} if "cat" in line else (line, 1) for line in examples]


@dataclass(frozen=True)
class Short(Typed):
    def decode(self, examples, encoded, scores):
        return ["calm"]


@dataclass(frozen=True)
class Half:
    names: tuple[str, ...]


@dataclass(frozen=True)
class Deep(Emphasis):
    inner: frozenset = frozenset({1})
'''
"""What stands in emphasis.py."""


def write_own_class(folder: Path) -> None:
    """The class's file, and lines to learn and to be scored on."""
    (folder / "emphasis.py").write_text(CODE)
    for name, count in (("train.txt", 32), ("dev.txt", 8)):
        lines = [
            "my dog likes paris!" if number % 2 else "the cat was hairy" for number in range(count)
        ]
        (folder / name).write_text("\n".join(lines))


def begun(out: Path, name: str = NAME) -> tuple[object, ...]:
    """The arguments that begin a run in the class's directory."""
    files = ("--task-class", name, "--examples", "train.txt", "--dev", "dev.txt")
    return ("finetune", write_model(Path("model").resolve()), *files, *RUN, "--out", out)
