"""What pyproject.toml declares is pinned, explained, and enough for what it is declared for."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def names(requirements):
    return {NAME.match(each)[0].lower().replace("_", "-") for each in requirements}


def test_the_onnx_extra_brings_what_writes_an_export_and_what_reads_it_back():
    assert names(EXTRAS["onnx"]) == {"onnx", "onnxscript", "onnxruntime"}


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_every_dependency_is_explained(extra):
    decisions = (ROOT / "docs/decisions.md").read_text(encoding="utf-8").lower().replace("_", "-")
    rows = [line.split("|")[1] for line in decisions.splitlines() if line.startswith("| ")]
    explained = {word for row in rows for word in NAME.findall(row)}
    assert names(EXTRAS.get(extra, PROJECT["dependencies"])) <= explained


def test_what_make_installs_and_the_onnx_extra_is_pinned():
    pins = names((ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:])
    installed = names([*PROJECT["dependencies"], *EXTRAS["test"], *EXTRAS["lint"], *EXTRAS["onnx"]])
    assert installed <= pins
