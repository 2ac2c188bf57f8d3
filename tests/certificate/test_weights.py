"""Every check of a model's configuration and weights fails on a model that is wrong in its way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bertsmith.certificate import weights
from bertsmith.certificate.rows import under
from bertsmith.certificate.subject import Subject
from bertsmith.certificate.weights import CHECKS
from tests.certificate.breaking import names, row_of, saved, status, untied


def a_nan(subject: Subject) -> None:
    subject.model.bert.layers[1].feed_forward.up.weight.data[3, 4] = torch.nan


def an_infinity(subject: Subject) -> None:
    subject.model.masked_lm.bias.data[3] = torch.inf


def a_dead_norm(subject: Subject) -> None:
    subject.model.bert.layers[0].attention.norm.weight.data.zero_()


def a_huge_norm(subject: Subject) -> None:
    subject.model.masked_lm.norm.weight.data.mul_(1e5)


def a_constant_matrix(subject: Subject) -> None:
    subject.model.bert.layers[0].feed_forward.down.weight.data.fill_(0.25)


def a_layer_twice(subject: Subject) -> None:
    first, second = subject.model.bert.layers
    second.load_state_dict(first.state_dict())


def pad_row_zero(subject: Subject) -> None:
    subject.model.bert.embeddings.token.weight.data[0] = 0.0


def one_layer_less(subject: Subject) -> None:
    del subject.model.bert.layers[1]


def one_bias_less(subject: Subject) -> None:
    subject.model.bert.layers[0].feed_forward.up.bias = None


BREAKS: list[tuple[str, Callable[[Subject], None]]] = [
    ("finite", a_nan),
    ("finite", an_infinity),
    ("norms", a_dead_norm),
    ("norms", a_huge_norm),
    ("matrices", a_constant_matrix),
    ("matrices", a_layer_twice),
    ("pad_row", pad_row_zero),
    ("tied_decoder", untied),
    ("parameter_count", untied),
    ("parameter_count", one_layer_less),
    ("parameter_count", one_bias_less),
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_model_passes(check, folder: Path) -> None:
    assert status(check, Subject.read(folder)) == "passed"


@pytest.mark.parametrize(("name", "break_it"), BREAKS)
def test_a_check_fails_on_a_model_that_is_wrong_in_its_way(name: str, break_it, folder) -> None:
    subject = Subject.read(folder)
    break_it(subject)
    assert status(vars(weights)[name], subject) == "failed"


def test_every_check_was_shown_to_fail() -> None:
    in_configs = {"configuration", "activation", "epsilon"}
    assert {name for name, _ in BREAKS} | in_configs == names(CHECKS)


@pytest.mark.parametrize("wrong", [{"initializer_range": -0.02}, {"initializer_range": 2.0}])
def test_a_configuration_that_nobody_can_train_fails(tmp_path, wrong) -> None:
    row = row_of(weights.configuration, Subject.read(saved(tmp_path / "m", **wrong)))
    assert row.status == "failed"
    assert next(iter(wrong)) in row.found


@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right", "right_to_left"])
def test_the_configuration_names_the_direction(tmp_path, direction) -> None:
    objective = "masked_lm" if direction == "bidirectional" else f"{direction}_lm"
    subject = Subject.read(saved(tmp_path / "m", objective, direction=direction))
    row = row_of(weights.configuration, subject)
    assert row.found.endswith(f"24 positions, {direction.replace('_', '-')}")


def test_a_model_of_one_segment_fails(tmp_path) -> None:
    own = saved(tmp_path / "m", type_vocab_size=1)
    tensors = load_file(own / "model.safetensors")
    name = "bert.embeddings.token_type_embeddings.weight"
    save_file({**tensors, name: tensors[name][:1].clone()}, own / "model.safetensors")
    row = row_of(weights.configuration, Subject.read(own))
    assert row.found == "type_vocab_size is 1, expected at least 2"


def test_tanh_gelu_fails_under_the_paper_and_is_known_with_its_size_under_google(tmp_path) -> None:
    subject = Subject.read(saved(tmp_path / "m", hidden_act="gelu_tanh"))
    row = row_of(weights.activation, subject)
    assert row.status == "failed"
    assert "moves the hidden states by" in row.found
    size = float(row.found.rsplit("by ", 1)[1].split()[0])
    assert 1e-6 < size < 1e-2
    assert under(row, "google").status == "known difference"
    assert under(row, "huggingface").status == "failed"


@pytest.mark.parametrize("activation", ["relu", "silu", "tanh"])
def test_another_activation_fails_under_every_profile(tmp_path, activation: str) -> None:
    row = row_of(weights.activation, Subject.read(saved(tmp_path / "m", hidden_act=activation)))
    assert {under(row, profile).status for profile in ("paper", "google", "huggingface")} == {
        "failed"
    }


def test_another_epsilon_is_known_to_transformers_only_where_it_is_small(tmp_path) -> None:
    row = row_of(weights.epsilon, Subject.read(saved(tmp_path / "m", layer_norm_eps=1e-5)))
    assert row.status == "failed"
    assert "moves the hidden states by" in row.found
    assert under(row, "huggingface").status == "known difference"
    row = row_of(weights.epsilon, Subject.read(saved(tmp_path / "n", layer_norm_eps=1e-2)))
    assert under(row, "huggingface").status == "failed"


def test_a_decoder_of_its_own_on_disk_is_untied_with_its_size(folder: Path, tmp_path) -> None:
    own = saved(tmp_path / "m")
    tensors = load_file(own / "model.safetensors")
    decoder = tensors["bert.embeddings.word_embeddings.weight"].clone()
    decoder[5, 6] += 0.5
    save_file({**tensors, "cls.predictions.decoder.weight": decoder}, own / "model.safetensors")
    row = row_of(weights.tied_decoder, Subject.read(own))
    assert row.status == "failed"
    assert "5.0e-01" in row.found
    assert under(row, "huggingface").status == "known difference"
    assert status(weights.parameter_count, Subject.read(own)) == "passed"


def test_a_bare_encoder_has_no_decoder_to_tie(tmp_path) -> None:
    own = saved(tmp_path / "m")
    tensors = load_file(own / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith("cls.")}
    save_file(kept, own / "model.safetensors")
    subject = Subject.read(own)
    assert status(weights.tied_decoder, subject) == "skipped"
    assert status(weights.parameter_count, subject) == "passed"
