"""Answers are the original's, and exact pieces of the passage."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest

from bertsmith.reading.squad_json import Question, read_questions
from bertsmith.tasks.squad import EncodedQuestions, SquadConfig, encode
from bertsmith.tasks.squad_answers import decode
from bertsmith.text.tokenizer import Tokenizer
from tests.tasks import passages
from tests.tasks.passages import PASSAGE, SMALL, passage_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return passage_tokenizer()


def _scores(encoded: EncodedQuestions, seed: int) -> list[np.ndarray]:
    draws = np.random.default_rng(seed)
    return [draws.normal(size=(len(item.token_ids), 2)) for item in encoded.labelled.items]


def _plain(
    question: Question, encoded: EncodedQuestions, scores: list[np.ndarray], config: SquadConfig
) -> tuple[str, float]:
    """write_predictions of run_squad.py, looking at every span: the answer and the null odds."""
    found, null = [], math.inf
    for window, of_item in zip(encoded.windows, scores, strict=True):
        null = min(null, of_item[0, 0] + of_item[0, 1])
        tokens = range(window.window.start, window.window.end)
        for start, end in itertools.product(tokens, tokens):
            is_max_context = window.window.kept_start <= start < window.window.kept_end
            if not is_max_context or not start <= end < start + config.max_answer_tokens:
                continue
            row = window.offset - window.window.start
            found.append((of_item[start + row, 0] + of_item[end + row, 1], start, end))
    score, start, end = max(found)
    spans = encoded.spans[0]
    text = question.passage[spans[start, 0] : spans[end, 1]]
    odds = null - score
    return ("" if config.with_null and odds > config.null_threshold else text), odds


@pytest.mark.parametrize("with_null", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_answers_equal_those_of_a_search_through_every_span(
    tokenizer: Tokenizer, seed: int, with_null: bool
) -> None:
    config = SquadConfig(
        max_tokens=20, doc_stride=4, max_question_tokens=6, max_answer_tokens=5,
        with_null=with_null, null_threshold=-4.0,
    )  # fmt: skip
    question = passages.question("a", "Who won?")
    encoded = encode([question], tokenizer, config)
    scores = _scores(encoded, seed)
    (answer,) = decode([question], encoded, scores, config)
    text, odds = _plain(question, encoded, scores, config)
    assert answer.text == text
    assert answer.null_odds == (pytest.approx(odds) if with_null else -math.inf)
    assert answer.best.text in PASSAGE
    start = answer.best.start
    assert PASSAGE[start : start + len(answer.best.text)] == answer.best.text


def test_candidates_are_ranked_different_and_share_one_probability(tokenizer: Tokenizer) -> None:
    config = SquadConfig(
        max_tokens=40, doc_stride=4, max_question_tokens=6, num_best=7, with_null=True
    )
    question = passages.question("a", "Who?", passage="in in in in physics in physics")
    encoded = encode([question], tokenizer, config)
    (answer,) = decode([question], encoded, _scores(encoded, 1), config)
    texts = [candidate.text for candidate in answer.candidates]
    assert len(texts) == len(set(texts)) <= config.num_best + 1
    assert "" in texts
    assert sum(candidate.probability for candidate in answer.candidates) == pytest.approx(1.0)
    ranks = [candidate.probability for candidate in answer.candidates]
    assert ranks == sorted(ranks, reverse=True)
    assert answer.best in answer.candidates


def test_a_passage_without_words_has_no_answer(tokenizer: Tokenizer) -> None:
    question = passages.question("a", "Who?", passage=" ")
    encoded = encode([question], tokenizer, SMALL)
    (answer,) = decode([question], encoded, _scores(encoded, 0), SMALL)
    assert (answer.text, [each.text for each in answer.candidates]) == ("", [""])


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "vocabulary", "most_wrong"),
    # Where a token runs on past the answer (a year and its comma; in Korean a noun and its
    # particle) no span of tokens is the answer.
    [("squad/dev-v1.1.json.gz", "bert-base-uncased", 0.02),
     ("korean/korquad/KorQuAD_v1.0_dev.json.gz", "kr-bert-char", 0.15)],
)  # fmt: skip
def test_scores_that_point_at_the_gold_answers_give_them_back(
    name: str, vocabulary: str, most_wrong: float
) -> None:
    data = Path(os.environ["BERTSMITH_DATA"])
    tokenizer = Tokenizer.load(data / "vocab" / vocabulary / "vocab.txt")
    questions = read_questions(data / name).questions[:2000]
    config = SquadConfig(max_answer_tokens=80)
    encoded = encode(questions, tokenizer, config)
    scores = []
    for item, target in zip(encoded.labelled.items, encoded.labelled.targets, strict=True):
        of_item = np.zeros((len(item.token_ids), 2))
        if target.any():
            of_item[target[0], 0] = of_item[target[1], 1] = 9.0
        scores.append(of_item)
    answers = decode(questions, encoded, scores, config)
    wrong = [
        (answer.text, question.answers[0].text)
        for answer, question in zip(answers, questions, strict=True)
        if answer.text.strip() != question.answers[0].text.strip()
    ]
    assert len(wrong) < most_wrong * len(questions), wrong[:20]
