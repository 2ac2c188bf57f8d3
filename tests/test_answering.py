"""How a model becomes ready to answer, in every precision that answers have."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from bertsmith import answering
from bertsmith.answering import make_ready, rest_of
from bertsmith.checkpoints import store
from bertsmith.inference import Predictor
from bertsmith.model.cpu_layer import FLOAT16_SOURCE
from bertsmith.model.int8_weights import Int8Weights, multiplies_int8
from bertsmith.model.layer import Layer
from bertsmith.model.linear import linears
from bertsmith.native import multiplies_float16
from tests.checkpoints.tiny import CONFIG, tiny_model, tiny_tokenizer

CPU = torch.device("cpu")
needs_int8 = pytest.mark.skipif(not multiplies_int8(), reason="this CPU does not multiply int8")


def test_what_does_not_multiply_int8_says_so_before_anything_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr(answering, "multiplies_int8", lambda: False)
    with pytest.raises(ValueError, match=r"precision int8 needs a CPU that multiplies.* take prec"):
        Predictor.load(tmp_path / "nothing", precision="int8")
    with pytest.raises(ValueError, match=r"precision int8 is for CPUs, found device cuda"):
        rest_of("int8", torch.device("cuda"))
    with pytest.raises(ValueError, match=r"there is no precision 'int4'.*fp32, int8"):
        rest_of("int4", CPU)


@needs_int8
def test_every_matrix_of_the_layers_is_rounded_from_the_weights_as_they_were_loaded():
    model = tiny_model()
    first = model.bert.layers[0].attention.qkv
    steps = first.weight.detach().float().abs().amax(dim=1) / 127
    rest = make_ready(model, "int8", CPU)
    auto = rest_of("auto", CPU)
    assert rest == ("fp32" if auto == "fp16" else auto)  # nothing is left to make in float16
    assert not model.training
    with torch.inference_mode():
        for linear in linears(model):
            rows = torch.zeros(1, linear.in_features, dtype=linear.weight.dtype)
            assert isinstance(linear.ready_for(rows), Int8Weights)
        ready = first.ready_for(torch.zeros(1, first.in_features, dtype=first.weight.dtype))
    assert torch.equal(ready.steps, steps)  # a step of bfloat16 weights would be another
    assert len(linears(model)) == 4 * CONFIG.num_hidden_layers


@needs_int8
def test_what_was_rounded_is_not_copied_and_not_kept_when_another_precision_is_asked_for():
    model = tiny_model()
    make_ready(model, "int8", CPU)
    with pytest.raises(ValueError, match="a model in int8 cannot be copied or pickled"):
        copy.deepcopy(model)
    assert all(linear.is_rounded for linear in linears(model))
    make_ready(model, "fp32", CPU)
    assert not any(linear.is_rounded for linear in linears(model))
    copy.deepcopy(model)


@needs_int8
def test_a_cap_of_onednn_under_which_sums_overflow_refuses_int8():
    code = "from bertsmith.model.int8_weights import multiplies_int8; print(multiplies_int8())"
    for cap, expected in (("AVX2", "False"), ("DEFAULT", "True")):
        environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": cap}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected


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
    with torch.inference_mode():
        ready = Predictor.load(tmp_path / "tiny", precision="int8")
        assert ready.computed_in.startswith("int8, the rest in ")
        assert np.array_equal(ready.embed(texts), rounded)
    assert cosines.min() > 0.999


@pytest.mark.skipif(not multiplies_float16(), reason="no products of float16 here")
def test_in_fp16_layers_are_ready_for_products_of_it_and_numbers_stay_float32():
    model = tiny_model()
    assert make_ready(model, "fp16", CPU) == "fp16"
    ready = [each.ready for each in model.modules() if isinstance(each, Layer)]
    assert [each.source for each in ready] == [FLOAT16_SOURCE] * CONFIG.num_hidden_layers
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    make_ready(model, "fp32", CPU)
    ready = [each.ready for each in model.modules() if isinstance(each, Layer)]
    assert FLOAT16_SOURCE not in [each.source for each in ready if each is not None]
