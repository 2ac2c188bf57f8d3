from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cloze
from benchmarks.cloze import FOLDER, measure, model_answers, scores, table
from benchmarks.questions import KINDS, Cloze, Question, pose, read_clozes
from bertsmith.corpus.manifest import Manifest
from bertsmith.text.tokenizer import Tokenizer
from tests.benchmarks.small import small_corpus, small_predictor

ROWS = (
    '{"text": "Paris is the [MASK] of France.", "answers": ["capital"], "kind": "knowledge"}\n'
    '{"text": "He play[MASK] the dog. The dog was hairy.", "answers": ["s", "ing"], '
    '"kind": "grammar"}\n'
    '{"text": "The [MASK] was hairy.", "answers": ["elephant"], "kind": "both_sides"}\n'
)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_file_holds_200_different_questions_40_of_each_kind(language: str) -> None:
    clozes = read_clozes(FOLDER / f"{language}.jsonl")
    assert len({each.text for each in clozes}) == len(clozes) == 200
    assert Counter(each.kind for each in clozes) == dict.fromkeys(KINDS, 40)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_answers_are_up_to_three_different_words(language: str) -> None:
    for each in read_clozes(FOLDER / f"{language}.jsonl"):
        assert 1 <= len(set(each.answers)) == len(each.answers) <= 3, each
        assert all(answer.isalnum() for answer in each.answers), each


@pytest.mark.data
def test_the_released_vocabulary_can_be_asked_nearly_every_english_question() -> None:
    data = Path(os.environ["BERTSMITH_DATA"])
    tokenizer = Tokenizer.load(data / "vocab/bert-base-uncased")
    posed = [pose(each, tokenizer, "en") for each in read_clozes(FOLDER / "en.jsonl")]
    assert sum(question is None for question in posed) <= 2


def test_scores_count_an_accepted_token_among_the_first_or_the_first_five() -> None:
    questions = [
        _question({7}, "grammar"),
        _question({8, 9}, "grammar"),
        _question({3}, "discourse"),
    ]
    found = scores(questions, {"model": [[7, 1], [1, 2, 3, 4, 9], [1, 2, 4, 5, 6]]})
    assert found["all"].questions == 3
    assert found["all"].top_1["model"] == pytest.approx(1 / 3)
    assert found["all"].top_5["model"] == pytest.approx(2 / 3)
    assert (found["grammar"].top_1["model"], found["grammar"].top_5["model"]) == (0.5, 1.0)
    assert found["collocation"].questions == 0


def test_the_model_answers_as_fill_mask_does_where_both_can_be_asked() -> None:
    predictor = small_predictor()
    texts = ["the [MASK] was hairy .", "my dog likes [MASK] . he likes the dog .", "[MASK] is he ?"]
    clozes = [Cloze(text=text, answers=("dog",), kind="grammar") for text in texts]
    posed = [pose(each, predictor.tokenizer, "en") for each in clozes]
    expected = [
        [candidate.token_id for candidate in filled.masks[0]]
        for filled in predictor.fill_mask(texts, top_k=5)
    ]
    assert model_answers(predictor, [each for each in posed if each is not None]) == expected


def test_a_row_says_what_was_asked_what_was_left_out_and_how_all_fared(
    corpus: Path, few_questions: None
) -> None:
    row = measure(small_predictor(), corpus, "en", 16)
    assert (row.questions, row.questions_left_out, row.answers_left_out) == (2, 1, 0)
    assert row.scores["knowledge"].top_1["trigram"] == 1.0
    assert row.scores["grammar"].top_1["trigram_both_sides"] == 1.0
    assert set(row.scores["all"].top_5) == {"model", *cloze.SYSTEMS}
    assert row.held_out_sequences > 0
    assert row.held_out["evaluation_perplexity"] > 1
    assert 0 <= row.held_out["evaluation_next_accuracy"] <= 1
    assert "2 questions (1 left out" in table(row)


def test_held_out_figures_are_the_same_every_time(corpus: Path, few_questions: None) -> None:
    first, second = (measure(small_predictor(), corpus, "en", 8) for _ in range(2))
    assert first.held_out == second.held_out


def test_a_model_of_another_vocabulary_is_refused(corpus: Path) -> None:
    manifest = replace(Manifest.read(corpus), vocabulary_fingerprint="1" * 64)
    manifest.write(corpus)
    with pytest.raises(ValueError, match="does not belong to the corpus"):
        measure(small_predictor(), corpus, "en", 8)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return small_corpus(tmp_path / "corpus")


@pytest.fixture
def few_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "en.jsonl").write_text(ROWS, encoding="utf-8")
    monkeypatch.setattr(cloze, "FOLDER", tmp_path)


def _question(answers: set[int], kind: str) -> Question:
    return Question(
        token_ids=np.array([], dtype=np.int32),
        place=0,
        answers=frozenset(answers),
        kind=kind,
        window=(),
        num_left_out=0,
    )
