"""What is multiplied in a processor's matrix unit, beside the same by its vectors.

The functions' own tests set them beside their definitions in the way that this processor has; here
both ways meet, at every height and width of tiles.
"""

import contextlib

import pytest
import torch

from bertsmith.model import cpu_layer
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.config import BertConfig
from bertsmith.model.cpu_attention import attend
from bertsmith.model.int8_weights import Int8Weights
from bertsmith.model.layer import Layer
from bertsmith.model.layers import lay_out
from bertsmith.model.linear import linears
from bertsmith.model.stream import Stream
from tests.builds import NEEDS_COMPILER, has_tiles, tiles_are_imitated, tiles_refused, without_tiles
from tests.model.plain import random_packed

# Sums are made in another order, so that now and then one is rounded the other way.
WITHIN = 2e-3

pytestmark = [
    NEEDS_COMPILER,
    pytest.mark.skipif(not has_tiles(), reason="no matrix unit here"),
]


def assert_near(found, other):
    assert found.shape == other.shape
    assert found.isfinite().all()
    assert (found.double() - other.double()).norm() <= WITHIN * other.double().norm()


@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right", "right_to_left"])
@pytest.mark.parametrize("head_size", [32, 64, 96, 20, 2])
@pytest.mark.parametrize("lengths", [[1, 2, 3, 15, 16], [17, 31, 32], [33, 48, 65], [300]], ids=str)
def test_attention_is_the_same(lengths, head_size, direction):
    torch.manual_seed(head_size)
    stream = Stream.of(random_packed(lengths, 60))
    rules = AttentionRules(num_heads=2, direction=direction, probability=0.1)
    qkv = torch.randn(sum(lengths), 6 * head_size).bfloat16()
    words = torch.randint(-(2**31), 2**31 - 1, (sum(lengths),)).int()
    towards = torch.randn(sum(lengths), 2 * head_size).bfloat16()
    found = []
    for way in (contextlib.nullcontext, without_tiles):
        leaf = qkv.clone().requires_grad_()
        with way():
            contexts = attend(leaf, words, stream, rules)
            contexts.backward(towards)
        found.append((contexts.detach(), leaf.grad))
    for mine, other in zip(*found, strict=True):
        assert_near(mine, other)


@pytest.fixture
def answers(monkeypatch):
    """A layer of some width -> what it answers on some texts, each way that is asked."""
    monkeypatch.setattr(cpu_layer, "has_fast_products", lambda *_, **__: True)

    @torch.no_grad()
    def answer(lengths, hidden, inner, in_bytes, ways):
        torch.manual_seed(hidden)
        config = BertConfig(
            **{"vocab_size": 60, "num_hidden_layers": 1, "hidden_size": hidden},
            **{"num_attention_heads": 2, "intermediate_size": inner},
        )
        layer = Layer(config, 1).eval().bfloat16()
        for each in linears(layer):
            torch.nn.init.normal_(each.weight, std=0.1)
            if in_bytes:
                each.take(Int8Weights(each.weight))
        for norm in (layer.attention.norm, layer.feed_forward.norm):
            norm.float()
        stream = Stream.of(random_packed(lengths, 60))
        states = torch.randn(sum(lengths), hidden).bfloat16()
        found = []
        for way in ways:
            with way():
                lay_out(layer)
                assert layer.ready is not None
                found.append(layer(states, stream))
        return found

    return answer


@pytest.mark.parametrize("in_bytes", [False, True], ids=["", "eight bits"])
@pytest.mark.parametrize(
    ("hidden", "inner"), [(64, 96), (128, 320), (40, 70), (192, 1024), (192, 6144), (384, 1536)]
)
@pytest.mark.parametrize(
    "lengths", [[1], [16], [5, 3, 40], [31, 1], [33, 32], [200], [500, 77]], ids=str
)
def test_a_layer_is_the_same(lengths, hidden, inner, in_bytes, answers):
    ways = (contextlib.nullcontext, without_tiles)
    assert_near(*answers(lengths, hidden, inner, in_bytes, ways))


def test_deep_rows_by_more_columns_than_the_cache_keeps_sums_of_are_the_same(answers):
    ways = (contextlib.nullcontext, without_tiles)
    assert_near(*answers([300], 1056, 64, False, ways))


@pytest.mark.skipif(not tiles_are_imitated(), reason="this system keeps nothing back")
@pytest.mark.parametrize("in_bytes", [False, True], ids=["", "eight bits"])
@pytest.mark.parametrize("lengths", [[5], [200, 33]], ids=str)
def test_where_the_system_keeps_the_unit_back_vectors_multiply(lengths, in_bytes, answers):
    assert_near(*answers(lengths, 192, 320, in_bytes, (tiles_refused, without_tiles)))
