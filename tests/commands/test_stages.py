"""A stage speaks rarely in a file, and renews a bar on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bertsmith.commands import stages
from bertsmith.commands.stages import Stage


def test_file_gets_a_line_every_ten_seconds_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(stages.time, "perf_counter", lambda: now)
    file = io.StringIO()
    with Stage(Console(file=file, width=20), "counting words", "bytes", 4000) as stage:
        for now in (1.0, 12.0, 13.0, 30.0):
            stage.reach(int(now * 100))
    assert file.getvalue().splitlines() == [
        "counting words: 30% (1,200/4,000 bytes), about 28 s left",
        "counting words: 75% (3,000/4,000 bytes), about 10 s left",
        "counting words: done in 30.0 s",
    ]


def test_a_stage_that_goes_on_counts_from_where_it_went_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(stages.time, "perf_counter", lambda: now)
    file = io.StringIO()
    with Stage(Console(file=file), "build-corpus", "bytes", 4000) as stage:
        for now in (2.0, 12.0):
            stage.reach(int(2900 + now * 50), "7 documents")
    assert file.getvalue().splitlines()[0] == "build-corpus: 88% (7 documents), about 10 s left"


def test_terminal_gets_a_bar() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100)
    with Stage(console, "counting words", "bytes", 4000) as stage:
        stage.reach(4000)
    assert "100%" in file.getvalue()
    assert "4,000/4,000 bytes" in file.getvalue()


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (
            100,
            "build-corpus: 50% (1,234,567 documents, 234,567,890 tokens, 123,456 tokens/s), "
            "about 4 s left",
        ),
        (80, "build-corpus: 50% (234,567,890 tokens, 123,456 tokens/s), about 4 s left"),
        (60, "build-corpus: 50% (123,456 tokens/s), about 4 s left"),
        (40, "build-corpus: 50%, about 4 s left"),
    ],
)
def test_a_narrow_terminal_keeps_the_share_and_the_time_left(
    width: int, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(stages.time, "perf_counter", lambda: now)
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, color_system=None)
    facts = ("1,234,567 documents", "234,567,890 tokens", "123,456 tokens/s")
    with Stage(console, "build-corpus", "bytes", 4_000) as stage:
        stage.reach(0, *facts)
        now = 4.0
        stage.reach(2_000, *facts)
    assert shown in file.getvalue()


def test_failed_stage_does_not_say_done() -> None:
    file = io.StringIO()
    with (
        pytest.raises(ValueError, match="broken"),
        Stage(Console(file=file), "counting words", "bytes", 4000),
    ):
        raise ValueError("broken")
    assert file.getvalue() == ""
