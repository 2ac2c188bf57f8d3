"""Layers that answer for a pooler's rows, beside torch's operators in float64."""

import copy
import functools
import threading

import pytest
import torch

from bertsmith.model import cpu_layer
from bertsmith.model.bert import Bert
from bertsmith.model.config import BertConfig
from bertsmith.model.layers import in_turn, lay_out
from tests.builds import NEEDS_COMPILER, fastest_in, names_of_calls, without_tiles
from tests.model.test_cpu_int8_layer import in_eight_bits
from tests.model.test_cpu_layer import WITHIN, a_layer, a_stream, as_answering, error, states

# Heads of one panel or two, an odd number of them, more than are compared at a time, and rows that
# lie in bands where there is a matrix unit.
SHAPES = [(64, 1, 100), (192, 3, 320), (256, 2, 128), (2112, 33, 64), (384, 6, 1536)]

pytestmark = NEEDS_COMPILER


anywhere = fastest_in(cpu_layer, lambda _, weight, **asked: weight.dtype in WITHIN)


def turns_keys(layer):
    """Whether it has laid out what lone queries are turned by."""
    made = layer.ready._for_pooling
    return made is not None and bool(made.keys_by_heads.numbers)


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right", "right_to_left"])
@pytest.mark.parametrize("which", ["first", "last", "shuffled"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_hidden_states_are_those_of_the_definition(shape, which, direction, dtype):
    layer, stream = a_layer(*shape, direction=direction), a_stream()
    for each in layer.parameters():
        each.div_(max(1, shape[0] / 384))  # scores as large as a narrower layer's
    rows = {
        "first": stream.first_rows,
        "last": stream.last_rows,
        "shuffled": stream.first_rows[torch.tensor([3, 6, 0, 2, 5, 1, 4])],
    }[which]
    given = states(stream, shape[0], dtype)
    exact = copy.deepcopy(layer.to(dtype)).double()(given.double(), stream, rows)
    ready = as_answering(layer, dtype)
    assert not turns_keys(ready)
    assert error(ready(given, stream, rows), exact) < WITHIN[dtype]
    assert turns_keys(ready)


@torch.no_grad()
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_without_a_matrix_unit_too(shape):
    layer, stream = a_layer(*shape).bfloat16(), a_stream()
    given = states(stream, shape[0], torch.bfloat16)
    exact = copy.deepcopy(layer).double()(given.double(), stream, stream.first_rows)
    with without_tiles():
        found = as_answering(layer, torch.bfloat16)(given, stream, stream.first_rows)
    assert error(found, exact) < WITHIN[torch.bfloat16]


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_a_sequence_becomes_depends_on_no_other_and_on_no_threads(shape, dtype):
    layer, stream = as_answering(a_layer(*shape), dtype), a_stream()
    given = states(stream, shape[0], dtype)
    together = layer(given, stream, stream.first_rows)
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            assert torch.equal(layer(given, stream, stream.first_rows), together)
    finally:
        torch.set_num_threads(threads)
    for number, length in enumerate(stream.lengths.tolist()):
        own = given[int(stream.first_rows[number]) :][:length]
        alone = layer(own, a_stream([length]), torch.tensor([0]))
        assert torch.equal(alone[0], together[number])


@torch.no_grad()
def test_of_several_layers_the_last_one_alone_turns_keys():
    layers, stream = [as_answering(a_layer(*SHAPES[1])) for _ in range(3)], a_stream()
    given = states(stream, 192)
    found = in_turn(layers, given, stream, stream.first_rows)
    assert [turns_keys(each) for each in layers] == [False, False, True]
    of_all = in_turn(layers, given, stream)[stream.first_rows]
    assert error(found, of_all.double()) < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_texts_longer_than_a_part_of_a_panel(dtype):
    layer, stream = a_layer(*SHAPES[1]), a_stream([300, 512, 7])
    given = states(stream, 192, dtype)
    exact = copy.deepcopy(layer.to(dtype)).double()(given.double(), stream, stream.first_rows)
    found = as_answering(layer, dtype)(given, stream, stream.first_rows)
    assert error(found, exact) < WITHIN[dtype]


@torch.no_grad()
@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_a_number_that_is_none_spoils_its_own_sequence_alone(dtype):
    layer, stream = as_answering(a_layer(*SHAPES[1]), dtype), a_stream()
    given = states(stream, 192, dtype)
    together = layer(given, stream, stream.first_rows)
    given[4, 3] = float("nan")
    spoilt = layer(given, stream, stream.first_rows)
    assert spoilt[0].isnan().all()
    assert torch.equal(spoilt[1:], together[1:])


@torch.no_grad()
def test_other_rows_are_those_of_all_to_the_bit():
    layer, stream = as_answering(a_layer(*SHAPES[1])), a_stream()
    given = states(stream, 192)
    of_all = layer(given, stream)
    # Two of the first sequence and none of the second, or another row of one.
    for rows in ([0, 1, 8, 48, 49, 126, 326], [0, 5, 9, 48, 49, 126, 326]):
        assert torch.equal(layer(given, stream, torch.tensor(rows)), of_all[rows])
    assert not turns_keys(layer)


@torch.no_grad()
def test_keys_that_changed_are_turned_anew():
    layer, stream = a_layer(*SHAPES[1]), a_stream()
    given, ready = states(stream, 192), as_answering(layer)
    before = ready(given, stream, stream.first_rows)
    for each in (layer, ready):
        each.attention.qkv.weight[192:384] *= -1
    ready.lay_out()
    after = ready(given, stream, stream.first_rows)
    exact = copy.deepcopy(layer).double()(given.double(), stream, stream.first_rows)
    assert error(after, exact) < WITHIN[torch.float32]
    assert not torch.allclose(after, before)


@torch.no_grad()
def test_levels_of_eight_bits_have_keys_and_values():
    ready, stream = in_eight_bits(a_layer(*SHAPES[1])), a_stream()
    given = states(stream, 192)
    found = ready(given, stream, stream.first_rows)
    of_all = ready(given, stream)[stream.first_rows]
    assert error(found, of_all.double()) < WITHIN[torch.float32]
    assert not ready.ready.structure_for_pooling().keys_by_heads.panels.numbers


def asked_at_once(ask, count=4):
    """What as many threads are answered, which ask at the same time."""
    found = []
    barrier = threading.Barrier(count)

    def wait_and_ask():
        barrier.wait()
        with torch.no_grad():  # a thread's own
            found.append(ask())

    threads = [threading.Thread(target=wait_and_ask) for _ in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == count
    return found


def test_threads_that_ask_first_at_the_same_time_wait_for_one_and_have_the_same_answers(
    monkeypatch,
):
    layer, stream = a_layer(*SHAPES[1]), a_stream()
    given = states(stream, 192)
    with torch.no_grad():
        right = as_answering(layer)(given, stream, stream.first_rows)
    names = names_of_calls(cpu_layer, monkeypatch)
    for _ in range(20):
        ask = functools.partial(as_answering(layer), given, stream, stream.first_rows)
        names.clear()
        assert all(torch.equal(each, right) for each in asked_at_once(ask))
        assert names == ["lay_out"] * 3  # a head's each


@torch.no_grad()
@pytest.mark.parametrize("with_pooler", [True, False])
def test_what_a_pooler_asks_for_is_prepared_where_there_is_one(with_pooler, monkeypatch):
    config = BertConfig(
        vocab_size=60, hidden_size=192, num_attention_heads=3, intermediate_size=320,
        num_hidden_layers=2, max_position_embeddings=200,
    )  # fmt: skip
    model, stream = Bert(config, with_pooler=with_pooler).eval(), a_stream()
    lay_out(model)
    model.prepare()
    assert [turns_keys(each) for each in model.layers] == [False, with_pooler]
    names = names_of_calls(cpu_layer, monkeypatch)
    model(stream, stream.first_rows)
    assert names == ([] if with_pooler else ["lay_out"] * 3)
