"""What each format cannot hold, and why."""

import pytest

from bertsmith.checkpoints.formats import dtype_refusal, refusal
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
