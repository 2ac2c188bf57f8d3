"""What a person sees of a step, on a terminal and in a file."""

from __future__ import annotations

import io
import os
import pty
import re
from dataclasses import replace

import pytest
from rich.console import Console

from bertsmith.runs.progress import (
    LiveDisplay,
    Pace,
    PlainDisplay,
    View,
    display,
    duration,
    wordings,
)


def view(step: int, *, tokens: int = 1_000, seconds: float = 0.5) -> View:
    return View(
        step=step,
        losses={"masked_lm": 5.4321, "next_sentence": 0.6},
        accuracies={"masked_lm": 0.25, "next_sentence": 0.75},
        learning_rate=1e-4,
        tokens=tokens,
        seconds=seconds,
    )


def shown(*, is_terminal: bool) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=is_terminal, width=160)
    made = display(console, num_steps=10, done=0, unigram=6.5, every=4)
    assert isinstance(made, LiveDisplay if is_terminal else PlainDisplay)
    with made as place:
        for step in range(1, 11):
            place.step(view(step))
        place.note("a note [with brackets]")
    return file.getvalue()


def test_plain_lines_come_every_so_many_steps_and_at_the_end() -> None:
    lines = shown(is_terminal=False).splitlines()
    assert [line.split()[1] for line in lines[:-1]] == ["4/10", "8/10", "10/10"]
    assert lines[-1] == "a note [with brackets]"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_losses_stand_beside_the_unigram_line_with_rate_speed_and_time(is_terminal: bool) -> None:
    text = shown(is_terminal=is_terminal)
    for part in ("mlm 5.432 (25%)", "nsp 0.600 (75%)", "unigram 6.500", "lr 1.00e-04", "left"):
        assert part in text
    assert "2,000 tokens/s" in text


def test_a_terminal_that_closes_under_a_sentence_ends_no_run() -> None:
    terminal, other = pty.openpty()
    with (
        open(other, "w") as file,
        open(os.devnull, "w") as nowhere,
        LiveDisplay(Console(file=file), 10, 0, None) as place,
    ):
        os.close(terminal)
        with pytest.raises(OSError, match="Input/output"):
            os.write(other, b"nobody reads")
        place.note("nobody reads this")
        os.dup2(nowhere.fileno(), other)  # as an Interruption does


def test_a_file_that_takes_no_more_is_said() -> None:
    with open("/dev/full", "w") as file, open(os.devnull, "w") as nowhere:
        place = PlainDisplay(Console(file=file), 10, 0, None, 4)
        with pytest.raises(OSError, match="No space"):
            place.note("lost")
        os.dup2(nowhere.fileno(), file.fileno())


def test_without_a_line_to_compare_with_and_accuracies_the_losses_stand_alone() -> None:
    bare = replace(view(3), losses={"loss": 0.7}, accuracies={})
    assert wordings(bare, None, 1_500)[0] == "loss 0.700  lr 1.00e-04  1,500 tokens/s"
    assert "unigram" not in " ".join(wordings(bare, None, 1_500))


@pytest.mark.parametrize(
    ("width", "num_steps", "shown"),
    [
        (40, 1_000_000, "0%  83 min left  mlm 5.432"),
        (60, 1_000_000, "100/1,000,000  83 min left  mlm 5.432  24,690 tokens/s"),
        (
            80,
            1_000_000,
            "100/1,000,000  83 min left  mlm 5.432  nsp 0.600  unigram 6.500  24,690 tokens/s",
        ),
        (
            80,
            200,
            "━━━━     100/200  0 s left  mlm 5.432  nsp 0.600  unigram 6.500  24,690 tokens/s",
        ),
        (
            100,
            1_000_000,
            "100/1,000,000  83 min left  mlm 5.432 (25%)  nsp 0.600 (75%)  "
            "unigram 6.500  24,690 tokens/s",
        ),
        (
            120,
            200,
            "━━━━━━━━━━━╸            100/200  0 s left  mlm 5.432 (25%)  nsp 0.600 (75%)  "
            "unigram 6.500  lr 1.00e-04  24,690 tokens/s",
        ),
    ],
)
def test_a_terminal_of_any_width_shows_whole_words_and_what_is_needed_most(
    width: int, num_steps: int, shown: str
) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, color_system=None)
    with display(console, num_steps=num_steps, done=0, unigram=6.5, every=4) as place:
        place.step(view(100, tokens=12_345))
    line = [line for line in file.getvalue().splitlines() if " left" in line][-1]
    assert re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\r", "", line).strip() == shown


def test_the_first_step_does_not_count_for_the_time_left() -> None:
    pace = Pace(num_steps=12, done=0)
    pace.add(view(1, seconds=100.0))
    rate, left = pace.add(view(2, seconds=0.5))
    assert rate == pytest.approx(2_000)
    assert left == pytest.approx(5.0)
    for step in range(3, 120):
        rate, _ = pace.add(view(step, seconds=0.5))
        assert rate == pytest.approx(2_000), step


def test_views_several_steps_apart_count_as_several_steps() -> None:
    pace = Pace(num_steps=100, done=50)
    pace.add(view(60, seconds=5.0))
    _, left = pace.add(view(70, seconds=5.0))
    assert left == pytest.approx(15.0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((3, "3 s"), (89, "89 s"), (720, "12 min"), (12_000, "3 h 20 min"), (360_000, "4 d 4 h")),
        (4e9, "46,296 days"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words
