"""The command line of `bertsmith verify`: which model, and whose differences are no fault.

    bertsmith verify mini-en --profile huggingface

It looks at no model.
"""

from __future__ import annotations

from dataclasses import dataclass

import tyro

from bertsmith.certificate.rows import Profile


@dataclass(frozen=True, kw_only=True)
class Verify:
    """A certificate that a model computes what BERT is defined to compute."""

    model: tyro.conf.Positional[str]
    """A name under models/, a path (a run stands for its newest checkpoint), or a Hub id."""
    profile: Profile = "paper"
    """Whose known differences are no fault: those of google-research/bert, of transformers."""
    jsonl: bool = False
    """One JSON object a check, and one for the verdict, instead of a table."""
