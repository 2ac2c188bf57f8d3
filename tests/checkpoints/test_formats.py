"""What each format cannot hold, and why."""

import pytest

from bertsmith.checkpoints.formats import (
    dtype_refusal,
    head_facts_left_out,
    head_refusal,
    refusal,
)
from tests.checkpoints.fine_tuned import FEATURE_HEADS, HEADS
from tests.checkpoints.tiny import tiny_config

BOTH = ("masked_lm", "next_sentence")
LEFT, RIGHT = tiny_config(direction="left_to_right"), tiny_config(direction="right_to_left")


@pytest.mark.parametrize(
    ("format", "config", "objectives", "reason"),
    [
        ("hugging-face", RIGHT, ("right_to_left_lm",), "transformers has no right-to-left BERT"),
        ("sentence-transformers", RIGHT, (), "sentence-transformers has no right-to-left BERT"),
        ("tensorflow", RIGHT, (), "google-research/bert has no right-to-left BERT"),
        ("tensorflow", LEFT, ("left_to_right_lm",), "would read the text in both directions"),
        ("hugging-face", LEFT, ("left_to_right_lm", "next_sentence"), "reads the last token here"),
        ("tensorflow", tiny_config(tie_word_embeddings=False), BOTH, "has one of its own"),
    ],
)
def test_what_the_reader_would_compute_otherwise_is_refused(format, config, objectives, reason):
    told = refusal(format, "float32", config, objectives)
    assert told is not None
    assert reason in told


@pytest.mark.parametrize("format", ["hugging-face", "sentence-transformers", "onnx", "tensorflow"])
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"layer_kind": "lstm", "direction": "left_to_right"}, "has no LSTM"),
        ({"layer_kind": "lstm", "direction": "two_way"}, "has no two-way pair of LSTMs"),
        ({"direction": "two_way"}, "has no two-way pair of BERTs"),
    ],
)
def test_what_is_no_bert_is_refused_by_every_format(format, changes, told):
    assert told in refusal(format, "float32", tiny_config(**changes), ())
    head = FEATURE_HEADS["weighted"]
    assert told in refusal(format, "float32", tiny_config(**changes), (), head)


@pytest.mark.parametrize(
    ("format", "config", "objectives"),
    [
        ("hugging-face", tiny_config(), BOTH),
        ("hugging-face", tiny_config(tie_word_embeddings=False), BOTH),
        ("hugging-face", LEFT, ("left_to_right_lm",)),
        ("sentence-transformers", LEFT, ("left_to_right_lm", "next_sentence")),
        ("onnx", RIGHT, ("right_to_left_lm", "next_sentence")),
        ("onnx", tiny_config(tie_word_embeddings=False), BOTH),
        ("tensorflow", tiny_config(), BOTH),
        ("tensorflow", tiny_config(tie_word_embeddings=False), ()),
    ],
)
def test_what_the_reader_computes_alike_is_not(format, config, objectives):
    assert refusal(format, "float32", config, objectives) is None


def test_number_types_that_a_reader_has_not_are_refused_for_every_model():
    assert "reads float32 only" in dtype_refusal("tensorflow", "float16")
    assert "bfloat16" in dtype_refusal("onnx", "bfloat16")
    assert refusal("onnx", "bfloat16", tiny_config(), BOTH) == dtype_refusal("onnx", "bfloat16")
    for format, dtype in (("onnx", "float16"), ("hugging-face", "bfloat16")):
        assert dtype_refusal(format, dtype) is None


@pytest.mark.parametrize("kind", HEADS)
def test_a_left_to_right_head_on_the_pooled_vector_has_no_class_there(kind):
    told = refusal("hugging-face", "float32", LEFT, (), HEADS[kind])
    assert (told is None) == HEADS[kind].reads_tokens
    assert told is None or "reads the last token here" in told
    assert refusal("hugging-face", "float32", tiny_config(), (), HEADS[kind]) is None
    assert refusal("onnx", "float32", LEFT, (), HEADS[kind]) is None


@pytest.mark.parametrize("format", ["hugging-face", "onnx", "tensorflow"])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("weighted", "with a head on the layers weighted-sum-all: that stays beside"),
        (
            "weighted under a BiLSTM",
            "a BiLSTM on top and a head on the layers weighted-sum-all: that stays",
        ),
        ("first token", "the layers second-to-last and a head on the first token without the pool"),
        ("mean", "a head on the mean of all tokens without the pooler: that stays"),
    ],
)
def test_a_head_on_frozen_features_has_no_class_anywhere(format, name, told):
    assert told in refusal(format, "float32", tiny_config(), (), FEATURE_HEADS[name])
    sentences = "sentence-transformers"
    assert refusal(sentences, "float32", tiny_config(), (), FEATURE_HEADS[name]) is None


@pytest.mark.parametrize(
    ("format", "held"),
    [
        ("hugging-face", set(HEADS)),
        ("onnx", set(HEADS)),
        ("tensorflow", {"sequence_classification", "question_answering"}),
        ("sentence-transformers", set()),
    ],
)
def test_a_format_holds_the_heads_that_its_reader_has(format, held):
    assert {kind for kind, head in HEADS.items() if head_refusal(format, head) is None} == held


def test_what_a_format_cannot_say_of_a_head_is_told():
    told = head_facts_left_out("tensorflow", HEADS["sequence_classification"])
    assert told is not None
    assert "the labels bad, good, 나쁨 and problem_type multi_label_classification" in told
    assert head_facts_left_out("tensorflow", HEADS["question_answering"]) is None
    assert head_facts_left_out("hugging-face", HEADS["sequence_classification"]) is None
