"""What docs/tour.md shows of `bertsmith explain` is what the command prints."""

from __future__ import annotations

import re
import shlex

import pytest

from bertsmith import cli
from tests.test_docs import ROOT, arguments_of, blocks_of

SHOWN = [
    block
    for block in blocks_of(ROOT / "docs" / "tour.md")
    if block.language == "console" and block.text.startswith("$ bertsmith explain")
]
DRAWN = re.compile(r"[ ▏▎▍▌▋▊▉█░▒▓]+")
PERCENT = re.compile(r"<?(\d+\.\d+)%")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def words(line: str) -> str:
    """A line without bars, shades and the values of numbers, which a processor may change."""
    return NUMBER.sub("N", DRAWN.sub(" ", line)).strip()


def percents(line: str) -> list[float]:
    return [float(number) for number in PERCENT.findall(line)]


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: block.place)
def test_the_tour_shows_what_is_printed(block, capsys) -> None:
    command, *shown = block.text.rstrip("\n").splitlines()
    arguments = arguments_of(shlex.split(command.removeprefix("$ ")))
    assert arguments is not None
    assert cli.main([*arguments, "--device", "cpu", "--precision", "fp32"]) == 0
    printed = iter(capsys.readouterr().out.splitlines())
    for line in shown:
        if line == "...":
            continue
        found = next((each for each in printed if words(each) == words(line)), None)
        assert found is not None, line
        assert percents(found) == pytest.approx(percents(line), abs=0.2)


def test_five_examples_are_shown() -> None:
    assert len(SHOWN) == 5
