"""A sound model to break."""

from pathlib import Path

import pytest

from tests.certificate.breaking import saved


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "tiny")
