from dataclasses import replace

import pytest
import torch

from bertsmith.checkpoints.names import (
    from_hugging_face,
    hugging_face_names,
    modern_names,
    to_hugging_face,
)
from bertsmith.model.config import sized
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel

CONFIG = replace(sized(2, 8, 2), vocab_size=11, max_position_embeddings=6)


def native_state():
    model = PretrainModel(CONFIG, ("masked_lm", "next_sentence"))
    initialise(model, std=0.3, seed=1)
    return model.state_dict()


def shapes_of(state):
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def test_every_parameter_survives_there_and_back_to_the_bit():
    state = native_state()
    back, left_aside = from_hugging_face(to_hugging_face(state), shapes_of(state))
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)
    assert left_aside == ()


def test_query_key_and_value_are_the_three_thirds_of_one_matrix():
    state = native_state()
    written = to_hugging_face(state)
    joined = state["bert.layers.1.attention.qkv.weight"]
    for third, name in enumerate(("query", "key", "value")):
        part = written[f"bert.encoder.layer.1.attention.self.{name}.weight"]
        assert torch.equal(part, joined[8 * third : 8 * third + 8])


def test_no_two_parameters_share_a_name_on_disk():
    names = [name for native in native_state() for name in hugging_face_names(native)]
    assert len(names) == len(set(names))


def test_a_name_of_no_parameter_is_refused():
    for name in ("bert.layers.0.attention.qkv", "bert.embeddings.norm.gain", "classifier.weight"):
        with pytest.raises(KeyError):
            hugging_face_names(name)
    with pytest.raises(ValueError, match=r"classifier\.weight"):
        to_hugging_face({"classifier.weight": torch.zeros(2)})


def test_everything_missing_misshapen_and_left_over_is_named_in_one_error():
    state = native_state()
    written = to_hugging_face(state)
    del written["cls.predictions.bias"]
    del written["bert.encoder.layer.0.attention.self.key.bias"]
    written["bert.pooler.dense.weight"] = torch.zeros(8, 7)
    written["bert.embeddings.LayerNorm.bias"] = torch.zeros(8, dtype=torch.int64)
    written["bert.encoder.layer.2.output.dense.bias"] = torch.zeros(8)
    with pytest.raises(ValueError, match="missing: ") as caught:
        from_hugging_face(written, shapes_of(state), "somewhere")
    for part in (
        "somewhere",
        "cls.predictions.bias",
        "bert.encoder.layer.0.attention.self.key.bias",
        "bert.pooler.dense.weight has shape (8, 7), expected (8, 8)",
        "bert.embeddings.LayerNorm.bias holds torch.int64",
        "unexpected: bert.encoder.layer.2.output.dense.bias",
    ):
        assert part in str(caught.value)


def test_harmless_extras_are_left_aside_and_so_are_heads():
    state = native_state()
    written = to_hugging_face(state)
    written["bert.embeddings.position_ids"] = torch.arange(6)[None]
    written["cls.predictions.decoder.weight"] = written["bert.embeddings.word_embeddings.weight"]
    written["cls.predictions.decoder.bias"] = written["cls.predictions.bias"].clone()
    written["classifier.weight"] = torch.zeros(3, 8)
    back, left_aside = from_hugging_face(written, shapes_of(state))
    assert back.keys() == state.keys()
    heads, elsewhere = left_aside
    assert heads.names == ("classifier.weight",)
    assert elsewhere.names == (
        "bert.embeddings.position_ids",
        "cls.predictions.decoder.bias",
        "cls.predictions.decoder.weight",
    )


def test_a_copy_that_differs_from_its_original_is_refused():
    state = native_state()
    written = to_hugging_face(state)
    written["cls.predictions.decoder.bias"] = torch.ones(11)
    with pytest.raises(ValueError, match=r"differs from cls\.predictions\.bias"):
        from_hugging_face(written, shapes_of(state))


def test_a_decoder_of_its_own_has_a_name():
    state = native_state() | {"masked_lm.decoder.weight": torch.randn(11, 8)}
    written = to_hugging_face(state)
    assert "cls.predictions.decoder.weight" in written
    back, left_aside = from_hugging_face(written, shapes_of(state))
    assert torch.equal(back["masked_lm.decoder.weight"], state["masked_lm.decoder.weight"])
    assert left_aside == ()


def test_gamma_beta_and_a_bare_encoder_get_their_modern_names():
    old = {
        "embeddings.LayerNorm.gamma": torch.ones(2),
        "encoder.layer.0.output.LayerNorm.beta": torch.zeros(2),
        "pooler.dense.bias": torch.zeros(2),
    }
    assert set(modern_names(old)) == {
        "bert.embeddings.LayerNorm.weight",
        "bert.encoder.layer.0.output.LayerNorm.bias",
        "bert.pooler.dense.bias",
    }


def test_a_tied_tensor_known_by_its_copys_name_alone_gets_its_own():
    bias = torch.arange(3.0)
    assert modern_names({"bert.x": bias, "cls.predictions.decoder.bias": bias}).keys() == {
        "bert.x",
        "cls.predictions.bias",
    }
