"""What the tests of several commands begin with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bertsmith.checkpoints import store
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer
from tests.commands.own_class import write_own_class
from tests.commands.small_task import begun, bertsmith, write_glue, write_model
from tests.pictures import leave_blank


@pytest.fixture(autouse=True)
def _keep_threads() -> Iterator[None]:
    """Commands set the threads of the process."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _pictures_are_blank(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no test looks at them; what a module begins with is drawn."""
    if "drawn" not in request.keywords:
        leave_blank(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, GLUE's files and a finished run."""
    folder = tmp_path_factory.mktemp("finetune")
    write_glue(folder / "glue")
    write_model(folder / "model")
    assert bertsmith(*begun(folder, folder / "run")) == 0
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model, as a command line names it."""
    directory = tmp_path_factory.mktemp("models") / "tiny"
    store.save(directory, tiny_model(), CONFIG, tiny_tokenizer())
    return str(directory)


@pytest.fixture
def own_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a directory with a task class's file and its lines, as if nothing were imported."""
    write_own_class(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("emphasis", None)
    yield
    sys.modules.pop("emphasis", None)
