"""The named runs say what the paper says, and differ where they say so."""

from __future__ import annotations

import pytest
import torch

from bertsmith.model.config import BASE, SIZES
from bertsmith.model.objectives import PretrainModel
from bertsmith.recipes.pretraining import (
    RECIPES,
    further,
    further_rate,
    modern,
    paper_base,
    paper_large,
)
from bertsmith.runs.planning import PEAK_RATES


def test_paper_base_is_the_papers_run() -> None:
    run = paper_base()
    assert [(p.steps, p.sequence_length, p.batch_size) for p in run.phases] == [
        (900_000, 128, 256),
        (100_000, 512, 256),
    ]
    assert run.warmup_steps == 10_000
    optimizer = run.optimizer
    assert (optimizer.name, optimizer.learning_rate) == ("bert_adam", 1e-4)
    assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon) == (0.9, 0.999, 1e-6)
    assert (optimizer.weight_decay, optimizer.clip_norm) == (0.01, 1.0)
    assert run.objectives == ("masked_lm", "next_sentence")
    assert (run.form, run.short_probability) == ("pairs", 0.1)
    masking = run.masking
    assert (masking.rate, masking.mask_share, masking.random_share) == (0.15, 0.8, 0.1)
    assert (run.model.hidden_dropout_prob, run.model.attention_probs_dropout_prob) == (0.1, 0.1)


@pytest.mark.parametrize(
    ("recipe", "parameters"), [(paper_base, 110_106_428), (paper_large, 336_226_108)]
)
def test_the_papers_models_have_the_released_number_of_parameters(
    recipe: object, parameters: int
) -> None:
    assert callable(recipe)
    run = recipe()
    with torch.device("meta"):
        model = PretrainModel(run.model, run.objectives)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_a_micro_batch_of_the_modern_recipe_has_16384_tokens_at_most() -> None:
    run = modern()
    for phase in run.phases:
        assert phase.batch_size * phase.sequence_length / run.accumulation <= 16_384


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_listed_under_its_own_name(name: str) -> None:
    assert RECIPES[name]().name == name


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_saves_and_evaluates_before_its_end(name: str) -> None:
    run = RECIPES[name]()
    assert run.save_every < run.num_steps
    assert run.evaluate_every < run.num_steps


def test_going_on_changes_learned_weights_less_than_a_start_and_replaces_none() -> None:
    run, paper = further(), paper_base()
    assert run.optimizer.learning_rate < paper.optimizer.learning_rate
    assert not run.count_embeddings
    assert not run.tile_positions
    assert (run.objectives, run.form, run.dropout) == (paper.objectives, paper.form, paper.dropout)


@pytest.mark.parametrize("size", SIZES)
def test_going_on_takes_a_sixth_of_the_rate_that_a_size_starts_with(size: str) -> None:
    assert 0.1 < further_rate(SIZES[size]) / PEAK_RATES[size] < 0.2
    assert further_rate(BASE) == 5e-5
