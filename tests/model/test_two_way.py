"""A two-way encoder is two encoders side by side, which never see each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bertsmith.checkpoints.sides import joined_name
from bertsmith.model.bert import Bert
from bertsmith.model.config import LayerKind, sized
from bertsmith.model.init import initialise
from bertsmith.model.stream import Stream
from tests.model.plain import random_packed

LENGTHS = [5, 1, 24, 11]
CONFIG = replace(sized(2, 32, 4), vocab_size=60, max_position_embeddings=64, direction="two_way")
KINDS: tuple[LayerKind, ...] = ("transformer", "lstm")


def two_way(kind: LayerKind) -> tuple[Bert, list[Bert]]:
    """A two-way encoder and its two sides."""
    both = Bert(replace(CONFIG, layer_kind=kind), with_pooler=False)
    sides = [Bert(side, with_pooler=False) for side in both.config.sides]
    state = {}
    for seed, side in enumerate(sides):
        initialise(side, std=0.3, seed=seed)
        for name, weight in side.state_dict().items():
            state[joined_name(side.config.direction, f"bert.{name}").removeprefix("bert.")] = weight
    both.load_state_dict(state)
    return both, sides


def test_each_side_is_half_of_it_in_every_size() -> None:
    left, right = CONFIG.sides
    assert (left.direction, right.direction) == ("left_to_right", "right_to_left")
    assert replace(right, direction="left_to_right") == left
    assert (left.hidden_size, left.num_attention_heads, left.intermediate_size) == (16, 2, 64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dropout", [None, (1, 7)])
def test_its_states_are_those_of_both_side_by_side(
    kind: LayerKind, dropout: tuple[int, int] | None
) -> None:
    both, sides = two_way(kind)
    stream = Stream.of(random_packed(LENGTHS, 60), dropout=dropout)
    with torch.no_grad():
        apart = [side.hidden_states(stream) for side in sides]
        found = both.hidden_states(stream)
    assert len(found) == 3
    for state, *halves in zip(found, *apart, strict=True):
        assert torch.equal(state, torch.cat(halves, dim=1))


@pytest.mark.parametrize("kind", KINDS)
def test_each_half_sees_one_side_in_every_layer(kind: LayerKind) -> None:
    both, _ = two_way(kind)
    packed = random_packed([9], 60)
    ids = packed.token_ids.copy()
    ids[4] = 5 + (ids[4] - 4) % 55
    with torch.no_grad():
        pair = [
            both.hidden_states(Stream.of(each)) for each in (packed, replace(packed, token_ids=ids))
        ]
    for before, after in list(zip(*pair, strict=True))[1:]:
        halves = [(half.any(dim=1)).tolist() for half in (before != after).chunk(2, dim=1)]
        assert halves == [4 * [False] + 5 * [True], 5 * [True] + 4 * [False]]


@pytest.mark.parametrize("kind", KINDS)
def test_both_sides_learn(kind: LayerKind) -> None:
    both, sides = two_way(kind)
    stream = Stream.of(random_packed(LENGTHS, 60))
    towards = torch.randn(sum(LENGTHS), 32)
    (both(stream) * towards).sum().backward()
    for side, half in zip(sides, towards.chunk(2, dim=1), strict=True):
        (side(stream) * half).sum().backward()
        for name, parameter in side.named_parameters():
            joined = joined_name(side.config.direction, f"bert.{name}").removeprefix("bert.")
            torch.testing.assert_close(both.get_parameter(joined).grad, parameter.grad, msg=name)
