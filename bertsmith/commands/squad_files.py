"""Answers to SQuAD's questions -> the files that its official evaluator takes.

predictions.json has a text for each id, nbest_predictions.json the best candidates with their
probabilities and scores; null_odds.json, of a model that may give no answer, by how much the score
of none beats the best answer's (the evaluator's --na-prob-file).

Source: google-research/bert, run_squad.py, write_predictions; Rajpurkar et al. 2018,
evaluate-v2.0.py.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from bertsmith.files import atomic_file
from bertsmith.reading.squad_json import Question
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.squad_answers import Candidate, FoundAnswer
from bertsmith.tasks.squad_evaluation import HIGHEST_ODDS

PREDICTIONS, NBEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"

Add = Callable[[str, FoundAnswer], None]
"""Told of every question's id, with its answer."""


def write_squad_files(
    directory: Path,
    questions: Sequence[Question],
    answers: Sequence[FoundAnswer],
    config: SquadConfig,
) -> None:
    """Writes the answers to all questions."""
    with squad_files(directory, config) as add:
        for question, answer in zip(questions, answers, strict=True):
            add(question.key, answer)


@contextlib.contextmanager
def squad_files(directory: Path, config: SquadConfig) -> Iterator[Add]:
    """Takes answers one by one; the files appear when all are whole."""
    names = [PREDICTIONS, NBEST, *([NULL_ODDS] if config.with_null else [])]
    with contextlib.ExitStack() as files:
        written = [files.enter_context(_json_object(directory / name)) for name in names]

        def add(key: str, answer: FoundAnswer) -> None:
            nbest = [_candidate(each) for each in answer.candidates]
            values = (answer.text, nbest, min(answer.null_odds, HIGHEST_ODDS))
            for file, value in zip(written, values, strict=False):
                file.add(key, value)

        yield add
    for name in names:
        print(f"wrote {directory / name}", file=sys.stderr)
    if not config.with_null:
        print(f"no {NULL_ODDS}: to this model every question has an answer", file=sys.stderr)


class _JsonObject:
    """An object written entry by entry, so that it need not be held."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._begin = "{\n"

    def add(self, key: str, value: object) -> None:
        """One more entry."""
        entry = f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
        self._file.write(f"{self._begin}  {entry}".encode())
        self._begin = ",\n"

    def end(self) -> None:
        """Closes the object."""
        self._file.write(b"{}\n" if self._begin == "{\n" else b"\n}\n")


@contextlib.contextmanager
def _json_object(path: Path) -> Iterator[_JsonObject]:
    with atomic_file(path) as file:
        written = _JsonObject(file)
        yield written
        written.end()


def _candidate(candidate: Candidate) -> dict[str, object]:
    return {
        "text": candidate.text,
        "probability": candidate.probability,
        "start_logit": candidate.start_score,
        "end_logit": candidate.end_score,
    }
