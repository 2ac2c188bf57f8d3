"""All of BERT in one small package: from raw text to vocabulary, pre-training and answers.

The public names are imported when they are first used, so that `import bertsmith` and the command
line start at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertsmith.checkpoints.store import load, save
    from bertsmith.inference import Predictor
    from bertsmith.model.bert import Bert
    from bertsmith.model.config import BertConfig
    from bertsmith.text.tokenizer import Tokenizer

__all__ = ["Bert", "BertConfig", "Predictor", "Tokenizer", "load", "save"]

_HOMES = {
    "Bert": "bertsmith.model.bert",
    "BertConfig": "bertsmith.model.config",
    "Predictor": "bertsmith.inference",
    "Tokenizer": "bertsmith.text.tokenizer",
    "load": "bertsmith.checkpoints.store",
    "save": "bertsmith.checkpoints.store",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(importlib.import_module(_HOMES[name]))[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
