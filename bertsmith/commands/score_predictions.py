"""`evaluate --predictions`: a file of predictions and one of questions -> SQuAD's official scores.

    bertsmith evaluate --predictions answers/predictions.json --squad dev-v1.1.json

No model is needed: any system's predictions are scored, question id -> text.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bertsmith.commands.finetune_options import Evaluate
from bertsmith.commands.sources.spans import SpanFiles
from bertsmith.commands.squad_files import PREDICTIONS
from bertsmith.commands.task_files import TaskFiles, TaskValues
from bertsmith.reading.squad_gold import Gold, read_gold, read_null_odds, read_predictions
from bertsmith.tasks.own import questions
from bertsmith.tasks.squad_evaluation import official_scores
from bertsmith.tasks.squad_scores import EVALUATORS, SquadVersion


def score_predictions(options: Evaluate, predictions: Path) -> None:
    """Prints the scores as the official evaluator does, as JSON; whose rules, on standard error.

    Version 2.0 is scored where the file marks questions that cannot be answered, KorQuAD where its
    version says so, unless another is named. Raises FileNotFoundError and ValueError for files that
    are none of the three.
    """
    for name, place in (("--report", options.report), ("--out", options.out)):
        if place is not None:
            raise ValueError(f"{name} is for what a model answers: leave it or --predictions out")
    squad = options.files.squad
    if squad is None:
        raise ValueError("--predictions needs --squad, the file of their questions")
    if options.models:
        raise ValueError(
            f"--predictions are scored without a model: leave {', '.join(options.models)} out, or "
            f"--predictions"
        )
    if predictions.is_dir():  # such as `predict` wrote
        predictions /= PREDICTIONS
    gold = _gold(options.files, squad)
    found = read_predictions(predictions)
    odds = read_null_odds(options.null_odds) if options.null_odds is not None else None
    decided: SquadVersion = options.squad_version or (
        "korquad" if gold.is_korquad else "2.0" if gold.has_unanswerable else "1.1"
    )
    if odds is not None and decided != "2.0":
        raise ValueError(
            f"--null-odds says when no answer is given, and {squad} is scored as {decided}, where "
            f"every question has one: leave it out, or name --squad-version 2.0"
        )
    known = found.keys() & gold.answers.keys()
    if not known:
        there = f"only other ids, {next(iter(found))!r} first" if found else "none at all"
        number = f"{len(gold.answers):,}"
        raise ValueError(
            f"{number} of {number} questions of {squad} have no prediction in {predictions}, which "
            f"holds {there}: expected an object of question id -> answer"
        )
    for count, told in (
        (len(gold.answers) - len(known), _MISSING[decided == "2.0"]),
        (len(found) - len(known), f"are of no question of {squad}, and not scored"),
    ):
        if count:
            print(f"note: {count:,} {told}", file=sys.stderr)
    print(f"note: {EVALUATORS[decided]}", file=sys.stderr)
    print(json.dumps(official_scores(found, gold.answers, decided, odds), indent=2))


def _gold(files: TaskFiles, path: Path) -> Gold:
    """The right answers of SQuAD's JSON, or of rows that are questions, as a model reads them."""
    if not questions.has_rows(path):
        return read_gold(path)
    asked = SpanFiles(files, TaskValues()).read(path, None).examples
    return Gold(
        answers={each.key: each.gold for each in asked},
        has_unanswerable=not all(each.gold for each in asked),
        is_korquad=False,
    )


_MISSING = {
    False: "questions have no prediction: each counts as wrong",
    True: "questions have no prediction, and are left out, as by the official evaluator",
}
