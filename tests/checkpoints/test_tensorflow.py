import json
import shutil
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import gelu

from bertsmith.checkpoints import tensor_bundle, tensorflow
from bertsmith.checkpoints.config_json import config_from_json
from bertsmith.checkpoints.names import from_hugging_face, to_hugging_face
from bertsmith.checkpoints.sorted_table import read_table, write_table
from bertsmith.files import read_json
from bertsmith.model.config import BASE, LARGE_CASED
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from tests.checkpoints.golden.make_tensorflow import (
    CONFIG,
    GOOGLE,
    TYPES,
    google_arrays,
    type_arrays,
    values,
    variables,
)
from tests.checkpoints.test_config_json import RELEASED


def weights():
    """The weights alone of the golden checkpoint, under the original's names."""
    return {name: google_arrays()[name] for name in variables()}


def test_the_originals_checkpoint_gives_hugging_face_tensors():
    tensors, _ = tensorflow.read(GOOGLE)
    written = weights()
    assert len(tensors) == len(written)
    for google, name in (
        ("bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight"),
        ("bert/encoder/layer_1/output/dense/bias", "bert.encoder.layer.1.output.dense.bias"),
        ("cls/predictions/transform/LayerNorm/gamma", "cls.predictions.transform.LayerNorm.weight"),
        ("cls/predictions/output_bias", "cls.predictions.bias"),
        ("cls/seq_relationship/output_weights", "cls.seq_relationship.weight"),
    ):
        assert torch.equal(tensors[name], torch.from_numpy(written[google]))
    for google, name in (
        ("bert/encoder/layer_0/intermediate/dense", "bert.encoder.layer.0.intermediate.dense"),
        ("bert/encoder/layer_1/attention/self/key", "bert.encoder.layer.1.attention.self.key"),
        ("bert/pooler/dense", "bert.pooler.dense"),
    ):
        assert torch.equal(
            tensors[f"{name}.weight"], torch.from_numpy(written[f"{google}/kernel"]).T
        )
        assert torch.equal(tensors[f"{name}.bias"], torch.from_numpy(written[f"{google}/bias"]))
    assert all(tensor.is_contiguous() for tensor in tensors.values())


def test_it_is_the_model_that_its_config_describes():
    config = config_from_json(read_json(GOOGLE.with_name("bert_config.json")))
    with torch.device("meta"):
        model = PretrainModel(config, ("masked_lm", "next_sentence"))
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    state, left_aside = from_hugging_face(tensorflow.read(GOOGLE)[0], expected)
    assert state.keys() == expected.keys()
    assert left_aside == ()


def test_the_optimizer_is_left_aside_counted_in_a_note_and_named_in_full():
    _, (of_training,) = tensorflow.read(GOOGLE)
    count = len(variables())
    assert of_training.note == (
        f"left aside, of the training and its optimizer: {count} adam_m, {count} adam_v, "
        f"global_step"
    )
    slots = {f"{name}/{slot}" for name in variables() for slot in ("adam_m", "adam_v")}
    assert set(of_training.names) == {*slots, "global_step"}


def test_slots_are_known_by_their_variable_whatever_the_optimizer_calls_them(tmp_path):
    kernel = np.ones((2, 2), np.float32)
    tensor_bundle.write(
        tmp_path / "m.ckpt",
        {
            "my_head/kernel": kernel,
            "my_head/kernel/SomeOptimizer": kernel,
            "my_head/kernel/Lion/m": kernel,
            "lost/kernel/adam_v": kernel,
            "training/beta1_power": np.float32(0.9),
        },
    )
    tensors, left_aside = tensorflow.read(tmp_path / "m.ckpt")
    assert list(tensors) == ["my_head/kernel"]
    assert [group.note for group in left_aside] == [
        "left aside, of the training and its optimizer: adam_v, m, SomeOptimizer, beta1_power"
    ]


