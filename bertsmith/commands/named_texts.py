"""Paths of text that a person typed -> whether they are there, told before anything is imported."""

from __future__ import annotations

from bertsmith.commands.pretrain_options import Pretrain
from bertsmith.commands.text_options import BuildCorpus, LearnVocab


def require_there(options: Pretrain | LearnVocab | BuildCorpus) -> None:
    """Raises FileNotFoundError for the first path that names no file and no folder."""
    for path in options.texts if isinstance(options, Pretrain) else options.inputs:
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder")
