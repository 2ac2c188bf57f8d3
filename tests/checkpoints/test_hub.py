"""Uploads, against a server on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoints.fake_hub import fake_hub

PUSH = """
import sys
from pathlib import Path
from bertsmith.checkpoints import hub
try:
    print(hub.push(Path(sys.argv[1]), sys.argv[2], is_private=sys.argv[3] == "private"))
except (ValueError, OSError) as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def push(directory: Path, name: str, environment: dict[str, str], visibility: str = "private"):
    """In a process of its own: the endpoint is read when huggingface_hub is imported."""
    home = {"HF_HOME": str(directory.parent / "home")}
    cleared = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", PUSH, str(directory), name, visibility],
        env={**cleared, **home, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def directory(tmp_path):
    folder = tmp_path / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 40)
    (folder / "README.md").write_text("---\nlibrary_name: transformers\n---\n# model\n")
    (folder / "1_Pooling/config.json").write_text("{}\n")
    return folder


def test_every_file_arrives_as_it_is_in_a_private_repository(directory):
    with fake_hub() as server:
        done = push(directory, "me/model", server.environment())
        assert done.stdout.strip() == f"{server.url}/me/model", done.stderr
        assert server.is_private == {"me/model": True}
        assert server.messages == ["Upload model"]
        assert server.files["me/model"] == {
            str(file.relative_to(directory)): file.read_bytes()
            for file in directory.rglob("*") if file.is_file()
        }  # fmt: skip


def test_a_second_upload_replaces_files_and_keeps_the_others(directory):
    with fake_hub() as server:
        assert push(directory, "me/model", server.environment()).returncode == 0
        (directory / "README.md").write_text("# better\n")
        (directory / "1_Pooling/config.json").unlink()
        assert push(directory, "me/model", server.environment()).returncode == 0
        assert server.files["me/model"]["README.md"] == b"# better\n"
        assert "1_Pooling/config.json" in server.files["me/model"]


def test_nothing_goes_into_a_public_repository_unless_asked(directory):
    with fake_hub("me/known") as server:
        refused = push(directory, "me/known", server.environment())
        assert "ValueError: me/known is public already" in refused.stderr
        assert server.files["me/known"] == {}
        done = push(directory, "me/known", server.environment(), "public")
        assert done.returncode == 0, done.stderr
        assert "model.safetensors" in server.files["me/known"]


def test_a_private_repository_is_not_said_to_be_public(directory):
    with fake_hub() as server:
        assert push(directory, "me/model", server.environment()).returncode == 0
        server.files["me/model"].clear()
        refused = push(directory, "me/model", server.environment(), "public")
        assert (
            f"ValueError: me/model is private already: make it public at {server.url}/me/model"
            in (refused.stderr)
        )
        assert len(refused.stderr.strip().splitlines()) == 1
        assert server.files["me/model"] == {}
        assert server.is_private == {"me/model": True}


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        ("no name", {}, "ValueError: 'no name' is no name on the Hub"),
        ("alone", {}, "ValueError: 'alone' is no name on the Hub: expected USER/NAME"),
        ("me/two/parts", {}, "ValueError: 'me/two/parts' is no name on the Hub"),
        ("me/m", {"HF_TOKEN": ""}, "ValueError: no token to write to me/m: run `hf auth login`"),
        ("me/m", {"HF_TOKEN": "hf_old"}, "OSError: me/m was not uploaded: the token is not valid"),
        ("somebody-else/m", {}, "the token may not write there: make one with write access"),
    ],
)
def test_a_refusal_is_told_in_one_line(directory, name, changes, told):
    with fake_hub() as server:
        refused = push(directory, name, {**server.environment(), **changes})
    assert refused.returncode == 1
    assert told in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_hub_that_does_not_answer_is_told_in_one_line(directory):
    with fake_hub() as server:
        environment = server.environment()
    refused = push(directory, "me/m", environment)
    assert refused.stderr.startswith("OSError: me/m was not uploaded: the Hub gave no answer (")
    assert len(refused.stderr.strip().splitlines()) == 1
