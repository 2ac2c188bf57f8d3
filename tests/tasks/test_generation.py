"""A request to write text gets one explanation at every door."""

import pytest

from bertsmith import cli
from bertsmith.tasks.generation import refusal
from tests.tasks.predictors import predictor_of


@pytest.mark.parametrize("name", ["generate", "chat", "Complete", "generate_text"])
def test_three_doors_give_one_explanation(name, capsys):
    told = refusal(name)
    assert told.startswith("BERT understands text and does not generate it")
    for arguments in ([name, "Once"], ["predict", name, "Once", "--max-length", "5"]):
        assert cli.main(arguments) == 2
        assert capsys.readouterr().err == f"bertsmith: {told}\n"
    with pytest.raises(AttributeError) as caught:
        getattr(predictor_of(), name)
    assert str(caught.value) == told


def test_any_other_name_is_simply_unknown(capsys):
    assert refusal("fill-mask") is None
    with pytest.raises(AttributeError, match="'Predictor' object has no attribute 'fil_mask'"):
        predictor_of().fil_mask(["[MASK]"])
    assert cli.main(["genrate-vocab"]) == 2
    assert "there is no command" in capsys.readouterr().err
