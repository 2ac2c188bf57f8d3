import importlib.util
from pathlib import Path

import pytest

from benchmarks.__main__ import benchmarks


@pytest.mark.parametrize("brief", [True, False])
def test_every_listed_benchmark_is_a_module(brief, monkeypatch):
    monkeypatch.setenv("BERTSMITH_DATA", "data")
    assert "tokenization" in benchmarks(Path("folder"), brief=brief)
    for module, *_ in benchmarks(Path("folder"), brief=brief).values():
        assert importlib.util.find_spec(module), module


@pytest.mark.parametrize("brief", [True, False])
@pytest.mark.parametrize("name", ["older_cpu", "real_lengths", "step_parts", "scaling"])
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
