"""What the command line of pretrain asks for: typed values and a recipe's own stay."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import tyro

from bertsmith.commands.decision import with_size
from bertsmith.commands.pretrain_options import Pretrain, defaults_of
from bertsmith.commands.request import request_of, require_effective
from bertsmith.commands.text_options import LearnVocab, TextChoices, VocabularyChoices
from bertsmith.recipes.pretraining import RECIPES
from bertsmith.recipes.run import Phase, PretrainRun


def parsed(*arguments: str) -> Pretrain:
    return tyro.cli(Pretrain, args=arguments, default=defaults_of(arguments))


def sized(*arguments: str) -> PretrainRun:
    """The run that these arguments ask for, with the size they name."""
    request = request_of(parsed("texts", *arguments))
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


@pytest.mark.parametrize(
    "phases",
    ["--phases 60x32x32 60x128x8", "--phases=120x32x32", "--phases 5x8x8 --phases 120x32x32"],
)
def test_the_warm_up_keeps_its_share_of_typed_phases_and_steps(phases: str) -> None:
    typed = ("--recipe", "mini-cpu", *phases.split())
    for num_steps in (120, 1_200):
        run = sized(*typed, "--steps", str(num_steps), "--size", "tiny")
        assert (run.num_steps, run.warmup_steps) == (num_steps, num_steps // 20)
        assert run.evaluate_every == 2 * run.save_every == num_steps // 10
    run = sized(*typed, "--steps", "120", "--warmup-steps", "7", "--size", "tiny")
    assert (run.num_steps, run.warmup_steps) == (120, 7)


@pytest.mark.parametrize("layers", ["3", "4"])  # mini's own are 4
def test_a_size_and_a_field_that_it_decides_contradict_each_other(layers: str) -> None:
    with pytest.raises(ValueError, match="--size base decides layers, width"):
        sized("--size", "base", "--model.num-hidden-layers", layers)


@pytest.mark.parametrize(
    ("words", "size", "minutes"),
    [
        ((), "auto", 60.0),
        (("--steps", "10000"), "recipe", None),
        (("--phases", *map(str, RECIPES["mini-cpu"]().phases)), "recipe", None),
        (("--size", "tiny", "--steps=10000"), "tiny", None),
        (("--model.num-hidden-layers", "4"), "recipe", 60.0),
        (("--model.hidden_dropout_prob=0.1",), "recipe", 60.0),
    ],
)
def test_what_is_typed_counts_even_where_it_is_the_recipes_own(
    words: tuple[str, ...], size: str, minutes: float | None
) -> None:
    options = parsed("texts", *words)
    assert options.run == RECIPES["mini-cpu"]()
    request = request_of(options)
    assert (request.size, request.minutes, request.run) == (size, minutes, options.run)


def test_a_run_has_as_many_phases_as_are_typed() -> None:
    asked = ("texts", "--recipe", "mini-cpu", "--phases")
    run = request_of(parsed(*asked, "700x128x32", "--warmup-steps", "70")).run
    assert run.phases == (Phase(steps=700, sequence_length=128, batch_size=32),)
    phases = ("900x16x256", "900x32x128", "90x64x64", "9x128x32", "9x512x8")
    assert tuple(map(str, request_of(parsed(*asked, *phases)).run.phases)) == phases


@pytest.mark.parametrize("words", [("texts",), ("--steps", "9"), ("--no-dropout",), ("--cased",)])
def test_what_a_resumed_run_would_pass_over_is_refused(words: tuple[str, ...]) -> None:
    options = parsed("--resume", "run", *words)
    with pytest.raises(ValueError, match=f"--resume takes everything from run, {words[0]} incl"):
        require_effective(options)


def test_a_resumed_run_takes_another_machine() -> None:
    machine = ("--resume=run", "--threads", "2", "--device", "cpu", "--tensorboard")
    require_effective(parsed(*machine))
    with pytest.raises(ValueError, match="from run, --seed included"):
        require_effective(parsed(*machine, "--seed", "1"))


@pytest.mark.parametrize(
    "words", [("--vocab", "v"), ("--vocab_size=9",), ("--cased",), ("--no-cased",)]
)
def test_what_a_finished_corpus_settles_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    options = parsed(str(tmp_path), *words, "--workers", "1", "--seed", "1")
    require_effective(options)
    (tmp_path / "manifest.json").touch()
    option = words[0].partition("=")[0].replace("_", "-")
    with pytest.raises(ValueError, match=f"is a finished corpus, and {option} would change"):
        require_effective(options)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--vocab", "v", "--cased"), "v is a finished vocabulary, and --cased would change"),
        (
            ("--vocab", "v", "--vocab_size=9", "--no-split-cjk"),
            "--vocab-size, --no-split-cjk would",
        ),
        (("--model.vocab-size", "9"), "--model.vocab-size would change nothing: .* --vocab-size"),
    ],
)
def test_what_the_vocabulary_settles_is_refused(words: tuple[str, ...], answer: str) -> None:
    with pytest.raises(ValueError, match=answer):
        require_effective(parsed("texts", *words))


@pytest.mark.parametrize(
    "words",
    [
        ("--unicode-form", "NFC"),
        ("--no-split-cjk",),
        ("--min-count", "3"),
        ("--alphabet-limit", "90"),
        ("--score", "likelihood"),
        ("--min-pair-count", "9"),
        ("--unused-rows", "7"),
        ("--memory-mb", "99"),
    ],
)
def test_pretrain_learns_a_vocabulary_with_every_choice_of_learn_vocab(
    words: tuple[str, ...],
) -> None:
    learned = tyro.cli(LearnVocab, args=("texts", "--out", "vocab", *words)).vocabulary
    assert learned != VocabularyChoices()
    assert parsed("texts", *words).text.vocabulary == learned


@pytest.mark.parametrize("minutes", [0.0, -3.0, math.nan, math.inf])
def test_minutes_that_are_no_time_are_refused(minutes: float) -> None:
    with pytest.raises(ValueError, match="--minutes must be above 0"):
        request_of(Pretrain(texts=(Path("texts"),), minutes=minutes))


def test_a_model_brings_the_values_of_going_on_and_typed_ones_stay() -> None:
    assert parsed("texts", "--from", "mini-en").run == RECIPES["further"]()
    assert parsed("texts", "--from=mini-en", "--recipe", "modern").run == RECIPES["modern"]()
    request = request_of(parsed("texts", "--from", "mini-en"))
    assert request.model is not None
    assert request.model.place.name == "mini-en"
    assert (request.size, request.minutes) == ("recipe", 60.0)
    run = request.run
    assert (run.model.hidden_size, run.model.num_hidden_layers) == (256, 4)
    assert run.optimizer.learning_rate == 1.5e-4
    typed = ("--optimizer.learning-rate", "5e-5", "--steps", "200", "--no-dropout")
    run = request_of(parsed("texts", "--from", "mini-en", *typed)).run
    assert (run.optimizer.learning_rate, run.num_steps, run.warmup_steps) == (5e-5, 200, 10)
    assert not run.dropout


def test_a_request_without_a_model_is_what_it_was_before_there_were_any() -> None:
    asked = request_of(parsed("texts")).asked
    assert set(asked) == {"texts", "text", "recipe", "size", "minutes", "run"}


def test_a_form_that_was_not_chosen_is_recorded_as_runs_recorded_it_before_there_was_a_choice() -> (
    None
):
    recorded = TextChoices().to_json()["vocabulary"]
    assert isinstance(recorded, dict)
    assert recorded["unicode_form"] == "none"  # else the same command would be another run
