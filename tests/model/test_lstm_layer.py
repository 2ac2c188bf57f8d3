"""An LSTM on a packed stream is the textbook's, on each sequence by itself, in one direction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertsmith.batch import PackedBatch
from bertsmith.model.bert import Bert
from bertsmith.model.config import Direction, sized
from bertsmith.model.dropout import LSTM_SITE, keep_factors, site_words
from bertsmith.model.init import initialise
from bertsmith.model.lstm_layer import LstmLayer
from bertsmith.model.recurrence import reading_order, recur
from bertsmith.model.stream import Stream
from tests.model.plain import plain_norm, random_packed

LENGTHS = [5, 1, 24, 11]
DIRECTIONS: tuple[Direction, ...] = ("left_to_right", "right_to_left")
CONFIG = replace(
    sized(3, 16, 1),
    vocab_size=60,
    max_position_embeddings=64,
    intermediate_size=24,
    direction="left_to_right",
    layer_kind="lstm",
)


def lstm_bert(direction: Direction = "left_to_right", **changes: object) -> Bert:
    bert = Bert(replace(CONFIG, direction=direction, **changes), with_pooler=False)
    initialise(bert, std=0.3, seed=3)
    for name, parameter in bert.named_parameters():
        if name.endswith("gates.bias"):
            nn.init.normal_(parameter, generator=torch.manual_seed(5))
    return bert.double()


def recurrence(layer: LstmLayer, hidden: Tensor) -> Tensor:
    """(n, H) of one sequence -> (n, H), by the equations, token after token."""
    if layer.direction == "right_to_left":
        hidden = hidden.flip(0)
    state, cell = hidden.new_zeros(hidden.shape[1]), hidden.new_zeros(layer.projection.in_features)
    states = []
    for row in hidden:
        total = layer.gates.weight @ row + layer.gates.bias + layer.recurrent.weight @ state
        enter, forget, candidate, leave = total.chunk(4)
        cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
        state = layer.projection.weight @ (leave.sigmoid() * cell.tanh())
        states.append(state)
    read = torch.stack(states)
    return read.flip(0) if layer.direction == "right_to_left" else read


def plain_states(bert: Bert, token_ids: Tensor, segment_ids: Tensor) -> list[Tensor]:
    """L + 1 hidden states (n, H) of one sequence, without dropout; residuals from layer 2 on."""
    embeddings = bert.embeddings
    rows = (
        embeddings.token.weight[token_ids]
        + embeddings.segment.weight[segment_ids]
        + embeddings.position.weight[: len(token_ids)]
    )
    states = [plain_norm(rows, embeddings.norm)]
    for number, layer in enumerate(bert.layers):
        read = recurrence(layer, states[-1])
        states.append(read + states[-1] if number else read)
    return states


@pytest.mark.parametrize("is_rounded", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [LENGTHS, [9] * 4, [1], [1, 1, 1]], ids=str)
def test_states_and_gradients_are_those_of_the_plain_equations(
    direction: Direction, lengths: list[int], is_rounded: bool
) -> None:
    bert = lstm_bert(direction)
    packed = random_packed(lengths, CONFIG.vocab_size)
    stream = Stream.of(packed, is_rounded=is_rounded)
    assert stream.has_spare_rows == (is_rounded and sum(lengths) > 40)
    token_ids = torch.from_numpy(packed.token_ids).split(lengths)
    segment_ids = torch.from_numpy(packed.segment_ids).split(lengths)
    alone = [plain_states(bert, *each) for each in zip(token_ids, segment_ids, strict=True)]
    expected = torch.stack([torch.cat(each) for each in zip(*alone, strict=True)])
    found = torch.stack(bert.hidden_states(stream))
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
    towards = torch.randn(found.shape, dtype=torch.float64, generator=torch.manual_seed(2))
    weights = dict(bert.named_parameters())
    ours, plain = (
        torch.autograd.grad((each * towards).sum(), list(weights.values()), allow_unused=True)
        for each in (found, expected)
    )
    for name, *pair in zip(weights, ours, plain, strict=True):
        # Of sequences of one token the products with a state before have no part in anything.
        pair = [torch.zeros_like(weights[name]) if each is None else each for each in pair]
        torch.testing.assert_close(*pair, rtol=1e-9, atol=1e-9, msg=name)


def test_a_layer_is_torchs_lstm_with_a_projection() -> None:
    layer = LstmLayer(CONFIG, 0).double()
    initialise(layer, std=0.3, seed=1)
    peer = nn.LSTM(16, 24, proj_size=16).double()
    with torch.no_grad():
        peer.weight_ih_l0.copy_(layer.gates.weight)
        peer.bias_ih_l0.copy_(layer.gates.bias)
        peer.bias_hh_l0.zero_()
        peer.weight_hh_l0.copy_(layer.recurrent.weight)
        peer.weight_hr_l0.copy_(layer.projection.weight)
        hidden = torch.randn(sum(LENGTHS), 16, dtype=torch.float64)
        found = layer(hidden, Stream.of(random_packed(LENGTHS, 60)))
        alone = [peer(part[:, None])[0][:, 0] for part in hidden.split(LENGTHS)]
    torch.testing.assert_close(found, torch.cat(alone), rtol=1e-12, atol=1e-12)


def _changed(packed: PackedBatch, row: int) -> PackedBatch:
    ids = packed.token_ids.copy()
    ids[row] = 5 + (ids[row] - 4) % 55
    return replace(packed, token_ids=ids)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_token_is_seen_from_its_own_sequence_and_from_one_side_alone(
    direction: Direction,
) -> None:
    bert = lstm_bert(direction)
    packed = random_packed(LENGTHS, CONFIG.vocab_size)
    row = 5 + 1 + 10  # in the third sequence, rows 6 to 29
    with torch.no_grad():
        pair = [bert.hidden_states(Stream.of(each)) for each in (packed, _changed(packed, row))]
    seeing = range(row, 30) if direction == "left_to_right" else range(6, row + 1)
    for number, (before, after) in enumerate(zip(*pair, strict=True)):
        differing = (before != after).any(dim=1).nonzero()[:, 0].tolist()
        assert differing == ([row] if number == 0 else list(seeing))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_how_sequences_are_packed_changes_neither_states_nor_dropout(direction: Direction) -> None:
    bert = lstm_bert(direction)
    packed = random_packed(LENGTHS, CONFIG.vocab_size)
    together = bert(Stream.of(packed, dropout=(4, 9))).split(LENGTHS)
    order = [2, 0, 3, 1]
    for group in (order[:2], order[2:]):
        rows = np.concatenate([packed.starts[each] + np.arange(LENGTHS[each]) for each in group])
        some = PackedBatch(
            token_ids=packed.token_ids[rows],
            segment_ids=packed.segment_ids[rows],
            lengths=packed.lengths[group],
            keys=packed.keys[group],
        )
        found = bert(Stream.of(some, dropout=(4, 9)))
        expected = torch.cat([together[each] for each in group])
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("number", [0, 1])
def test_dropout_falls_on_what_a_layer_gives_residual_included(number: int) -> None:
    layer = LstmLayer(replace(CONFIG, hidden_dropout_prob=0.3), number).double()
    initialise(layer, std=0.3, seed=1)
    packed = random_packed([200, 40], 60)
    hidden = torch.randn(240, 16, dtype=torch.float64)
    stream = Stream.of(packed, dropout=(1, 2))
    with torch.no_grad():
        plain, dropped = layer(hidden, Stream.of(packed)), layer(hidden, stream)
    words = site_words(stream.row_keys, number, LSTM_SITE)
    assert words is not None
    columns = torch.arange(16, dtype=torch.int32)
    factors = keep_factors(words[:, None], columns[None, :], 0.3, torch.float64)
    torch.testing.assert_close(dropped, plain * factors)
    assert abs((dropped == 0).double().mean().item() - 0.3) < 5 * (0.21 / dropped.numel()) ** 0.5


def test_places_are_read_in_order_and_the_longest_sequence_goes_first() -> None:
    stream = Stream.of(random_packed([2, 1, 3], 60))
    order, counts = reading_order(stream, "left_to_right")
    assert (order.tolist(), counts) == ([3, 0, 2, 4, 1, 5], [3, 2, 1])
    order, counts = reading_order(stream, "right_to_left")
    assert (order.tolist(), counts) == ([5, 1, 2, 4, 0, 3], [3, 2, 1])


def test_in_bfloat16_the_recurrence_is_made_in_float32() -> None:
    bert = lstm_bert()
    stream = Stream.of(random_packed(LENGTHS, CONFIG.vocab_size), is_rounded=True)
    assert stream.has_spare_rows
    exact = bert(stream).detach()
    rounded = bert.bfloat16()(stream)
    assert rounded.dtype == torch.bfloat16
    # States of up to 2, rounded to 8 bits at each of six places.
    torch.testing.assert_close(rounded.double(), exact, atol=0.05, rtol=0.05)
    sums = torch.randn(7, 96, dtype=torch.bfloat16)
    across, down = torch.randn(96, 16).bfloat16(), torch.randn(16, 24).bfloat16()
    states = recur(sums, across, down, [3, 3, 1])
    assert torch.equal(states, recur(sums.float(), across.float(), down.float(), [3, 3, 1]))


def test_in_bfloat16_gradients_are_those_of_the_same_weights_but_for_rounding() -> None:
    bert = lstm_bert().bfloat16()
    stream = Stream.of(random_packed(LENGTHS, CONFIG.vocab_size), is_rounded=True)
    towards = torch.randn(sum(LENGTHS), 16, generator=torch.manual_seed(2))
    found = []
    for dtype in (torch.float64, torch.bfloat16):
        bert.to(dtype).zero_grad(set_to_none=True)
        (bert(stream) * towards.to(dtype)).sum().backward()
        found.append({name: each.grad.double() for name, each in bert.named_parameters()})
    for name, exact in found[0].items():
        # Each product's inputs and results are rounded to 8 bits, through three layers and back.
        assert (found[1][name] - exact).norm() <= 0.05 * exact.norm(), name


def test_forget_gates_begin_open_and_all_else_as_everywhere() -> None:
    bert = Bert(CONFIG, with_pooler=False)
    initialise(bert, std=0.02, seed=5)
    for layer in bert.layers:
        biases = layer.gates.bias.chunk(4)
        assert [each.unique().tolist() for each in biases] == [[0.0], [1.0], [0.0], [0.0]]
        for matrix in (layer.gates.weight, layer.recurrent.weight, layer.projection.weight):
            assert 0.015 < matrix.std().item() < 0.02
            assert matrix.abs().max().item() <= 0.04
