from dataclasses import replace

import pytest
import torch

from bertsmith.checkpoints.misfits import MisfitError, Source
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
        from_hugging_face(written, shapes_of(state), Source(where="somewhere"))
    for part in (
        "somewhere",
        "cls.predictions.bias",
        "bert.encoder.layer.0.attention.self.key.bias",
        "bert.pooler.dense.weight has shape (8, 7), expected (8, 8)",
        "bert.embeddings.LayerNorm.bias has torch.int64, expected floating-point numbers",
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


@pytest.mark.parametrize("is_original", [False, True])
def test_an_error_holds_every_name_as_the_file_spells_it(is_original):
    state = native_state()
    written = to_hugging_face(state)
    layers = [name for name in written if name.startswith("bert.encoder.layer.0.")]
    kept = {name: each for name, each in written.items() if name not in layers}
    kept["bert.encoder.layer.1.intermediate.dense.weight"] = torch.zeros(32, 7)
    source = Source(where="somewhere", is_original=is_original)
    with pytest.raises(MisfitError) as caught:
        from_hugging_face(kept, shapes_of(state), source)
    assert caught.value.missing == tuple(map(source.name, layers))
    assert len(layers) > 12
    assert all(name in "".join(caught.value.__notes__) for name in caught.value.missing)
    said = str(caught.value)
    assert " and 4 more" in said
    assert "All names are in the traceback (BERTSMITH_TRACEBACK=1)" in said
    if is_original:
        assert "bert/encoder/layer_0/attention/self/query/kernel" in said
        up = "bert/encoder/layer_1/intermediate/dense/kernel"
        assert f"not as bert_config.json says: {up} has shape (7, 32), expected (8, 32)" in said
    else:
        assert "bert.encoder.layer.0.attention.self.query.weight" in said
        up = "bert.encoder.layer.1.intermediate.dense.weight"
        assert f"not as config.json says: {up} has shape (32, 7), expected (32, 8)" in said


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_a_weight_that_is_no_number_is_refused_by_name(number):
    state = native_state()
    state["bert.layers.1.attention.qkv.weight"][17, 2] = number
    written = to_hugging_face(state) | {"classifier.weight": torch.full((2, 8), number)}
    with pytest.raises(MisfitError, match="earlier checkpoint of its training") as caught:
        from_hugging_face(written, shapes_of(state))
    assert caught.value.not_finite == ("bert.encoder.layer.1.attention.self.value.weight",)
    assert caught.value.not_finite[0] in str(caught.value)


def test_numbers_whose_sum_is_too_large_are_finite():
    state = native_state() | {"bert.pooler.weight": torch.full((8, 8), 3e38)}
    back, _ = from_hugging_face(to_hugging_face(state), shapes_of(state))
    assert torch.equal(back["bert.pooler.weight"], state["bert.pooler.weight"])


@pytest.mark.parametrize("is_decoder_own", [False, True])
def test_of_two_biases_the_decoders_counts_and_the_other_is_left_aside(is_decoder_own):
    state = native_state()
    if is_decoder_own:
        state["masked_lm.decoder.weight"] = torch.randn(11, 8)
    written = to_hugging_face(state)
    written["cls.predictions.decoder.bias"] = torch.ones(11)
    back, (group,) = from_hugging_face(written, shapes_of(state))
    assert torch.equal(back["masked_lm.bias"], torch.ones(11))
    assert group.note == (
        "left aside, overruled by cls.predictions.decoder.bias, which differs and is what "
        "transformers adds: cls.predictions.bias"
    )


def test_a_copy_of_another_shape_is_refused():
    state = native_state()
    written = to_hugging_face(state)
    written["cls.predictions.decoder.weight"] = torch.zeros(7, 8)
    with pytest.raises(MisfitError, match=r"differs from bert\.embeddings\.word_emb"):
        from_hugging_face(written, shapes_of(state))


def test_a_tensor_under_both_its_names_must_be_the_same_under_both():
    state = native_state()
    norm = "bert.embeddings.LayerNorm"
    both = to_hugging_face(state)
    both = {f"{norm}.gamma": both[f"{norm}.weight"].clone(), **both}
    back, (group,) = from_hugging_face(both, shapes_of(state))
    assert torch.equal(back["bert.embeddings.norm.weight"], both[f"{norm}.weight"])
    assert group.names == (f"{norm}.gamma",)
    both[f"{norm}.gamma"] += 1.0
    with pytest.raises(ValueError, match=r"gamma and .*LayerNorm\.weight are two names of one"):
        modern_names(both)


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
