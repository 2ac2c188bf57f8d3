"""The ONNX graph computes what the packed model computes, for any number of texts of any length."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from bertsmith.batch import PackedBatch
from bertsmith.checkpoints import onnx
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.padded import INPUTS, PaddedBert
from bertsmith.model.sentence import SentenceConfig
from tests.checkpoints.tiny import tiny_config
from tests.model.plain import random_packed

BOTH = ("masked_lm", "next_sentence")
LEFT = ("left_to_right_lm",)
SENTENCE = SentenceConfig(pooling=("cls", "max", "mean"), is_normalized=True)
SHAPES = ([1], [24], [1, 1], [3, 2], [5, 24, 1, 7], [6] * 9)


def model_of(*objectives, outputs=(), sentence=None, dtype=torch.float32, **changes):
    model = PretrainModel(tiny_config(**changes), objectives)
    initialise(model, std=0.3, seed=3)
    return PaddedBert(model.to(dtype).eval(), outputs, sentence)


def session_of(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def difference(model, session, packed):
    """The largest difference of any output on real tokens; the padding holds noise."""
    found = session.run(list(model.outputs), onnx.padded_with_noise(packed, model, 4))
    real = packed.to_padded()[1].astype(bool)
    pairs = zip(found, onnx.packed_outputs(model, packed), strict=True)
    return max(
        float(np.abs((array[real] if array.ndim == 3 else array) - tensor.numpy()).max())
        for array, tensor in pairs
    )


def test_without_the_exporters_packages_the_extra_is_named(monkeypatch, tmp_path):
    for name in ("onnx", "onnxscript"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r"package onnx: pip install 'bertsmith\[onnx\]'"):
        onnx.write(tmp_path / "m.onnx", model_of())


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The pre-trained model whole, with sentence vectors."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    path = tmp_path_factory.mktemp("onnx") / onnx.FILE
    model = model_of(*BOTH, sentence=SENTENCE)
    onnx.write(path, model)
    return path, model


@pytest.mark.parity
@pytest.mark.parametrize("lengths", SHAPES, ids=str)
def test_every_output_is_equal_on_batches_of_every_shape(exported, lengths):
    path, model = exported
    assert len(model.outputs) == 5
    packed = random_packed(lengths, model.model.config.vocab_size, seed=len(lengths))
    # fp32 sums in another order; logits here reach several units.
    assert difference(model, session_of(path), packed) < 1e-5


@pytest.mark.parity
def test_inputs_and_outputs_are_named_and_their_axes_free(exported):
    session = session_of(exported[0])
    assert [(each.name, each.shape) for each in session.get_inputs()] == [
        (name, ["batch", "length"]) for name in INPUTS
    ]
    assert {each.name: each.shape for each in session.get_outputs()} == {
        "last_hidden_state": ["batch", "length", 32],
        "pooler_output": ["batch", 32],
        "sentence_embedding": ["batch", 96],
        "logits": ["batch", "length", 25],
        "seq_relationship_logits": ["batch", 2],
    }


@pytest.mark.parity
def test_the_file_tells_nothing_of_the_machine_that_wrote_it(exported):
    content = exported[0].read_bytes()
    assert b".py" not in content
    assert len(content) < 1.5 * 4 * sum(each.numel() for each in exported[1].parameters())


@pytest.mark.parity
def test_a_row_is_the_same_alone_and_among_longer_ones(exported):
    path, model = exported
    session, outputs = session_of(path), ["last_hidden_state", "logits", "sentence_embedding"]
    together = random_packed([4, 24, 9], model.model.config.vocab_size)
    alone = PackedBatch(
        token_ids=together.token_ids[:4], segment_ids=together.segment_ids[:4],
        lengths=together.lengths[:1], keys=together.keys[:1],
    )  # fmt: skip
    few = session.run(outputs, onnx.padded_with_noise(alone, model, 1))
    many = session.run(outputs, onnx.padded_with_noise(together, model, 2))
    for one, all_of_them in zip(few, many, strict=True):
        own = all_of_them[0, :4] if one.ndim == 3 else all_of_them[0]
        np.testing.assert_allclose(own, one[0], rtol=0, atol=2e-6)


@pytest.mark.parity
def test_the_check_compares_every_output_and_refuses_another_model(exported):
    path, model = exported
    found = onnx.check(path, model)
    assert found.runner.startswith("onnxruntime ")
    assert 0.0 < found.largest < 1e-5
    for name in ("masked_lm.bias", "next_sentence.bias", "bert.layers.1.attention.norm.weight"):
        parameter = model.model.get_parameter(name)
        before = parameter.detach().clone()
        parameter.data[-1] += 1e-2
        with pytest.raises(ValueError, match="the export is not to be used"):
            onnx.check(path, model)
        parameter.data.copy_(before)


@pytest.mark.parity
def test_without_onnxruntime_onnx_itself_checks(exported, monkeypatch):
    path, model = exported
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = onnx.check(path, model)
    assert found.runner == "ONNX's reference"
    assert found.largest < 1e-5


OTHERS = (
    ((*LEFT, "next_sentence"), {"direction": "left_to_right", "tie_word_embeddings": False}),
    (("right_to_left_lm",), {"direction": "right_to_left", "hidden_act": "relu"}),
    (BOTH, {"hidden_act": "gelu_tanh", "outputs": ("logits",)}),
    ((), {"hidden_act": "silu", "max_position_embeddings": 5}),
)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("objectives", "changes"),
    [OTHERS[0], *(pytest.param(*other, marks=pytest.mark.slow) for other in OTHERS[1:])],
)
def test_other_models_are_equal_too(tmp_path, objectives, changes):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = model_of(*objectives, num_hidden_layers=1, **changes)
    onnx.write(tmp_path / "m.onnx", model)
    assert onnx.check(tmp_path / "m.onnx", model).largest < 1e-5
    session = session_of(tmp_path / "m.onnx")
    packed = random_packed([5, 1, 3], model.model.config.vocab_size)
    assert difference(model, session, packed) < 1e-5
    assert [each.name for each in session.get_outputs()] == list(model.outputs)


@pytest.mark.slow
@pytest.mark.parity
def test_half_precision_and_weights_in_a_file_of_their_own(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    monkeypatch.setattr(onnx, "_LARGEST_FILE", 1000)
    model = model_of(*BOTH, dtype=torch.float16)
    onnx.write(tmp_path / "m.onnx", model)
    assert {file.name for file in tmp_path.iterdir()} == {"m.onnx", "m.onnx.data"}
    found = onnx.check(tmp_path / "m.onnx", model)
    assert 1e-5 < found.largest < 1e-2
