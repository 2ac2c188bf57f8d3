"""A model's name -> the rows of its certificate, one check after another.

Three sections: this installation against golden values, this model against the restated original,
and this model beside `transformers`. Fused kernels stay off: the functions they are compiled from
are what is certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from bertsmith.certificate import (
    encoder,
    examples,
    inputs,
    outputs,
    peer,
    tokens,
    training,
    vocabulary,
    weights,
)
from bertsmith.certificate.rows import Profile, Row, under
from bertsmith.certificate.subject import Subject
from bertsmith.fusion import unfused

INSTALLATION, MODEL, PEER = "this installation", "this model", "beside transformers"


def certify(name_or_path: str | Path, profile: Profile) -> Iterator[Row]:
    """Reads the model, then yields the row of every check, as the profile judges it.

    Raises what `checkpoints.store.load` raises; a check that raises is a row that failed.
    """
    subject = Subject.read(name_or_path)
    for section, row in _rows(subject):
        yield replace(under(row, profile), section=section)


def _rows(subject: Subject) -> Iterator[tuple[str, Row]]:
    installation = [*encoder.CHECKS, *inputs.checks(), *examples.CHECKS, *training.CHECKS]
    for own in installation:
        yield from ((INSTALLATION, row) for row in _made(own))
    for check in [*weights.CHECKS, *vocabulary.CHECKS, *tokens.checks(), *outputs.CHECKS]:
        yield from ((MODEL, row) for row in _made(partial(check, subject)))
    for beside in peer.CHECKS:
        yield from ((PEER, row) for row in _made(partial(beside, subject)))


def _made(check: Callable[[], Row | list[Row]]) -> list[Row]:
    try:
        with unfused(), torch.no_grad():
            found = check()
    except Exception as error:  # whatever is broken, the certificate names it and goes on
        reason = f"{type(error).__name__}: {error}"
        return [
            Row(
                name="a check could not be made",
                status="failed",
                found=" ".join(reason.split()),
                expected="an answer",
                reference="-",
            )
        ]
    return found if isinstance(found, list) else [found]
