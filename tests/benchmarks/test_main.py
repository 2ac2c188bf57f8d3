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


def test_what_reads_real_text_is_left_out_where_there_is_none(monkeypatch):
    monkeypatch.delenv("BERTSMITH_DATA", raising=False)
    assert "tokenization" not in benchmarks(Path("folder"), brief=False)


def test_pictures_come_last():
    assert list(benchmarks(Path("folder"), brief=False))[-1] == "plots"
