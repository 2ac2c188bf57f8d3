from dataclasses import replace

import pytest

from bertsmith.checkpoints.config_json import config_from_json, config_to_json
from bertsmith.model.config import LARGE_CASED, MINI

# The fields of google-research/bert's bert_config.json for the uncased BASE model.
RELEASED = {
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
    "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12,
    "type_vocab_size": 2, "vocab_size": 30522,
}  # fmt: skip


@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right", "right_to_left"])
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "silu", "tanh"])
def test_a_config_survives_there_and_back(direction, activation):
    config = replace(
        LARGE_CASED,
        direction=direction,
        hidden_act=activation,
        layer_norm_eps=1e-5,
        pad_token_id=7,
        attention_probs_dropout_prob=0.0,
    )
    assert config_from_json(config_to_json(config)) == config


def test_the_released_config_is_base():
    config = config_from_json(RELEASED)
    assert (config.num_hidden_layers, config.hidden_size, config.vocab_size) == (12, 768, 30_522)
    assert config.layer_norm_eps == 1e-12
    assert config.direction == "bidirectional"


@pytest.mark.parametrize(
    ("written", "native"),
    [("gelu_new", "gelu_tanh"), ("gelu_pytorch_tanh", "gelu_tanh"), ("swish", "silu")],
)
def test_spellings_of_an_activation_are_one(written, native):
    assert config_from_json({**RELEASED, "hidden_act": written}).hidden_act == native


@pytest.mark.parametrize(
    ("direction", "objectives", "architecture"),
    [
        ("bidirectional", ("masked_lm", "next_sentence"), "BertForPreTraining"),
        ("bidirectional", ("masked_lm",), "BertForMaskedLM"),
        ("left_to_right", ("left_to_right_lm",), "BertLMHeadModel"),
        ("bidirectional", (), "BertModel"),
    ],
)
def test_the_heads_choose_the_architecture(direction, objectives, architecture):
    content = config_to_json(replace(MINI, direction=direction), objectives)
    assert content["architectures"] == [architecture]
    assert content["is_decoder"] is (direction == "left_to_right")
    assert content["model_type"] == "bert"


def test_a_foreign_decoder_reads_left_to_right():
    assert config_from_json({**RELEASED, "is_decoder": True}).direction == "left_to_right"


def test_right_to_left_is_no_bert_for_other_readers():
    content = config_to_json(replace(MINI, direction="right_to_left"), ("right_to_left_lm",))
    assert content["bertsmith_direction"] == "right_to_left"
    assert content["model_type"] != "bert"


KINDS = [
    ("transformer", "right_to_left", "bert_right_to_left", "BertsmithRightToLeft"),
    ("transformer", "two_way", "bert_two_way", "BertsmithTwoWay"),
    ("lstm", "left_to_right", "lstm_left_to_right", "BertsmithLstm"),
    ("lstm", "right_to_left", "lstm_right_to_left", "BertsmithLstm"),
    ("lstm", "two_way", "lstm_two_way", "BertsmithLstm"),
]


@pytest.mark.parametrize(("kind", "direction", "model_type", "architecture"), KINDS)
def test_what_nothing_else_computes_is_no_bert_for_other_readers(
    kind, direction, model_type, architecture
):
    config = replace(MINI, layer_kind=kind, direction=direction)
    content = config_to_json(config, ("left_to_right_lm",))
    assert content["model_type"] == model_type
    assert content["architectures"] == [architecture]
    assert content["is_decoder"] is False
    assert config_from_json(content) == config


@pytest.mark.parametrize(("kind", "direction", "model_type", "architecture"), KINDS)
def test_a_type_of_model_that_the_other_fields_do_not_make_is_refused(
    kind, direction, model_type, architecture
):
    content = config_to_json(replace(MINI, layer_kind=kind, direction=direction))
    del content["bertsmith_direction"]
    told = f"model_type is '{model_type}', " if kind == "transformer" else "an lstm reads in one"
    with pytest.raises(ValueError, match=told):
        config_from_json(content)
    if kind == "lstm":
        content = {**content, "bertsmith_direction": direction, "bertsmith_layer_kind": None}
        with pytest.raises(ValueError, match=f"config.json: model_type is '{model_type}', "):
            config_from_json(content)


def test_a_bert_has_no_field_that_it_had_not_before():
    assert "layer_kind" not in "".join(config_to_json(MINI))
    with pytest.raises(ValueError, match="bertsmith_layer_kind is 'gru', expected 'transformer'"):
        config_from_json({**RELEASED, "bertsmith_layer_kind": "gru"})


def test_every_missing_mistyped_and_unsupported_field_is_named_in_one_error():
    broken = {
        **RELEASED,
        "num_hidden_layers": "12",
        "hidden_dropout_prob": None,
        "hidden_act": "swiglu",
        "position_embedding_type": "relative_key",
        "model_type": "roberta",
    }
    del broken["vocab_size"]
    with pytest.raises(ValueError, match=r"some/config\.json") as caught:
        config_from_json(broken, "some/config.json")
    for part in (
        "vocab_size is missing",
        "num_hidden_layers is '12', expected int",
        "hidden_act is 'swiglu'",
        "position_embedding_type is 'relative_key', expected 'absolute'",
        "model_type is 'roberta', expected 'bert'",
    ):
        assert part in str(caught.value)
    assert "hidden_dropout_prob" not in str(caught.value)


def test_an_activation_of_null_is_the_default():
    assert config_from_json({**RELEASED, "hidden_act": None}).hidden_act == "gelu"


def test_a_contradiction_names_the_file():
    with pytest.raises(ValueError, match=r"some/config\.json: hidden_size 770"):
        config_from_json({**RELEASED, "hidden_size": 770}, "some/config.json")
