from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith.text.tokenizer import Tokenizer
from tests.corpus.building import some_folder, some_tokenizer


@pytest.fixture
def tokenizer() -> Tokenizer:
    return some_tokenizer()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return some_folder(tmp_path / "text")
