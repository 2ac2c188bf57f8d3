import subprocess
import sys
from dataclasses import replace

import pytest

from bertsmith.model.sentence import DenseConfig, SentenceConfig

DENSE = DenseConfig(in_features=64, out_features=1024)


def test_only_what_a_person_chose_is_overruled():
    own = SentenceConfig(pooling=("cls", "mean"), is_normalized=True, max_tokens=9)
    assert own.overruled(None, None) == own
    assert own.overruled("max", False) == SentenceConfig(pooling=("max",), max_tokens=9)


def test_a_chosen_pooling_is_of_the_hidden_states_alone():
    own = SentenceConfig(pooling=("cls", "mean"), dense=DENSE)
    assert own.overruled(None, True).dense == DENSE
    assert own.overruled("cls", None).dense is None
    assert own.lost_by(None) == SentenceConfig().lost_by("cls") == ""
    assert own.lost_by("cls") == (
        "with a pooling of your own vectors are made without a dense layer to 1,024 (tanh), which "
        "belongs to the model's own pooling, cls and mean"
    )


def test_how_a_vector_is_pooled_and_how_wide_it_is_can_be_told():
    own = SentenceConfig(pooling=("cls", "mean"))
    assert (str(own), own.width(32)) == ("cls and mean", 64)
    dense = SentenceConfig(pooling=("cls", "mean"), dense=replace(DENSE, activation="identity"))
    assert (str(dense), dense.width(32)) == ("cls and mean, then a dense layer to 1,024", 1024)


@pytest.mark.parametrize(
    ("direction", "pooling", "told"),
    [
        ("left_to_right", "cls", "the first token of a left-to-right model"),
        ("right_to_left", "lasttoken", "the last token of a right-to-left model"),
    ],
)
def test_a_token_that_has_seen_itself_alone_speaks_for_no_text(direction, pooling, told):
    with pytest.raises(ValueError, match=f"{told} has seen nothing but itself: choose mean or"):
        SentenceConfig(pooling=("mean", pooling)).require_context(direction)
    SentenceConfig(pooling=(pooling,)).require_context("bidirectional")
    other = "lasttoken" if pooling == "cls" else "cls"
    SentenceConfig(pooling=(other,)).require_context(direction)


def test_a_vector_is_made_of_no_more_than_the_model_and_its_author_allow():
    assert SentenceConfig().limit(512) == 512
    assert SentenceConfig(max_tokens=256).limit(512) == 256
    assert SentenceConfig(max_tokens=256).limit(128) == 128


def test_a_config_that_gives_no_vector_is_refused():
    with pytest.raises(ValueError, match="or several; found none"):
        SentenceConfig(pooling=())
    with pytest.raises(ValueError, match=r"one of cls, mean, max, .* found 'Mean'"):
        SentenceConfig().overruled("Mean", None)
    with pytest.raises(ValueError, match="leave room"):
        SentenceConfig(max_tokens=2)
    with pytest.raises(ValueError, match="out_features must be from 1 to 16,777,216, found 0"):
        DenseConfig(in_features=2, out_features=0)


def test_prompts_that_are_not_pooled_are_not_to_be_written_by_hand():
    prompts = (("query", "find: "), ("document", ""))
    own = SentenceConfig(prompts=prompts)
    assert own.advice_on_prompts == "query ('find: '); put them before texts yourself"
    apart = SentenceConfig(prompts=prompts, is_prompt_pooled=False).advice_on_prompts
    assert apart.startswith("query ('find: '); do not put them there by hand")
    for is_pooled in (True, False):
        assert SentenceConfig(is_prompt_pooled=is_pooled).advice_on_prompts == ""


def test_it_is_known_without_torch():
    code = "import sys, bertsmith.model.sentence; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
