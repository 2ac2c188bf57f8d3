"""The paper's pre-training runs: what is said of them beyond their list of values."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bertsmith.model.config import BASE, LARGE, TINY
from bertsmith.recipes.pretraining import paper_base, paper_large
from bertsmith.runs.training import trainee

WORDS = 800e6 + 2_500e6  # BooksCorpus and English Wikipedia


def test_large_is_trained_like_base() -> None:
    large = paper_large()
    assert large.model == LARGE
    assert replace(large, name="paper-base", model=BASE) == paper_base()


def test_the_papers_runs_keep_dropout_on_and_ten_copies_of_the_masks() -> None:
    run = paper_base()
    assert run.dropout
    assert run.masking.fixed_copies == 10
    assert not run.masking.whole_word


def test_forty_epochs_count_every_step_at_length_512() -> None:
    run = paper_base()
    assert run.num_steps == 1_000_000
    assert 256 * 512 * run.num_steps / WORDS == pytest.approx(39.7, abs=0.05)
    places = sum(p.steps * p.batch_size * p.sequence_length for p in run.phases)
    assert places == 42_598_400_000
    assert places / WORDS == pytest.approx(12.9, abs=0.05)


def test_one_schedule_runs_over_both_phases() -> None:
    run = replace(paper_base(), model=replace(TINY, vocab_size=100))
    rate = trainee(run, torch.device("cpu")).schedule.rate
    assert rate(0) == 0.0
    assert rate(5_000) == 0.5
    assert rate(10_000) == 0.99
    assert rate(900_000) == pytest.approx(0.1)  # the first step at length 512
    assert 0.0 < rate(999_999) < 1e-5
