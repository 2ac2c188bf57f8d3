"""How a model becomes ready to answer, in every precision that answers have."""

import numpy as np
import pytest
import torch

from bertsmith import answering
from bertsmith.answering import make_ready, rest_of
from bertsmith.checkpoints import store
from bertsmith.inference import Predictor
from bertsmith.model.int8_weights import Int8Weights, multiplies_int8
from bertsmith.model.linear import linears
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer

CPU = torch.device("cpu")
needs_int8 = pytest.mark.skipif(not multiplies_int8(), reason="this CPU does not multiply int8")


def test_what_does_not_multiply_int8_says_so_before_anything_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr(answering, "multiplies_int8", lambda: False)
    with pytest.raises(ValueError, match=r"precision int8 needs a CPU with.* take auto"):
        Predictor.load(tmp_path / "nothing", precision="int8")
    with pytest.raises(ValueError, match=r"which is not what cuda is"):
        rest_of("int8", torch.device("cuda"))
    with pytest.raises(ValueError, match=r"there is no precision 'int4'.*fp32, int8"):
        rest_of("int4", CPU)


@needs_int8
def test_every_matrix_of_the_layers_is_rounded_from_the_weights_as_they_were_loaded():
    model = tiny_model()
    first = model.bert.layers[0].attention.qkv
    steps = first.weight.detach().float().abs().amax(dim=1) / 127
    rest = make_ready(model, "int8", CPU)
    assert rest == rest_of("auto", CPU)
    assert not model.training
    with torch.inference_mode():
        for linear in linears(model):
            rows = torch.zeros(1, linear.in_features, dtype=linear.weight.dtype)
            assert isinstance(linear.ready_for(rows), Int8Weights)
        ready = first.ready_for(torch.zeros(1, first.in_features, dtype=first.weight.dtype))
    assert torch.equal(ready.steps, steps)  # a step of bfloat16 weights would be another
    assert len(linears(model)) == 4 * CONFIG.num_hidden_layers


@needs_int8
def test_a_predictor_in_int8_answers_as_one_in_float32_does_nearly(tmp_path):
    store.save(tmp_path / "tiny", tiny_model(), CONFIG, tiny_tokenizer())
    texts = ["the dog likes my cat", "he", "my dog is cute and likes playing"]
    exact, rounded = (
        Predictor.load(tmp_path / "tiny", precision=precision).embed(texts)
        for precision in ("fp32", "int8")
    )
    cosines = (exact * rounded).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(
        rounded, axis=1
    )  # fmt: skip
    assert not np.array_equal(exact, rounded)
    assert cosines.min() > 0.999
