"""Scores of every token as start and end -> answers cut out of the passage, with probabilities.

An answer is the span whose start and end scores add up highest, in the passage's own characters.
A start counts only in the window where its token sees most of its surroundings. Where a question
may have no answer, it has none if the scores of `[CLS]` beat those of the best span by more than
the threshold. It knows no model and no gold answers.

Source: Devlin et al. 2018, sections 4.2 and 4.3; google-research/bert run_squad.py,
write_predictions.

Legend: n tokens of a window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bertsmith.batch import IntArray
from bertsmith.reading.squad_json import Question
from bertsmith.tasks.squad import EncodedQuestions, PassageWindow, SquadConfig

FloatArray = npt.NDArray[np.floating]


class Candidate(NamedTuple):
    """A possible answer."""

    text: str
    """Empty for no answer."""
    start: int
    """Its first character in the passage."""
    probability: float
    """Among the question's listed candidates."""
    start_score: float
    end_score: float


@dataclass(frozen=True, kw_only=True)
class FoundAnswer:
    """What a model answers to one question."""

    key: str
    """The question's id."""
    text: str
    """An exact piece of the passage; empty for no answer."""
    best: Candidate
    """The best answer that is not empty; of no probability where the passage has no words."""
    null_odds: float
    """The score of no answer above that of `best`; -inf where every question has one."""
    candidates: tuple[Candidate, ...]
    """The best first, each text once."""


def decode(
    questions: Sequence[Question],
    encoded: EncodedQuestions,
    scores: Sequence[FloatArray],
    config: SquadConfig,
) -> list[FoundAnswer]:
    """The answers to all questions, of each item's (n, 2) start and end scores."""
    spans_of: list[list[_Span]] = [[] for _ in questions]
    nulls: list[list[tuple[float, float]]] = [[] for _ in questions]
    for window, of_item in zip(encoded.windows, scores, strict=True):
        spans_of[window.question] += _best_spans(of_item, window, config)
        nulls[window.question].append((float(of_item[0, 0]), float(of_item[0, 1])))
    return [
        _answer(question, _candidates(question.passage, spans, where, config), null, config)
        for question, spans, null, where in zip(
            questions, spans_of, nulls, encoded.spans, strict=True
        )
    ]


class _Span(NamedTuple):
    """Tokens of a passage, the last one included."""

    start: int
    last: int
    start_score: float
    end_score: float


def _best_spans(scores: FloatArray, at: PassageWindow, config: SquadConfig) -> list[_Span]:
    """The window's `num_best` spans of at most `max_answer_tokens` tokens, in no order.

    Differs from the original code: that looks among the 20 best starts and the 20 best ends of the
    whole window, the question's included; here no span is overlooked.
    """
    window = at.window
    num_starts = window.kept_end - window.kept_start
    if num_starts <= 0:
        return []
    first = at.offset + window.kept_start - window.start
    starts = scores[first : first + num_starts, 0]
    ends = scores[first : at.offset + window.end - window.start, 1]
    longest = min(config.max_answer_tokens, len(ends))
    beyond = np.full(num_starts + longest - 1 - min(len(ends), num_starts + longest - 1), -np.inf)
    padded = np.concatenate([ends[: num_starts + longest - 1], beyond])
    sums = starts[:, None] + np.lib.stride_tricks.sliding_window_view(padded, longest)
    flat = sums.ravel()  # (num_starts * longest,)
    count = min(config.num_best, int(np.isfinite(flat).sum()))
    best = np.argpartition(-flat, count - 1)[:count]
    return [
        _Span(
            start=window.kept_start + start,
            last=window.kept_start + start + length,
            start_score=float(starts[start]),
            end_score=float(ends[start + length]),
        )
        for start, length in zip(*(each.tolist() for each in divmod(best, longest)), strict=True)
    ]


def _candidates(
    passage: str, spans: Sequence[_Span], where: IntArray, config: SquadConfig
) -> list[Candidate]:
    """The best spans as texts, each text once, the best first; not yet their probabilities."""
    ranked = sorted(spans, key=lambda span: (-(span.start_score + span.end_score), span))
    found: dict[str, Candidate] = {}
    for span in ranked:
        start, end = int(where[span.start, 0]), int(where[span.last, 1])
        text = passage[start:end]
        found.setdefault(text, Candidate(text, start, 0.0, span.start_score, span.end_score))
        if len(found) == config.num_best:
            break
    return list(found.values())


def _answer(
    question: Question,
    candidates: list[Candidate],
    nulls: Sequence[tuple[float, float]],
    config: SquadConfig,
) -> FoundAnswer:
    null = Candidate("", 0, 0.0, *min(nulls, key=sum))
    best = candidates[0] if candidates else Candidate("", 0, 0.0, -math.inf, -math.inf)
    null_odds = _score(null) - _score(best) if config.with_null else -math.inf
    if config.with_null or not candidates:
        candidates = sorted([*candidates, null], key=lambda each: -_score(each))
        if len(candidates) > config.num_best + 1:
            candidates = candidates[: config.num_best + 1]
    listed = _with_probabilities(candidates)
    return FoundAnswer(
        key=question.key,
        text="" if null_odds > config.null_threshold else best.text,
        best=next((each for each in listed if each.text), best),
        null_odds=null_odds,
        candidates=tuple(listed),
    )


def _score(candidate: Candidate) -> float:
    return candidate.start_score + candidate.end_score


def _with_probabilities(candidates: Sequence[Candidate]) -> list[Candidate]:
    scores = np.array([_score(each) for each in candidates])
    shares = np.exp(scores - scores.max())
    return [
        each._replace(probability=float(share))
        for each, share in zip(candidates, shares / shares.sum(), strict=True)
    ]
