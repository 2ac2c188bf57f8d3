"""The words at one place of every passage: which place, and that it is the best of all tried."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bertsmith.randomness import Stream, permutation
from bertsmith.reading.squad_json import Answer, Question, read_questions
from bertsmith.tasks.squad_places import PLACES, Place, best_places
from bertsmith.tasks.squad_scores import SquadVersion, squad_scores

WORDS = (
    *("The", "a,", "", "red", "fox\nran", "(to", "an)", "old;", "red"),
    *("Fox!", "of", "Rome", "–", "in", "U.S.", "the", "end"),
)


@pytest.mark.parametrize(
    ("place", "words", "told"),
    [
        (Place(0, None), "a b c d", "the whole of every passage"),
        (Place(0, 1), "a", "word 1 of every passage"),
        (Place(1, 2), "b c", "words 2 to 3 of every passage"),
        (Place(2, 8), "c d", "words 3 to 10 of every passage"),
        (Place(4, 1), "", "word 5 of every passage"),
        (Place(1, 2, True), "b c", "words 2 to 3 from the end of every passage"),
        (Place(0, 1, True), "d", "word 1 from the end of every passage"),
        (Place(2, 8, True), "a b", "words 3 to 10 from the end of every passage"),
    ],
)
def test_a_place_is_counted_from_either_end(place: Place, words: str, told: str) -> None:
    assert " ".join(place.words(["a", "b", "c", "d"])) == words
    assert str(place) == told


def drawn(count: int, *, with_none: bool) -> list[Question]:
    """Questions, some of one passage, about words that change their places."""
    questions = []
    for number in range(count):
        order = permutation(len(WORDS), number // 2, Stream.SHUFFLE, 0).tolist()
        passage = " ".join(WORDS[at] for at in order[: 3 + number % 12])
        words = passage.split()
        texts = {" ".join(words[at : at + 2]) for at in (number % len(words), 0)}
        answers = tuple(Answer(text=each, start=0) for each in sorted(texts))
        answers = () if with_none and not number % 3 else answers
        questions.append(
            Question(key=str(number), question="?", passage=passage, place="x:1", answers=answers)
        )
    return questions


@pytest.mark.parametrize("version", ["1.1", "2.0", "korquad"])
def test_no_place_that_is_tried_is_better_than_the_best(version: SquadVersion) -> None:
    questions = drawn(len(PLACES) + 10, with_none=version == "2.0")
    gold = {each.key: each.gold for each in questions}

    def scored(place: Place) -> tuple[float, float]:
        texts = {each.key: " ".join(place.words(each.passage.split())) for each in questions}
        found = squad_scores(texts, gold, version)
        return found.exact, found.f1

    best = [scored(place) for place in best_places(questions, version)]
    for metric in (0, 1):
        expected = max(scored(place)[metric] for place in PLACES)
        assert max(each[metric] for each in best) == pytest.approx(expected)


def test_of_fewer_questions_than_places_none_is_chosen() -> None:
    questions = drawn(len(PLACES), with_none=False)
    assert best_places(questions, "1.1")
    assert best_places(questions[:-1], "1.1") == []


@pytest.mark.data
def test_the_places_of_squad() -> None:
    squad = Path(os.environ["BERTSMITH_DATA"]) / "squad"
    (exact, f1), none = (
        best_places(read_questions(squad / f"dev-v{version}.json.gz").questions, version)
        for version in ("1.1", "2.0")
    )
    assert str(exact) == "words 1 to 2 from the end of every passage"
    assert str(f1) == "words 9 to 24 of every passage"
    assert list(map(str, none)) == ["word 1 of every passage"]  # "The", which is no word there
