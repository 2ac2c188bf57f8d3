"""What is set before torch is there, and what of it a person's own word leaves alone."""

import os
import subprocess
import sys

import pytest

from bertsmith.environment import ENVIRONMENT, SPINNING, prepare_environment

NAMES = (*ENVIRONMENT, *SPINNING, "OMP_WAIT_POLICY")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that what is set here does not stay
        monkeypatch.delenv(name)


def set_here():
    return {name: os.environ[name] for name in NAMES if name in os.environ}


def test_what_nobody_has_set_is_set():
    prepare_environment()
    assert set_here() == {**ENVIRONMENT, **SPINNING}


def test_what_a_person_set_stays(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "3")
    prepare_environment()
    assert set_here() == {**ENVIRONMENT, "GOMP_SPINCOUNT": "7", "LRU_CACHE_CAPACITY": "3"}


def test_a_policy_of_waiting_is_not_overruled(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    prepare_environment()
    assert set_here() == {**ENVIRONMENT, "OMP_WAIT_POLICY": "passive"}


def test_the_command_line_sets_it_before_torch_is_imported():
    code = (
        "import os, sys; from bertsmith import cli; cli.main([]); "
        "assert 'torch' not in sys.modules; print(os.environ['GOMP_SPINCOUNT'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == SPINNING["GOMP_SPINCOUNT"]
