import subprocess
import sys

import pytest

from bertsmith.model.sentence import SentenceConfig


def test_only_what_a_person_chose_is_overruled():
    own = SentenceConfig(pooling=("cls", "mean"), is_normalized=True, max_tokens=9)
    assert own.overruled(None, None) == own
    assert own.overruled("max", False) == SentenceConfig(pooling=("max",), max_tokens=9)


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
