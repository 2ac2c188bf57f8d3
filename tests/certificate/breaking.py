"""What tests of the certificate need: a model to certify, and proof that a check can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertsmith.certificate.rows import Row
from bertsmith.certificate.subject import Subject
from bertsmith.checkpoints import store
from bertsmith.model.config import Direction, Objective
from bertsmith.model.heads import TaskHead
from bertsmith.text.tokenizer import Tokenizer
from tests.checkpoints.tiny import tiny_config, tiny_model, tiny_tokenizer

Break = Callable[[pytest.MonkeyPatch], None]


def saved(
    folder: Path,
    *objectives: Objective,
    direction: Direction = "bidirectional",
    head: TaskHead | None = None,
    **config: object,
) -> Path:
    """A tiny model on disk, its biases not zero; `config` changes what its config.json says."""
    torch.manual_seed(1)
    model = tiny_model(*objectives, direction=direction)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data += torch.randn(parameter.shape) * 0.1
    changed = tiny_config(direction=direction, **config)
    store.save(folder, model, changed, tiny_tokenizer(), head=head)
    return folder


def with_tokenizer(subject: Subject, tokenizer: Tokenizer) -> Subject:
    return replace(subject, loaded=replace(subject.loaded, tokenizer=tokenizer))


def row_of(check: Callable[..., Row], *subject: Subject) -> Row:
    with torch.no_grad():
        return check(*subject)


def status(check: Callable[..., Row], *subject: Subject) -> str:
    return row_of(check, *subject).status


def names(checks: Iterable[Callable[..., Row]]) -> set[str]:
    return {check.__name__ for check in checks}


def untied(subject: Subject) -> None:
    own = torch.nn.Linear(32, subject.loaded.config.vocab_size, bias=False)
    subject.model.masked_lm.decoder = own
