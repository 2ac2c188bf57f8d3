"""What the command line of pretrain asks for: typed values and a recipe's own stay."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tyro

from bertsmith.commands.decision import with_size
from bertsmith.commands.pretrain_options import Pretrain, defaults_of, request_of
from bertsmith.recipes.pretraining import RECIPES
from bertsmith.recipes.run import PretrainRun


def sized(*arguments: str) -> PretrainRun:
    """The run that these arguments ask for, with the size they name."""
    words = ["texts", *arguments]
    request = request_of(tyro.cli(Pretrain, args=words, default=defaults_of(words)))
    return with_size(request.run, request.size, request.brings)


@pytest.mark.parametrize(
    ("recipe", "size"), [("modern", "base"), ("modern", "mini"), ("paper-base", "large")]
)
def test_a_recipe_that_states_its_rate_and_initial_weights_keeps_them(
    recipe: str, size: str
) -> None:
    run, stated = sized("--recipe", recipe, "--size", size), RECIPES[recipe]()
    assert run.optimizer == stated.optimizer
    assert run.model.initializer_range == 0.02


@pytest.mark.parametrize(
    ("recipe", "size", "rate", "deviation"),
    [
        ("auto", "base", 3e-4, 0.02),
        ("mini-cpu", "tiny", 2e-3, 0.049),
        ("quickstart", "mini", 1e-3, 0.0346),
    ],
)
def test_a_short_runs_rate_and_initial_weights_come_with_the_size(
    recipe: str, size: str, rate: float, deviation: float
) -> None:
    run = sized("--recipe", recipe, "--size", size)
    assert run.optimizer.learning_rate == rate
    assert run.model.initializer_range == deviation


@pytest.mark.parametrize("rate", ["0.001", "0.005"])
def test_a_typed_rate_stays_even_where_it_is_the_recipes_own(rate: str) -> None:
    for typed in (["--optimizer.learning-rate", rate], [f"--optimizer.learning_rate={rate}"]):
        assert sized("--size", "base", *typed).optimizer.learning_rate == float(rate)


@pytest.mark.parametrize("deviation", ["0.0346", "0.01"])
def test_typed_initial_weights_stay(deviation: str) -> None:
    run = sized("--size", "base", "--model.initializer-range", deviation)
    assert run.model.initializer_range == float(deviation)


def test_a_value_set_in_python_stays() -> None:
    run = RECIPES["mini-cpu"]()
    run = replace(run, optimizer=replace(run.optimizer, learning_rate=5e-3))
    assert request_of(Pretrain(recipe="mini-cpu", run=run)).brings == {"initializer_range"}


def test_typed_numbers_of_steps_stay_whatever_the_number_of_all_steps() -> None:
    run = sized("--recipe", "mini-cpu", "--steps", "2000", "--save-every", "250", "--size", "mini")
    assert (run.num_steps, run.save_every) == (2_000, 250)
    assert (run.warmup_steps, run.evaluate_every) == (100, 200)


def test_a_size_and_a_field_that_it_decides_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="--size base decides layers, width"):
        sized("--size", "base", "--model.num-hidden-layers", "3")
