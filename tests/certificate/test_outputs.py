"""Every check of what a model computes fails on a model, or on code, that is wrong in its way."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bertsmith.certificate import outputs
from bertsmith.certificate.outputs import CHECKS
from bertsmith.certificate.subject import Subject
from bertsmith.checkpoints import sentence_dense, sentence_transformers
from bertsmith.compiler import without_native
from bertsmith.model import attention, block_attention, cpu_norm, elementwise, padded, pooling
from bertsmith.model.sentence import DenseConfig, Pooling, SentenceConfig
from bertsmith.native import library
from tests.certificate.breaking import Break, names, row_of, saved, status, untied
from tests.checkpoints.fine_tuned import BILSTM_HEADS, HEADS, fine_tuned
from tests.model.dense import random_dense


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _, head = fine_tuned(HEADS["sequence_classification"])
    folder = saved(tmp_path_factory.mktemp("models") / "tiny", head=head)
    modules = [
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    return folder


def layers_exchanged(subject: Subject) -> None:
    layers = subject.model.bert.layers
    layers[0], layers[1] = layers[1], layers[0]


def another_epsilon(subject: Subject) -> None:
    subject.model.bert.layers[1].feed_forward.norm.eps = 1e-6


def another_gelu(subject: Subject) -> None:
    subject.model.bert.layers[0].feed_forward.activation = "gelu_tanh"


def queries_and_keys_exchanged(subject: Subject) -> None:
    qkv = subject.model.bert.layers[0].attention.qkv
    query, key, value = qkv.weight.data.clone().chunk(3)
    qkv.weight.data.copy_(torch.cat([key, query, value]))


def transposed(subject: Subject) -> None:
    weight = subject.model.bert.layers[0].attention.output.weight
    weight.data.copy_(weight.data.T.clone())


def one_weight_off(subject: Subject) -> None:
    subject.model.bert.layers[1].feed_forward.up.weight.data[0, 0] += 1e-5


def segments_exchanged(subject: Subject) -> None:
    weight = subject.model.bert.embeddings.segment.weight
    weight.data.copy_(weight.data.flip(0))


def last_position_off(subject: Subject) -> None:
    subject.model.bert.embeddings.position.weight.data[-1] += torch.linspace(0, 1e-3, 32)


def pooler_off(subject: Subject) -> None:
    subject.model.bert.pooler.bias.data[0] += 1e-4


def head_off(subject: Subject) -> None:
    subject.model.masked_lm.bias.data[3] += 1e-4


def columns_exchanged(subject: Subject) -> None:
    weight = subject.model.next_sentence.weight
    weight.data.copy_(weight.data.flip(0))


def labels_exchanged(subject: Subject) -> None:
    weight = subject.loaded.head.scores.weight
    weight.data.copy_(weight.data.flip(0))


IN_MODELS: list[tuple[str, Callable[[Subject], None]]] = [
    ("hidden_states", layers_exchanged),
    ("hidden_states", another_epsilon),
    ("hidden_states", another_gelu),
    ("hidden_states", queries_and_keys_exchanged),
    ("hidden_states", transposed),
    ("hidden_states", one_weight_off),
    ("hidden_states", segments_exchanged),
    ("every_position", last_position_off),
    ("pooled", pooler_off),
    ("masked_lm", head_off),
    ("masked_lm", untied),
    ("next_sentence", columns_exchanged),
    ("task_head", labels_exchanged),
]


def neighbours_seen(patch: pytest.MonkeyPatch) -> None:
    whole = attention.attend_without_gradient

    def as_one_sequence(qkv, stream, num_heads, direction):
        one = np.array([stream.num_tokens])
        return whole(qkv, replace(stream, lengths=one), num_heads, direction)

    patch.setattr(attention, "attend_without_gradient", as_one_sequence)


def neighbours_seen_in_training(patch: pytest.MonkeyPatch) -> None:
    def probabilities(scores, ends, direction):
        return torch.softmax(scores, dim=-1)

    patch.setattr(block_attention, "_probabilities", probabilities)


def padding_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(padded, "_visible", lambda is_real, direction: torch.ones(1, 1, 1, 1) > 0)


def sums_in_bfloat16(patch: pytest.MonkeyPatch) -> None:
    def widened(rows):
        return rows.bfloat16().float() if rows.dtype == torch.float32 else rows

    patch.setattr(elementwise, "widened", widened)


def special_tokens_left_out(patch: pytest.MonkeyPatch) -> None:
    def pooled(hidden, stream, each, num_before):
        lengths = stream.last_rows - stream.first_rows + 1
        return torch.stack([rows[1:-1].mean(dim=0) for rows in hidden.split(lengths.tolist())])

    patch.setattr(pooling, "_pooled", pooled)


IN_CODE: list[tuple[str, Break]] = [
    ("one_by_one", neighbours_seen),
    ("with_gradients", neighbours_seen),
    ("with_gradients", neighbours_seen_in_training),
    ("padded", neighbours_seen),
    ("padded", padding_seen),
    ("hidden_states", neighbours_seen),
    ("rounding", sums_in_bfloat16),
    ("sentences", special_tokens_left_out),
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_model_passes(check, folder: Path) -> None:
    assert status(check, Subject.read(folder)) == "passed"


@pytest.mark.parametrize(("name", "break_it"), IN_MODELS)
def test_a_check_fails_on_a_model_that_is_wrong_in_its_way(name: str, break_it, folder) -> None:
    subject = Subject.read(folder)
    break_it(subject)
    assert status(vars(outputs)[name], subject) == "failed"


@pytest.mark.parametrize(("name", "break_it"), IN_CODE)
def test_a_check_fails_on_code_that_is_wrong_in_its_way(
    name: str, break_it: Break, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    with without_native():  # the code that is broken, not its twin in C++
        assert status(vars(outputs)[name], Subject.read(folder)) == "failed"


def test_a_check_fails_on_functions_in_c_that_are_wrong(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = Subject.read(folder)
    if library(cpu_norm.SOURCE) is None:
        pytest.skip("no compiler here")
    norm = cpu_norm.add_and_norm

    def rounded(rows, residual, *rest):
        return norm(rows.bfloat16().float(), residual, *rest)

    monkeypatch.setattr(cpu_norm, "add_and_norm", rounded)
    assert status(outputs.rounding, subject) == "failed"


def test_every_check_was_shown_to_fail() -> None:
    assert {name for name, _ in IN_MODELS + IN_CODE} == names(CHECKS)


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
def test_one_directional_models_pass_too(tmp_path: Path, direction: str) -> None:
    objective = f"{direction}_lm"
    subject = Subject.read(saved(tmp_path / "m", objective, direction=direction))
    found = {check.__name__: status(check, subject) for check in CHECKS}
    spelt = direction.replace("_", "-")
    assert row_of(outputs.pooled, subject).found == f"this {spelt} model has no pooler"
    without = dict.fromkeys(("pooled", "next_sentence", "sentences"), "skipped")
    without["task_head"] = "skipped"
    assert found == {**dict.fromkeys(names(CHECKS), "passed"), **without}


@pytest.mark.parametrize("kind", HEADS)
def test_heads_of_every_kind_are_certified_and_a_bilstm_is_not(tmp_path: Path, kind) -> None:
    for heads, expected in ((HEADS, "passed"), (BILSTM_HEADS, "skipped")):
        _, head = fine_tuned(heads[kind])
        subject = Subject.read(saved(tmp_path / expected, head=head))
        assert status(outputs.task_head, subject) == expected


def test_a_left_to_right_model_pools_its_last_token_in_both(tmp_path: Path) -> None:
    objectives = ("left_to_right_lm", "next_sentence")
    subject = Subject.read(saved(tmp_path / "m", *objectives, direction="left_to_right"))
    assert status(outputs.pooled, subject) == "passed"
    assert status(outputs.next_sentence, subject) == "passed"


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_every_pooling_and_the_dense_layer_on_disk_are_certified(tmp_path, pooling) -> None:
    folder = saved(tmp_path / "m")
    layer = DenseConfig(in_features=32, out_features=7)
    own = SentenceConfig(pooling=(pooling,), dense=layer, is_normalized=True)
    sentence_transformers.write(folder, own, hidden_size=32)
    sentence_dense.write(folder, sentence_dense.dense_state(random_dense(layer)))
    subject = Subject.read(folder)
    row = row_of(outputs.sentences, subject)
    assert row.status == "passed"
    assert f"{pooling}, then a dense layer to 7 (tanh)" in row.expected
    subject.loaded.dense.linear.weight.data[0] *= -1
    assert status(outputs.sentences, subject) == "failed"


def test_sentence_vectors_that_cannot_be_made_are_skipped_with_the_reason(folder: Path) -> None:
    subject = Subject.read(folder)
    config = replace(subject.loaded.sentence, refusal="the module Dense is none")
    changed = replace(subject, loaded=replace(subject.loaded, sentence=config))
    row = row_of(outputs.sentences, changed)
    assert (row.status, row.found) == ("skipped", "the module Dense is none")


def test_a_decoder_of_its_own_has_the_bias_of_its_own_that_the_file_holds(tmp_path: Path) -> None:
    file = saved(tmp_path / "m") / "model.safetensors"
    tensors = load_file(file)
    for copy, original in (
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ):
        tensors[copy] = tensors[original].flip(0).contiguous()
    save_file(tensors, file)
    subject = Subject.read(file.parent)
    assert not subject.loaded.config.tie_word_embeddings
    assert status(outputs.masked_lm, subject) == "passed"


@pytest.mark.parametrize("activation", ["gelu_tanh", "relu", "silu", "tanh"])
def test_every_activation_equals_the_restated_one(tmp_path: Path, activation: str) -> None:
    subject = Subject.read(saved(tmp_path / "m", hidden_act=activation))
    assert status(outputs.hidden_states, subject) == "passed"
    assert status(outputs.masked_lm, subject) == "passed"


def test_the_model_comes_back_in_its_own_number_type_with_its_own_bits(folder: Path) -> None:
    subject = Subject.read(folder)
    before = {name: tensor.clone() for name, tensor in subject.model.state_dict().items()}
    with torch.no_grad():
        assert subject.of_short.hidden_states[0].dtype == "float64"
    after = subject.model.state_dict()
    assert all(torch.equal(before[name], tensor) for name, tensor in after.items())
    assert {tensor.dtype for tensor in after.values()} == {torch.float32}
