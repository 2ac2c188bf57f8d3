"""Models out and in again: equal to the bit, or refused."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from bertsmith.checkpoints import exports, store
from bertsmith.checkpoints.exports import Export
from bertsmith.model.sentence import DenseConfig, SentenceConfig
from tests.checkpoints.tiny import tiny_config, tiny_model, tiny_tokenizer
from tests.model.dense import random_dense

SENTENCE = SentenceConfig(pooling=("cls", "mean"), is_normalized=True, max_tokens=20)


def loaded_model(folder, *objectives, dtype=None, **changes):
    """A tiny model, saved and loaded."""
    model = tiny_model(*objectives, **changes)
    store.save(folder, model, model.config, tiny_tokenizer(), dtype=dtype)
    return store.load(folder)


def exported(loaded, folder, **choices):
    folder.mkdir()
    export = Export(**choices)
    notes = exports.write(folder, loaded, export)
    return exports.verify(folder, loaded, export), notes


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize("objectives", [("masked_lm", "next_sentence"), ("masked_lm",)])
@pytest.mark.parametrize("format", ["hugging-face", "tensorflow"])
def test_a_round_trip_gives_equal_tensors_config_and_vocabulary(tmp_path, format, objectives):
    first = loaded_model(tmp_path / "first", *objectives)
    exported(first, tmp_path / "middle", format=format)
    middle = store.load(tmp_path / "middle")
    exported(middle, tmp_path / "last", format="hugging-face")
    last = store.load(tmp_path / "last")
    assert last.config == first.config
    assert last.model.objectives == objectives
    assert last.tokenizer.fingerprint == first.tokenizer.fingerprint
    assert_equal(last.model.state_dict(), first.model.state_dict())
    assert (tmp_path / "last/model.safetensors").read_bytes() == (
        tmp_path / "first/model.safetensors"
    ).read_bytes()


def test_a_tensorflow_checkpoint_comes_back_as_the_same_files(tmp_path):
    first = loaded_model(tmp_path / "first")
    exported(first, tmp_path / "one", format="tensorflow")
    middle = store.load(tmp_path / "one")
    exported(middle, tmp_path / "hf", format="hugging-face")
    exported(store.load(tmp_path / "hf"), tmp_path / "two", format="tensorflow")
    names = {file.name for file in (tmp_path / "one").iterdir()}
    assert names >= {
        "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001", "bert_config.json",
        "vocab.txt",
    }  # fmt: skip
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_sentence_transformers_holds_the_encoder_and_the_pooling(tmp_path):
    first = loaded_model(tmp_path / "first")
    exported(first, tmp_path / "st", format="sentence-transformers", sentence=SENTENCE)
    back = store.load(tmp_path / "st")
    assert back.sentence == SENTENCE
    assert back.model.objectives == ()
    assert_equal(
        back.model.state_dict(),
        {name: tensor for name, tensor in first.model.state_dict().items() if "bert." in name},
    )


LAYER = DenseConfig(in_features=64, out_features=9)
WITH_DENSE = replace(SENTENCE, dense=LAYER)


def with_dense(loaded):
    return replace(loaded, sentence=WITH_DENSE, dense=random_dense(LAYER))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sentence_transformers_holds_the_dense_layer_too(tmp_path, dtype):
    first = with_dense(loaded_model(tmp_path / "first"))
    choices = {"format": "sentence-transformers", "dtype": dtype, "sentence": WITH_DENSE}
    proof, _ = exported(first, tmp_path / "st", **choices)
    num_tensors = len([name for name in first.model.state_dict() if "bert." in name]) + 2
    assert f"all {num_tensors} tensors equal" in proof
    back = store.load(tmp_path / "st", dtype=getattr(torch, dtype))
    assert back.sentence == WITH_DENSE
    own = first.dense.state_dict()
    rounded = {name: tensor.to(getattr(torch, dtype)) for name, tensor in own.items()}
    assert_equal(back.dense.state_dict(), rounded)
    assert set(load_file(tmp_path / "st/2_Dense/model.safetensors")) == {
        "linear.weight", "linear.bias",
    }  # fmt: skip
    first.dense.linear.bias.data[3] += 0.5
    with pytest.raises(ValueError, match=r"than the model: sentence\.dense\.linear\.bias; it is"):
        exports.verify(tmp_path / "st", first, Export(**choices))


def test_a_dense_layer_that_is_not_asked_for_is_not_written(tmp_path):
    first = with_dense(loaded_model(tmp_path / "first"))
    exported(first, tmp_path / "st", format="sentence-transformers", sentence=SENTENCE)
    assert store.load(tmp_path / "st").dense is None
    exported(first, tmp_path / "hf", format="hugging-face")
    assert store.load(tmp_path / "hf").sentence is None


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_are_rounded_once_and_checked(tmp_path, dtype):
    first = loaded_model(tmp_path / "first")
    proof, _ = exported(first, tmp_path / "half", format="hugging-face", dtype=dtype)
    largest = {"bfloat16": "2.0e-03", "float16": "2.4e-04"}[dtype]
    assert f"equal to the model's rounded to {dtype} (by {largest} at most)" in proof
    assert "to the bit" not in proof
    kind = getattr(torch, dtype)
    back = store.load(tmp_path / "half", dtype=kind).model.state_dict()
    assert_equal(back, {name: tensor.to(kind) for name, tensor in first.model.state_dict().items()})


def test_a_number_too_large_for_the_type_is_named(tmp_path):
    first = loaded_model(tmp_path / "first")
    with torch.no_grad():
        first.model.masked_lm.bias[3] = 7e4
    with pytest.raises(ValueError, match=r"masked_lm\.bias holds 7e\+04, which float16 cannot"):
        exports.write(tmp_path, first, Export(format="hugging-face", dtype="float16"))


def test_what_reads_back_otherwise_is_not_kept(tmp_path):
    first = loaded_model(tmp_path / "first")
    other = loaded_model(tmp_path / "other", seed=8)
    exports.write(tmp_path / "first", other, Export(format="hugging-face"))
    with pytest.raises(ValueError, match=r"model: bert\.embeddings\.position.* and 10 more"):
        exports.verify(tmp_path / "first", first, Export(format="hugging-face"))


def test_a_model_that_the_format_cannot_hold_is_refused_with_the_reason(tmp_path):
    first = loaded_model(tmp_path / "first", "right_to_left_lm", direction="right_to_left")
    with pytest.raises(ValueError, match="cannot be written as hugging-face: transformers has no"):
        exports.write(tmp_path, first, Export(format="hugging-face"))


def test_tensorflows_one_gelu_is_noted_and_accepted(tmp_path):
    store.save(
        tmp_path / "first", tiny_model().state_dict(), tiny_config(hidden_act="gelu_tanh"),
        tiny_tokenizer(),
    )  # fmt: skip
    proof, notes = exported(store.load(tmp_path / "first"), tmp_path / "tf", format="tensorflow")
    assert "equal to the bit" in proof
    assert "config equal but for hidden_act (gelu_tanh in the model, gelu as read back)" in proof
    assert any("gelu" in note for note in notes)


def test_a_padding_token_other_than_the_first_is_noted_and_accepted(tmp_path):
    store.save(
        tmp_path / "first", tiny_model().state_dict(), tiny_config(pad_token_id=3),
        tiny_tokenizer(),
    )  # fmt: skip
    proof, notes = exported(store.load(tmp_path / "first"), tmp_path / "tf", format="tensorflow")
    assert "config equal but for pad_token_id (3 in the model, 0 as read back)" in proof
    assert any("no place for pad_token_id 3" in note for note in notes)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_without_finite_numbers_is_told_as_such(tmp_path, value):
    first = loaded_model(tmp_path / "first")
    with torch.no_grad():
        first.model.masked_lm.bias[3] = value
    with pytest.raises(
        ValueError, match=r"masked_lm\.bias holds 1 of 25 values .* its training"
    ) as e:
        exports.write(tmp_path, first, Export(format="hugging-face"))
    assert "--dtype" not in str(e.value)


def test_the_padded_copy_shares_no_weight_with_the_model(tmp_path):
    first = loaded_model(tmp_path / "first")
    padded = exports.padded(
        with_dense(first), Export(format="onnx", dtype="float16", sentence=WITH_DENSE)
    )
    assert {each.dtype for each in padded.parameters()} == {torch.float16}
    assert padded.dense is not None
    assert first.model.masked_lm.bias.dtype == torch.float32
