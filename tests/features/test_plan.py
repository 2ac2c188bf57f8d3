import subprocess
import sys

import pytest

from bertsmith.features.plan import FeaturePlan


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": "lst"}, r"did you mean 'last'\?"),
        ({"per": "token", "pooling": "mean"}, "--per token takes as pooling none at all"),
        ({"per": "word", "pooling": "cls"}, "--per word takes as pooling first, mean, last"),
        ({"per": "text", "pooling": "first"}, "--per text takes as pooling cls, mean, max"),
        ({"stride_tokens": 8}, "the step of --long-texts window .* found 8 with 'truncate'"),
        ({"stride_tokens": -1, "long_texts": "window"}, "at least 1, found -1"),
        ({"max_tokens": 2}, "max_tokens must leave room for a token between two special ones"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        FeaturePlan(**changes)


def test_words_and_texts_are_means_unless_said_otherwise():
    assert FeaturePlan().effective_pooling is None
    assert FeaturePlan(per="word").effective_pooling == "mean"
    assert FeaturePlan(per="text", pooling="cls").effective_pooling == "cls"


def test_capacity_and_step_leave_room_for_two_special_tokens():
    assert FeaturePlan().capacity(512) == 510
    assert FeaturePlan().step(512) is None
    window = FeaturePlan(long_texts="window")
    assert window.step(512) == 255
    assert FeaturePlan(long_texts="window", max_tokens=3).step(512) == 1
    assert FeaturePlan(long_texts="window", stride_tokens=126, max_tokens=128).step(512) == 126


def test_what_does_not_fit_the_model_is_refused():
    with pytest.raises(ValueError, match="max_tokens is 513, but the model reads 512"):
        FeaturePlan(max_tokens=513).capacity(512)
    with pytest.raises(ValueError, match=r"not their overlap: at most 510, .* found 511"):
        FeaturePlan(long_texts="window", stride_tokens=511).step(512)


def test_a_plan_is_made_without_torch():
    code = (
        "import sys; from bertsmith.features import plan, writers; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
