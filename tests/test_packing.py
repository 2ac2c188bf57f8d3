"""When a compiler is waited for, and a GPU; how batches are made is seen in what is answered.

Where there is no GPU its way of asking is taken on the CPU.
"""

import contextlib

import numpy as np
import pytest
import torch

from bertsmith import packing
from bertsmith.data.items import Item
from bertsmith.fusion import unfused
from tests.tasks.predictors import SENTENCES, predictor_of

LENGTHS = [3, 9, 1, 7, 7, 2, 8, 5, 6, 4, 9, 1]
ITEMS = [
    Item(token_ids=np.full(n, n, np.int32), segment_ids=np.zeros(n, np.int32), num_unread=0)
    for n in LENGTHS
]


def of(device, tokens_per_batch=None):
    return packing.Packing(
        device=torch.device(device),
        dtype=torch.bfloat16,
        values_per_token=8,
        tokens_per_batch=tokens_per_batch,
    )


def test_only_long_work_on_a_gpu_waits_for_a_compiler(monkeypatch):
    monkeypatch.setattr(packing, "_VALUES_BEFORE_FUSING", 14 * 8)

    on_gpu = of("cuda")
    assert [on_gpu._fuses(9), on_gpu._fuses(3), on_gpu._fuses(2)] == [False, False, True]
    assert of("cuda")._fuses(14)  # what is known to come counts at once
    assert not of("cpu")._fuses(14)


def test_nothing_is_compiled_for_answers_on_a_cpu(monkeypatch):
    asked = []

    @contextlib.contextmanager
    def recorded(condition):
        asked.append(condition)
        with unfused():
            yield

    monkeypatch.setattr(packing, "unfused", recorded)
    monkeypatch.setattr(packing, "_VALUES_BEFORE_FUSING", 1)
    predictor_of().fill_mask(["my [MASK] likes the cat"])
    assert asked == [True]


def test_on_a_gpu_later_batches_are_begun_before_answers_are_waited_for():
    told = []

    def answer(numbers, packed):
        told.append("begun")

        def finish(lengths):
            told.append("there")
            return lengths.tolist()

        return packing.Arriving(torch.from_numpy(packed.lengths), finish)

    assert of("cuda", 9).in_order(ITEMS, answer, told.append) == LENGTHS
    shares = [each for each in told if isinstance(each, float)]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    waiting = [told[:end].count("begun") - told[:end].count("there") for end in range(len(told))]
    assert max(waiting) == packing._BATCHES_AHEAD + 1
    num_batches = told.count("begun")
    assert num_batches == told.count("there") == len(shares) > packing._BATCHES_AHEAD + 1
    for number, share in enumerate(shares, 1):  # of answers that are there, and of all these
        before = told[: told.index(share)]
        assert before.count("there") == number
    told.clear()
    assert of("cpu", 9).in_order(ITEMS, answer, lambda share: None) == LENGTHS
    assert told == ["begun", "there"] * (len(told) // 2)


def test_vectors_that_arrive_later_are_the_same():
    predictor = predictor_of(tokens_per_batch=8)
    expected = predictor.embed(SENTENCES * 5)
    predictor.packing.device = torch.device("cuda")
    np.testing.assert_allclose(predictor.embed(SENTENCES * 5), expected, atol=2e-6)
    assert predictor.embed([]).shape == (0, expected.shape[1])


@pytest.mark.parametrize("texts", [SENTENCES[:1], SENTENCES * 5])
def test_what_is_no_finite_number_is_told_even_if_it_arrives_later(texts):
    predictor = predictor_of(tokens_per_batch=8)
    shares = []
    predictor.watch = shares.append
    predictor.packing.device = torch.device("cuda")
    with torch.no_grad():
        predictor.model.bert.layers[-1].feed_forward.norm.bias[0] = float("nan")
    with pytest.raises(ValueError, match="sentence vectors are no finite numbers: found NaN"):
        predictor.embed(texts)
    assert not shares


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_what_a_gpu_computes_later_does_not_reach_what_is_on_its_way():
    steps = torch.zeros(1_000_000, device="cuda")
    arriving = []
    for number in range(20):
        steps.fill_(number)
        arriving.append(packing.Arriving(steps, lambda here: here.unique().tolist()))
    assert [list(each) for each in arriving] == [[number] for number in range(20)]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_who_watches_is_in_no_mode_of_inference(device):
    seen = []
    items = [
        Item(token_ids=np.ones(3, np.int32), segment_ids=np.zeros(3, np.int32), num_unread=0)
        for _ in range(2)
    ]
    answers = of(device).in_order(
        items,
        lambda numbers, packed: [torch.is_inference_mode_enabled()] * len(numbers),
        lambda share: seen.append(torch.is_inference_mode_enabled()),
    )
    assert answers == [True, True]
    assert seen
    assert not any(seen)
