"""A person reads the answer in one line, and below it what else was likely, as far as asked."""

from __future__ import annotations

import json

import pytest

from bertsmith.commands.asked_entry import Entry
from bertsmith.commands.task_answers import as_json
from bertsmith.commands.task_lines import as_lines
from bertsmith.reading.squad_json import Question
from bertsmith.tasks.answered import AnsweredQuestion, ChosenText, ClassifiedText
from bertsmith.tasks.squad_answers import Candidate, FoundAnswer

ENTRY = Entry(place="text 1", asked=None, fault="text 1: nothing to read")
SHARES = {"place": 0.4, "beast": 0.9, "food": 0.6, "art": 0.1}
NONE_PASSES = {"place": 0.4, "beast": 0.2, "food": 0.3, "art": 0.1}


def labelled(shares: dict[str, float], *, is_multiple: bool = True) -> ClassifiedText:
    likeliest = max(shares, key=lambda name: shares[name])
    return ClassifiedText(
        texts=("the dog",),
        labels=tuple(name for name, share in shares.items() if share > 0.5)
        if is_multiple
        else (likeliest,),
        probabilities=shares,
        value=None,
        is_multiple=is_multiple,
        num_unread=0,
    )


CHOSEN = ChosenText(
    text="he likes", choices=("a cat", "my dog", "paris"), choice=1,
    probabilities=(0.3, 0.6, 0.1), num_unread=0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("shares", "top_k", "lines"),
    [
        (SHARES, None, ["beast 0.9000, food 0.6000  the dog"]),
        (NONE_PASSES, None, ["(no label)  the dog"]),
        (
            NONE_PASSES,
            2,
            ["(no label)  the dog", "    0.4000  place", "    0.3000  food"],
        ),
        (
            SHARES,
            3,
            ["beast 0.9000, food 0.6000  the dog", "    0.9000  beast", "    0.6000  food",
             "    0.4000  place"],
        ),
        (SHARES, 1, ["beast 0.9000, food 0.6000  the dog", "    0.9000  beast"]),
    ],
)  # fmt: skip
def test_of_several_labels_the_likeliest_are_shown_when_asked_for(
    shares: dict[str, float],
    top_k: int | None,
    lines: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    as_lines(top_k)(ENTRY, labelled(shares))
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("top_k", "line"),
    [
        (None, "beast 0.9000, food 0.6000, place 0.4000, art 0.1000  the dog"),
        (2, "beast 0.9000, food 0.6000  the dog"),
    ],
)
def test_of_one_label_the_likeliest_stand_beside_each_other(
    top_k: int | None, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    as_lines(top_k)(ENTRY, labelled(SHARES, is_multiple=False))
    assert capsys.readouterr().out.splitlines() == [line]


@pytest.mark.parametrize(
    ("top_k", "others"),
    [
        (None, []),
        (1, ["    1  0.6000  my dog"]),
        (2, ["    1  0.6000  my dog", "    0  0.3000  a cat"]),
        (9, ["    1  0.6000  my dog", "    0  0.3000  a cat", "    2  0.1000  paris"]),
    ],
)
def test_every_choice_is_shown_with_its_probability_when_asked_for(
    top_k: int | None, others: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    as_lines(top_k)(ENTRY, CHOSEN)
    first, *found = capsys.readouterr().out.splitlines()
    assert first == "1  0.6000  he likes | my dog"
    assert found == others


def answered(null_odds: float, threshold: float) -> AnsweredQuestion:
    paris = Candidate("paris", 3, 0.6, 2.0, 1.0)
    nothing = Candidate("", 0, 0.4, 1.5, 1.0)
    found = FoundAnswer(
        key="1", text="" if null_odds > threshold else "paris", best=paris, null_odds=null_odds,
        candidates=(paris, nothing) if null_odds < 0 else (nothing, paris),
    )  # fmt: skip
    question = Question(key="1", question="where ?", passage="in paris", answers=(), place="")
    return AnsweredQuestion.of(question, found, 0, threshold)


@pytest.mark.parametrize(
    ("null_odds", "threshold", "line"),
    [
        (-0.5, 0.0, "0.6000  paris  <- where ?"),
        (-0.5, -1.0,
         "0.4000  (no answer)  <- where ?  (null odds -0.5, above the threshold -1)"),
        (0.5, 0.0, "0.4000  (no answer)  <- where ?"),
        (0.5, 2.0, "0.6000  paris  <- where ?  (null odds 0.5, not above the threshold 2)"),
    ],
)  # fmt: skip
def test_a_threshold_that_overrules_the_likeliest_is_told(
    null_odds: float, threshold: float, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    as_lines(None)(ENTRY, answered(null_odds, threshold))
    assert capsys.readouterr().out.splitlines()[0] == line
    as_json(None)(ENTRY, answered(null_odds, threshold))
    said = json.loads(capsys.readouterr().out)
    assert (said["null_odds"], said["null_threshold"]) == (null_odds, threshold)


def test_a_row_of_nothing_has_its_fault(capsys: pytest.CaptureFixture[str]) -> None:
    as_lines(None)(ENTRY, None)
    assert capsys.readouterr().out == "-  text 1: nothing to read\n"
