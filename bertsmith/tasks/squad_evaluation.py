"""Predictions and gold answers -> what SQuAD's official evaluators print; the null threshold.

Source: Rajpurkar et al. 2016 and 2018, evaluate-v1.1.py and evaluate-v2.0.py (make_eval_dict,
find_all_best_thresh); Devlin et al. 2018, section 4.3, for the threshold chosen on Dev.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bertsmith.reading.squad_json import Question
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.squad_answers import FoundAnswer
from bertsmith.tasks.squad_scores import (
    EVALUATORS,
    Gold,
    SquadVersion,
    best_null_threshold,
    question_scores,
    squad_scores,
)

HIGHEST_ODDS = 1e6
"""Of a passage without a word, and a threshold that none are above: JSON has no infinity."""
_BEYOND = 1.0
"""How far from all odds a threshold lies that divides none of them."""


def official_scores(
    predictions: Mapping[str, str],
    gold: Gold,
    version: SquadVersion,
    null_odds: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """The official evaluator's figures under its own names, in its order.

    With `null_odds` also the best that a threshold on these could reach, in version 2.0; unlike
    there, the other figures are of the predictions as they are. Raises ValueError where there is
    nothing to score, and for odds that are missing.
    """
    if version != "2.0":
        found = squad_scores(predictions, gold, version)
        return {"exact_match": found.exact, "f1": found.f1}
    scores = _part(predictions, gold, "")
    for prefix, wanted in (("HasAns_", True), ("NoAns_", False)):
        part = {key: answers for key, answers in gold.items() if bool(answers) is wanted}
        if any(key in predictions for key in part):
            scores |= _part(predictions, part, prefix)
    if null_odds is not None:
        scores |= _best(predictions, gold, null_odds)
    return scores


def tuned_threshold(questions: Sequence[Question], answers: Sequence[FoundAnswer]) -> float:
    """The null odds above which no answer is to be given, for the best F1 on these questions.

    It lies as far as can be from the odds that it divides, where the official search says the lower
    ones: who asks again is answered as before, though the odds, in another batch, have other last
    digits.
    """
    keys = [str(number) for number in range(len(questions))]
    gold = {key: each.gold for key, each in zip(keys, questions, strict=True)}
    odds = {key: each.null_odds for key, each in zip(keys, answers, strict=True)}
    texts = {key: each.best.text for key, each in zip(keys, answers, strict=True)}
    _, f1 = question_scores(texts, gold, "2.0")
    found = best_null_threshold(f1, texts, odds, gold)
    num_without = sum(not each for each in gold.values())
    if found.score <= 100.0 * num_without / len(gold):
        return min(min(odds.values()) - _BEYOND, HIGHEST_ODDS)
    above = (each for each in odds.values() if found.threshold < each < math.inf)
    border = min(above, default=found.threshold + 2 * _BEYOND)
    middle = found.threshold / 2 + border / 2
    return min(middle if middle < border else found.threshold, HIGHEST_ODDS)


def with_threshold(answers: Sequence[FoundAnswer], threshold: float) -> list[FoundAnswer]:
    """The same answers, none where the null odds are above the threshold."""
    return [
        replace(each, text="" if each.null_odds > threshold else each.best.text) for each in answers
    ]


def how_scored(
    questions: Sequence[Question],
    answers: Sequence[FoundAnswer],
    config: SquadConfig,
    version: SquadVersion,
) -> str:
    """Whose evaluator scored these, when nothing was answered, how often it was or should be."""
    empty = sum(not each.text for each in answers)
    without = sum(not each.gold for each in questions)
    threshold = "no null threshold, since the model learned to answer always"
    if config.with_null:
        threshold = f"null threshold {config.null_threshold:.4g}"
    told = (
        f"{EVALUATORS[version]}; {threshold}: {empty:,} of {len(answers):,} answers "
        f"{'is' if empty == 1 else 'are'} empty, and {without:,} of {len(questions):,} questions "
        f"{'has' if without == 1 else 'have'} none"
    )
    return f"{told}: each empty one is wrong" if empty and not without else told


def _part(predictions: Mapping[str, str], gold: Gold, prefix: str) -> dict[str, float]:
    found = squad_scores(predictions, gold, "2.0")
    return {
        f"{prefix}exact": found.exact,
        f"{prefix}f1": found.f1,
        f"{prefix}total": found.num_questions,
    }


def _best(
    predictions: Mapping[str, str], gold: Gold, null_odds: Mapping[str, float]
) -> dict[str, float]:
    exact, f1 = question_scores(predictions, gold, "2.0")
    if missing := [key for key in exact if key not in null_odds]:
        raise ValueError(
            f"{len(missing):,} questions have a prediction and no null odds, the first is "
            f"{missing[0]!r}: both files must be of the same model and questions"
        )
    asked = {key: gold[key] for key in exact}
    best_exact, best_f1 = (
        best_null_threshold(scores, predictions, null_odds, asked) for scores in (exact, f1)
    )
    return {
        "best_exact": best_exact.score,
        "best_exact_thresh": best_exact.threshold,
        "best_f1": best_f1.score,
        "best_f1_thresh": best_f1.threshold,
    }