def test_an_unknown_variable_keeps_its_name_and_its_axes(tmp_path):
    turned = values("my_head/kernel", (3, 2))
    tensor_bundle.write(tmp_path / "m.ckpt", {"my_head/projection": turned})
    tensors, left_aside = tensorflow.read(tmp_path / "m.ckpt")
    assert torch.equal(tensors["my_head/projection"], torch.from_numpy(turned))
    assert left_aside == ()


def test_what_holds_no_numbers_is_left_aside_and_named(tmp_path):
    with pytest.raises(ValueError, match="types/partitioned is partitioned"):
        tensorflow.read(TYPES)
    for file in TYPES.parent.iterdir():
        shutil.copy(file, tmp_path)
    rows = [(row.key, row.value) for row in read_table(tensor_bundle.index_of(TYPES))]
    with tensor_bundle.index_of(tmp_path / TYPES.name).open("wb") as file:
        write_table(file, [row for row in rows if row[0] != b"types/partitioned"])
    tensors, (no_numbers,) = tensorflow.read(tmp_path / TYPES.name)
    assert tensors.keys() == type_arrays().keys()
    assert no_numbers.note == "left aside, no numbers: types/complex64, types/string"


def test_fine_tuned_heads_are_read_as_a_classifier_and_a_span_head(tmp_path):
    matrix, bias = values("output_weights", (3, 8)), values("output_bias", (3,))
    tensor_bundle.write(tmp_path / "c.ckpt", {"output_weights": matrix, "output_bias": bias})
    tensors, _ = tensorflow.read(tmp_path / "c.ckpt")
    assert torch.equal(tensors["classifier.weight"], torch.from_numpy(matrix))
    assert torch.equal(tensors["classifier.bias"], torch.from_numpy(bias))
    tensor_bundle.write(
        tmp_path / "s.ckpt", {"cls/squad/output_weights": matrix, "cls/squad/output_bias": bias}
    )
    assert tensorflow.read(tmp_path / "s.ckpt")[0].keys() == {
        "qa_outputs.weight",
        "qa_outputs.bias",
    }


def test_what_is_read_is_written_again_under_the_originals_names(tmp_path):
    tensors, _ = tensorflow.read(GOOGLE)
    tensorflow.write(tmp_path / "again.ckpt", tensors)
    written = tensor_bundle.TensorBundle.open(tmp_path / "again.ckpt")
    assert written.entries.keys() == weights().keys()
    for name, array in weights().items():
        assert np.array_equal(written.read(name), array)
    again, left_aside = tensorflow.read(tmp_path / "again.ckpt")
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensor) for name, tensor in tensors.items())
    assert left_aside == ()


def test_a_model_of_ours_survives_there_and_back_to_the_bit(tmp_path):
    config = replace(config_from_json(CONFIG), num_hidden_layers=11)
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=0.3, seed=1)
    state = model.state_dict()
    tensorflow.write(tmp_path / "m.ckpt", to_hugging_face(state))
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    back, _ = from_hugging_face(tensorflow.read(tmp_path / "m.ckpt")[0], shapes)
    assert all(torch.equal(back[name], tensor) for name, tensor in state.items())


def test_half_precision_is_widened_and_more_is_refused(tmp_path):
    half = torch.tensor([0.1, -3.0], dtype=torch.bfloat16)
    tensorflow.write(tmp_path / "m.ckpt", {"classifier.bias": half})
    read = tensorflow.read(tmp_path / "m.ckpt")[0]["classifier.bias"]
    assert read.dtype == torch.float32
    assert torch.equal(read, half.float())
    with pytest.raises(ValueError, match=r"classifier\.bias holds torch\.float64, expected"):
        tensorflow.write(tmp_path / "m.ckpt", {"classifier.bias": half.double()})


