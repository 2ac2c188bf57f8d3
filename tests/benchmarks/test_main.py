import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks.__main__ import benchmarks
from benchmarks.machine import ROWS_VARIABLE


@pytest.mark.parametrize("brief", [True, False])
def test_every_listed_benchmark_is_a_module(brief, monkeypatch):
    monkeypatch.setenv("BERTSMITH_DATA", "data")
    assert "tokenization" in benchmarks(Path("folder"), brief=brief)
    for module, *_ in benchmarks(Path("folder"), brief=brief).values():
        assert importlib.util.find_spec(module), module


@pytest.mark.parametrize("brief", [True, False])
@pytest.mark.parametrize(
    "name", ["older_cpu", "real_lengths", "step_parts", "answer_parts", "busy", "scaling"]
)
def test_options_are_understood(name, brief, monkeypatch):
    module, *arguments = benchmarks(Path("folder"), brief=brief)[name]
    found = importlib.import_module(module)
    if not hasattr(found, "_options"):
        found = importlib.import_module(f"{module}.__main__")
    monkeypatch.setattr("sys.argv", [module, *arguments])
    assert found._options()


def test_what_reads_real_text_is_left_out_where_there_is_none(monkeypatch):
    monkeypatch.delenv("BERTSMITH_DATA", raising=False)
    assert "tokenization" not in benchmarks(Path("folder"), brief=False)


def test_pictures_come_last():
    assert list(benchmarks(Path("folder"), brief=False))[-1] == "plots"


def test_one_that_fails_is_named_and_the_others_follow(monkeypatch, capfd):
    commands = {"first": ["no_such_module"], "second": ["this"]}
    monkeypatch.setattr(program, "benchmarks", lambda folder, brief: commands)
    monkeypatch.setattr(program, "make_material", lambda folder: None)
    monkeypatch.setattr("sys.argv", ["benchmarks"])
    assert program.main() == 1
    told = capfd.readouterr()
    assert "Beautiful is better than ugly." in told.out
    assert "left out, for BERTSMITH_DATA names no folder: tokenization, finetuning" in told.out
    assert told.err.endswith("failed: first\n")


def test_a_brief_run_adds_no_row_and_draws_no_picture_of_the_project(monkeypatch, tmp_path):
    brief = benchmarks(tmp_path, brief=True)
    assert brief["plots"][-2:] == ["--out", str(tmp_path)]
    script = "from benchmarks.machine import RESULTS; print(RESULTS)"
    told = subprocess.run(
        [sys.executable, "-c", script], env={ROWS_VARIABLE: str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == f"{tmp_path}\n"
    environments = []
    monkeypatch.setattr(program, "benchmarks", lambda folder, brief: {"plots": ["this"]})
    monkeypatch.setattr(program, "make_material", lambda folder: None)
    monkeypatch.setattr(
        program.subprocess, "run",
        lambda command, env, check: environments.append(env)
        or subprocess.CompletedProcess(command, 0),
    )  # fmt: skip
    monkeypatch.setattr("sys.argv", ["benchmarks", "--brief"])
    assert program.main() == 0
    assert environments[0][ROWS_VARIABLE]
