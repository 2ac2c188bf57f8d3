"""A run as a value: to JSON and back, stretched, and refused when it contradicts itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.model.config import BASE
from bertsmith.recipes.pretraining import RECIPES, mini_cpu, paper_base
from bertsmith.recipes.run import Phase, PretrainRun, from_json, stretched, to_json


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_survives_json(name: str) -> None:
    run = RECIPES[name]()
    assert from_json(json.loads(json.dumps(to_json(run)))) == run


@given(num_steps=st.integers(4, 3_000_000))
def test_stretching_gives_exactly_the_steps_and_keeps_the_shares(num_steps: int) -> None:
    run = stretched(paper_base(), num_steps)
    assert run.num_steps == num_steps
    assert run.phases[1].steps == pytest.approx(num_steps / 10, abs=1)
    assert run.warmup_steps == pytest.approx(num_steps / 100, abs=1)
    assert [phase.sequence_length for phase in run.phases] == [128, 512]


def test_stretching_to_the_same_steps_changes_nothing() -> None:
    assert stretched(mini_cpu(), mini_cpu().num_steps) == mini_cpu()


def test_a_run_too_short_for_its_phases_is_refused() -> None:
    with pytest.raises(ValueError, match="2 phases needs at least 4 steps, found 3"):
        stretched(paper_base(), 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phases": ()}, "at least one phase"),
        ({"warmup_steps": 10_000_000}, "warmup_steps must be in"),
        ({"keep_checkpoints": 0}, "keep_checkpoints must be at least 1, found 0"),
        ({"loader_workers": -1}, "loader_workers must not be negative, found -1"),
        ({"phases": (Phase(steps=20_000, sequence_length=1024),)}, "only 512 positions"),
        ({"model": replace(BASE, type_vocab_size=1)}, "'pairs' needs a second segment"),
        ({"form": "one_segment"}, "next_sentence needs the form 'pairs'"),
    ],
)
def test_a_contradiction_is_refused_with_what_was_found(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PretrainRun(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["steps", "batch_size"])
def test_a_phase_without_a_step_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} of a phase must be at least 1, found 0"):
        Phase(**{"steps": 1, field: 0})


def test_a_phase_survives_a_word() -> None:
    phase = Phase(steps=900_000, sequence_length=128, batch_size=256)
    assert str(phase) == "900000x128x256"
    assert Phase.parse(str(phase)) == phase


@pytest.mark.parametrize("text", ["", "9x16", "9x16x8x1", "9x-16x8", "9 x 16 x 8", "ninex16x8"])
def test_a_word_that_is_no_phase_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="STEPSxLENGTHxBATCH, such as 900000x128x256"):
        Phase.parse(text)
