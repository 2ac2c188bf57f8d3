import subprocess
import sys

import pytest

from bertsmith.features.plan import FeaturePlan
from bertsmith.model.sentence import DenseConfig, SentenceConfig


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": "lst"}, r"did you mean 'last'\?"),
        ({"per": "token", "pooling": "mean"}, "--per token takes as pooling none at all"),
        ({"per": "word", "pooling": "cls"}, "--per word takes as pooling first, mean, last"),
        ({"per": "text", "pooling": "first"}, "--per text takes as pooling cls, mean, max, "),
        ({"per": "word", "is_normalized": True}, "--is-normalized is for --per text, .* word"),
        ({"stride_tokens": 8}, "the step of --long-texts window .* found 8 with 'truncate'"),
        ({"stride_tokens": -1, "long_texts": "window"}, "at least 1, found -1"),
        ({"max_tokens": 2}, "max_tokens must leave room for a token between two special ones"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        FeaturePlan(**changes)


def test_words_are_means_unless_said_otherwise():
    assert FeaturePlan(per="word").word_pooling == "mean"
    assert FeaturePlan(per="word", pooling="last").word_pooling == "last"


OWN = SentenceConfig(pooling=("cls", "max"), is_normalized=True, max_tokens=128)


def test_texts_are_pooled_as_the_model_says_unless_said_otherwise():
    assert FeaturePlan(per="text").sentence(OWN) == OWN
    assert FeaturePlan(per="text", pooling="mean").sentence(OWN).pooling == ("mean",)
    assert not FeaturePlan(per="text", is_normalized=False).sentence(OWN).is_normalized
    assert FeaturePlan(per="text").sentence(SentenceConfig()).pooling == ("mean",)


def test_what_is_taken_from_the_model_is_told():
    assert FeaturePlan(per="text").followed(512, OWN) == (
        "one vector a text as the model was trained: pooling cls and max, length 1, at most 128 "
        "tokens (overruled by --pooling, --is-normalized, --max-tokens)"
    )
    asked = FeaturePlan(per="text", pooling="cls", max_tokens=512)
    assert asked.followed(512, OWN) == (
        "one vector a text as the model was trained: length 1 (overruled by --is-normalized)"
    )
    whole = FeaturePlan(per="text").followed(128, SentenceConfig(max_tokens=128))
    assert "pooling mean, not normalised (overruled" in whole
    assert FeaturePlan(per="token").followed(512, OWN) == ""


def test_only_a_texts_vector_keeps_to_the_length_the_model_was_trained_for():
    assert FeaturePlan(per="text").limit(512, OWN) == 128
    assert FeaturePlan(per="text", max_tokens=300).limit(512, OWN) == 300
    assert FeaturePlan(per="text").limit(64, OWN) == 64
    assert FeaturePlan().limit(512, OWN) == 512
    assert FeaturePlan(per="text").limit(512, SentenceConfig()) == 512


def test_poolings_side_by_side_make_a_text_wider_and_a_token_not():
    assert FeaturePlan(per="text").width(12, 8, OWN) == 16
    assert FeaturePlan(per="text", layers="concat-last-four").width(12, 8, OWN) == 64
    assert FeaturePlan(per="word").width(12, 8, OWN) == 8


LAYER = DenseConfig(in_features=8, out_features=5)
WITH_DENSE = SentenceConfig(pooling=("cls",), dense=LAYER, is_normalized=True)


def test_a_dense_layer_is_told_of_and_makes_a_vector_as_wide_as_it_is():
    plan = FeaturePlan(per="text")
    assert plan.followed(512, WITH_DENSE).startswith(
        "one vector a text as the model was trained: pooling cls, then a dense layer to 5 (tanh), "
        "length 1 (overruled by"
    )
    assert plan.width(12, 8, WITH_DENSE) == 5
    for layers in ("-1", "12"):
        assert FeaturePlan(per="text", layers=layers).width(12, 8, WITH_DENSE) == 5


def test_a_chosen_pooling_leaves_the_dense_layer_out_and_says_so():
    plan = FeaturePlan(per="text", pooling="mean")
    assert plan.width(12, 8, WITH_DENSE) == 8
    assert plan.followed(512, WITH_DENSE).endswith(
        "(overruled by --is-normalized); with a pooling of your own vectors are made without a "
        "dense layer to 5 (tanh), which belongs to the model's own pooling, cls"
    )
    every = FeaturePlan(per="text", pooling="mean", is_normalized=False)
    assert every.followed(512, WITH_DENSE).startswith("with a pooling of your own")


@pytest.mark.parametrize("layers", ["second-to-last", "concat-last-four", "0,12"])
def test_a_dense_layer_takes_the_last_layer_alone(layers):
    plan = FeaturePlan(per="text", layers=layers)
    with pytest.raises(ValueError, match=f"on the last layer alone, found --layers {layers}: "):
        plan.width(12, 8, WITH_DENSE)
    FeaturePlan(per="text", layers=layers, pooling="cls").width(12, 8, WITH_DENSE)
    FeaturePlan(layers=layers).width(12, 8, WITH_DENSE)


def test_a_step_leaves_room_for_two_special_tokens():
    assert FeaturePlan().step(512) is None
    window = FeaturePlan(long_texts="window")
    assert window.step(512) == 255
    assert window.step(3) == 1
    assert FeaturePlan(long_texts="window", stride_tokens=126).step(128) == 126


def test_what_does_not_fit_the_model_is_refused():
    with pytest.raises(ValueError, match="max_tokens is 513, but the model reads 512"):
        FeaturePlan(max_tokens=513).limit(512, SentenceConfig())
    with pytest.raises(ValueError, match=r"not their overlap: at most 510, .* found 511"):
        FeaturePlan(long_texts="window", stride_tokens=511).step(512)


def test_a_plan_is_made_without_torch():
    code = (
        "import sys; from bertsmith.features import plan, writers; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