def test_parameters_that_the_original_lacks_are_refused_together(tmp_path):
    state = {
        "bert.pooler.dense.bias": torch.zeros(2),
        "cls.predictions.decoder.weight": torch.zeros(2),
    }
    state["lstm.weight"] = torch.zeros(2)
    with pytest.raises(ValueError, match=r"cls\.predictions\.decoder\.weight, lstm\.weight"):
        tensorflow.write(tmp_path / "m.ckpt", state)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_tensorflow_2_objects_is_refused_for_what_it_is(tmp_path):
    tensor_bundle.write(
        tmp_path / "m.ckpt",
        {
            "_CHECKPOINTABLE_OBJECT_GRAPH": np.zeros(2, np.uint8),
            "model/layer/.ATTRIBUTES/VARIABLE_VALUE": np.zeros(2, np.float32),
        },
    )
    with pytest.raises(ValueError, match="checkpoint of TensorFlow 2's objects"):
        tensorflow.read(tmp_path / "m.ckpt")


def test_the_optimizer_costs_no_memory(tmp_path):
    kernel = np.ones((1024, 1024), np.float32)
    name = "bert/pooler/dense/kernel"
    tensor_bundle.write(
        tmp_path / "m.ckpt", {name: kernel} | {f"{name}/adam_{slot}": kernel for slot in "mvwxyz"}
    )
    tracemalloc.start()
    tensors, _ = tensorflow.read(tmp_path / "m.ckpt")
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(tensors) == ["bert.pooler.dense.weight"]
    assert held < kernel.nbytes + (1 << 19)
    assert peak < 2 * kernel.nbytes + (3 << 20)  # the matrix turned round, and one read


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_the_config_is_written_as_google_released_it(tmp_path, activation):
    path = tmp_path / "bert_config.json"
    (note,) = tensorflow.write_config(path, replace(BASE, hidden_act=activation))
    assert path.read_text() == json.dumps(RELEASED, indent=2) + "\n"
    assert ("tanh form" if activation == "gelu_tanh" else "exact form") in note
    assert "bee6030 (2019-02-07)" in note
    assert config_from_json(read_json(path)) == BASE


def test_other_activations_need_no_note(tmp_path):
    config = replace(LARGE_CASED, hidden_act="relu", hidden_dropout_prob=0.0)
    assert tensorflow.write_config(tmp_path / "bert_config.json", config) == ()
    content = read_json(tmp_path / "bert_config.json")
    assert config_from_json(content) == config
    assert tensorflow.config_notes(content) == ()


def test_reading_says_which_gelu_was_taken():
    (note,) = tensorflow.config_notes(RELEASED)
    assert "taken as the exact form" in note
    assert tensorflow.config_notes({}) == (note,)
    numbers = torch.linspace(-6, 6, 100_001, dtype=torch.float64)
    exact, tanh = (gelu(numbers, approximate=kind) for kind in ("none", "tanh"))
    assert f"{(exact - tanh).abs().max():.1e}".replace("e-0", "e-") in note


def test_what_the_original_cannot_compute_is_refused_together(tmp_path):
    config = replace(BASE, hidden_act="silu", layer_norm_eps=1e-5, direction="left_to_right")
    with pytest.raises(ValueError, match="google-research/bert cannot compute") as caught:
        tensorflow.write_config(tmp_path / "bert_config.json", config)
    for part in (
        "hidden_act 'silu', expected gelu or gelu_tanh or relu or tanh",
        "layer_norm_eps 1e-05, expected 1e-12",
        "direction 'left_to_right', expected 'bidirectional'",
    ):
        assert part in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parity
def test_tensorflow_finds_the_originals_variables_in_what_is_written(tmp_path):
    tf = pytest.importorskip("tensorflow")
    tensorflow.write(tmp_path / GOOGLE.name, tensorflow.read(GOOGLE)[0])
    reader = tf.train.load_checkpoint(str(tmp_path / GOOGLE.name))
    assert dict(tf.train.list_variables(str(tmp_path / GOOGLE.name))) == {
        name: list(shape) for name, shape in variables().items()
    }
    for name, array in weights().items():
        assert reader.get_tensor(name).dtype == np.float32
        assert np.array_equal(reader.get_tensor(name), array)
