"""Whatever a class of a person's own raises is one line that leads to it; ours comes through."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bertsmith.tasks.own_faults import failures_named
from bertsmith.tasks.task import MultipleChoice


@pytest.fixture
def kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, type]]:
    """A class in a file, one made from it in another, and one that was typed into no file."""
    (tmp_path / "first_own.py").write_text(
        "class First:\n    def decode(self):\n        raise KeyError('a')\n"
    )
    (tmp_path / "second_own.py").write_text(
        "from first_own import First\n\n\nclass Second(First):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    typed = ModuleType("typed_own")
    exec("class Typed:\n    def decode(self):\n        raise KeyError('a')\n", vars(typed))
    monkeypatch.setitem(sys.modules, "typed_own", typed)
    names = {"first_own": "First", "second_own": "Second", "typed_own": "Typed"}
    yield {name: vars(__import__(module))[name] for module, name in names.items()}
    for module in ("first_own", "second_own"):
        sys.modules.pop(module)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("First", "first_own:First: its decode failed with KeyError: 'a' (first_own.py:3); mend"),
        ("Second", "second_own:Second: its decode failed with KeyError: 'a' (first_own.py:3); men"),
        ("Typed", "typed_own:Typed: its decode failed with KeyError: 'a'; mend"),
    ],
)
def test_the_line_of_ones_own_that_failed_is_told(
    name: str, told: str, kinds: dict[str, type]
) -> None:
    kind = kinds[name]
    with (
        pytest.raises(ValueError, match=f"^--task-class {re.escape(told)}") as error,
        failures_named(kind, "decode"),
    ):
        kind().decode()
    assert isinstance(error.value.__cause__, KeyError)


def test_an_error_of_many_lines_is_one(kinds: dict[str, type]) -> None:
    told = "RuntimeError: a b c; mend the class"
    with pytest.raises(ValueError, match=told), failures_named(kinds["First"], "score"):
        raise RuntimeError("a\n  b\n\nc")


def test_what_a_class_of_the_package_raises_comes_through() -> None:
    with pytest.raises(KeyError, match="a"), failures_named(MultipleChoice, "decode"):
        raise KeyError("a")
