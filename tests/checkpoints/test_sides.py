"""A two-way model's parameters lie on disk as those of two models, each under its direction."""

import pytest
import torch

from bertsmith.checkpoints.misfits import MisfitError
from bertsmith.checkpoints.names import from_hugging_face, hugging_face_names, to_hugging_face
from bertsmith.checkpoints.sides import joined_name, parted, without_side
from bertsmith.model.bert import Bert
from tests.checkpoints.tiny import tiny_config


@pytest.mark.parametrize(
    ("native", "joined"),
    [
        ("bert.embeddings.token.weight", "bert.embeddings.left_to_right.token.weight"),
        ("bert.layers.11.gates.bias", "bert.layers.11.left_to_right.gates.bias"),
    ],
)
def test_a_name_is_joined_and_parted_again(native, joined):
    assert joined_name("left_to_right", native) == joined
    assert parted(joined) == ("left_to_right.", native)
    assert parted(native) == ("", native)


@pytest.mark.parametrize("native", ["bert.pooler.weight", "masked_lm.bias", "next_sentence.bias"])
def test_poolers_and_heads_are_not_joined(native):
    assert joined_name("left_to_right", native) is None


def test_a_side_is_taken_off_a_name_on_disk():
    assert without_side("right_to_left.bert.embeddings.LayerNorm.bias").startswith("bert.")
    assert without_side("bert.pooler.dense.bias") == "bert.pooler.dense.bias"


def test_names_on_disk_are_those_of_two_models():
    assert hugging_face_names("bert.layers.1.right_to_left.attention.qkv.weight") == tuple(
        f"right_to_left.bert.encoder.layer.1.attention.self.{name}.weight"
        for name in ("query", "key", "value")
    )
    assert hugging_face_names("bert.layers.0.left_to_right.projection.weight") == (
        "left_to_right.bert.encoder.layer.0.lstm.projection.weight",
    )
    with pytest.raises(KeyError):
        hugging_face_names("bert.layers.0.sideways.projection.weight")


@pytest.mark.parametrize("kind", ["transformer", "lstm"])
@pytest.mark.parametrize("direction", ["left_to_right", "two_way"])
def test_a_state_survives_there_and_back(kind, direction):
    bert = Bert(tiny_config(layer_kind=kind, direction=direction), with_pooler=False)
    state = {
        f"bert.{name}": torch.randn(each.shape, generator=torch.manual_seed(number))
        for number, (name, each) in enumerate(bert.state_dict().items())
    }
    written = to_hugging_face(state)
    shapes = {name: each.shape for name, each in state.items()}
    back, left_aside = from_hugging_face(written, shapes)
    assert left_aside == ()
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)
    if direction == "two_way":
        more = {**written, "left_to_right.bert.encoder.layer.7.output.dense.bias": torch.ones(3)}
        with pytest.raises(MisfitError, match=r"left_to_right\.bert\.encoder\.layer\.7"):
            from_hugging_face(more, shapes)
