"""The threshold is the official search's, and the figures have the official evaluator's names."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.reading.squad_json import Answer, Question
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.squad_answers import Candidate, FoundAnswer
from bertsmith.tasks.squad_evaluation import (
    how_scored,
    official_scores,
    tuned_threshold,
    with_threshold,
)
from bertsmith.tasks.squad_scores import question_scores, squad_scores

TEXTS = st.sampled_from(["red fox", "fox", "a dog", "dog ran", ""])
ROWS = st.lists(
    st.tuples(TEXTS, TEXTS.filter(bool), st.integers(-5, 5).map(lambda n: n / 2)),
    min_size=1,
    max_size=12,
)


def question(number: int, answer: str) -> Question:
    answers = (Answer(text=answer, start=0),) if answer else ()
    return Question(
        key=f"q{number}", question="?", passage=answer or "x", answers=answers, place="x"
    )


def found(number: int, text: str, odds: float) -> FoundAnswer:
    best = Candidate(text=text, start=0, probability=1.0, start_score=0.0, end_score=0.0)
    return FoundAnswer(key=f"q{number}", text=text, best=best, null_odds=odds, candidates=(best,))


def plain_best(rows: list[tuple[str, str, float]]) -> float:
    """By the definition: every threshold that could matter, each scored anew."""
    gold = {str(n): [answer] if answer else [] for n, (answer, _, _) in enumerate(rows)}
    thresholds = [-math.inf, *(odds for _, _, odds in rows)]
    return max(
        squad_scores(
            {str(n): "" if odds > threshold else text for n, (_, text, odds) in enumerate(rows)},
            gold,
            "2.0",
        ).f1
        for threshold in thresholds
    )


def official_search(preds: Any, scores: Any, na_probs: Any, has_answer: Any) -> tuple[float, float]:
    """evaluate-v2.0.py's find_best_thresh, as it stands there but for its names."""
    current = best = sum(1 for key in has_answer if not has_answer[key])
    threshold = 0.0
    for key in sorted(na_probs, key=lambda each: na_probs[each]):
        if key not in scores:
            continue
        difference = scores[key] if has_answer[key] else (-1 if preds[key] else 0)
        current += difference
        if current > best:
            best, threshold = current, na_probs[key]
    return 100.0 * best / len(scores), threshold


@given(ROWS)
def test_the_tuned_threshold_reaches_the_best_f1_that_any_threshold_could(
    rows: list[tuple[str, str, float]],
) -> None:
    questions = [question(n, answer) for n, (answer, _, _) in enumerate(rows)]
    answers = [found(n, text, odds) for n, (_, text, odds) in enumerate(rows)]
    threshold = tuned_threshold(questions, answers)
    chosen = with_threshold(answers, threshold)
    gold = {each.key: [answer.text for answer in each.answers] for each in questions}
    reached = squad_scores({each.key: each.text for each in chosen}, gold, "2.0").f1
    # Of equal odds the search may say more than a threshold can part: then the plain best is less.
    if len({odds for _, _, odds in rows}) == len(rows):
        assert reached == pytest.approx(plain_best(rows))
    assert reached <= plain_best(rows) + 1e-9


@pytest.mark.parametrize(
    ("gold", "expected"),
    [
        (("Bonn", "Bonn", ""), 2.5),  # halfway between the second's odds and the third's
        (("Bonn", "Bonn", "Bonn"), 5.0),
        (("", "", ""), 0.0),
    ],
)
@pytest.mark.parametrize("is_empty", [False, True], ids=["", "beside a passage without a word"])
def test_questions_asked_again_are_answered_as_they_were(
    gold: tuple[str, ...], expected: float, is_empty: bool
) -> None:
    rows = [("Bonn", odds) for odds in (1.0, 1.0 + 2**-20, 4.0)]
    if is_empty:
        rows.append(("", math.inf))
        gold = (*gold, "")
    answers = [found(n, *row) for n, row in enumerate(rows)]
    threshold = tuned_threshold([question(n, each) for n, each in enumerate(gold)], answers)
    assert threshold == pytest.approx(expected, abs=1e-6)
    told = [each.text for each in with_threshold(answers, threshold)]
    for change in (-1e-3, 1e-3):
        again = [found(n, text, odds + change) for n, (text, odds) in enumerate(rows)]
        assert [each.text for each in with_threshold(again, threshold)] == told


@given(ROWS)
def test_the_best_figures_are_the_official_searches(rows: list[tuple[str, str, float]]) -> None:
    gold = {str(n): [answer] if answer else [] for n, (answer, _, _) in enumerate(rows)}
    texts = {str(n): text for n, (_, text, _) in enumerate(rows)}
    odds = {str(n): value for n, (_, _, value) in enumerate(rows)}
    exact, f1 = question_scores(texts, gold, "2.0")
    has_answer = {key: bool(answers) for key, answers in gold.items()}
    scores = official_scores(texts, gold, "2.0", odds)
    for name, each in (("exact", exact), ("f1", f1)):
        best, threshold = official_search(texts, each, odds, has_answer)
        assert scores[f"best_{name}"] == pytest.approx(best)
        assert scores[f"best_{name}_thresh"] == threshold


def test_figures_have_the_official_names_in_their_order() -> None:
    gold = {"a": ["x"], "b": []}
    both = {"a": "x", "b": "y"}
    assert official_scores(both, gold, "2.0") == {
        "exact": 50.0, "f1": 50.0, "total": 2, "HasAns_exact": 100.0, "HasAns_f1": 100.0,
        "HasAns_total": 1, "NoAns_exact": 0.0, "NoAns_f1": 0.0, "NoAns_total": 1,
    }  # fmt: skip
    assert list(official_scores(both, gold, "1.1")) == ["exact_match", "f1"]
    with pytest.raises(ValueError, match="1 questions have a prediction and no null odds"):
        official_scores(both, gold, "2.0", {"a": 0.0})


def test_what_decided_the_scores_is_told() -> None:
    asked = [question(0, "fox"), question(1, ""), question(2, "dog")]
    given = [found(0, "fox", 1.0), found(1, "", 1.0), found(2, "", 1.0)]
    may_answer_nothing = SquadConfig(with_null=True, null_threshold=0.125)
    assert how_scored(asked, given, may_answer_nothing, "2.0") == (
        "scored as SQuAD 2.0, where no answer may be one; null threshold 0.125: 2 of 3 answers are "
        "empty, and 1 of 3 questions has none"
    )
    answered = [asked[0], asked[2]]
    assert how_scored(answered, [given[0], given[2]], may_answer_nothing, "2.0").endswith(
        "1 of 2 answers is empty, and 0 of 2 questions have none: each empty one is wrong"
    )
    always = [each for each in given if each.text] * 3
    assert how_scored(asked, always, SquadConfig(), "2.0") == (
        "scored as SQuAD 2.0, where no answer may be one; no null threshold, since the model "
        "learned to answer always: 0 of 3 answers are empty, and 1 of 3 questions has none"
    )
    assert how_scored(answered, always[:2], SquadConfig(), "1.1") == (
        "scored as SQuAD 1.1; no null threshold, since the model learned to answer always: 0 of 2 "
        "answers are empty, and 0 of 2 questions have none"
    )
