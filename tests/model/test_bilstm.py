"""A BiLSTM on a packed stream is one on each sequence by itself, and a head may stand on it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bertsmith.model.bilstm import BiLstm
from bertsmith.model.stream import Stream
from bertsmith.model.task import TaskHeadConfig
from tests.checkpoints.fine_tuned import BILSTM_HEADS, fine_tuned
from tests.model.plain import plain_hidden, random_packed

LENGTHS = [5, 1, 24, 11]


def _stream() -> Stream:
    return Stream.of(random_packed(LENGTHS, 25))


def _alone(bilstm: BiLstm, hidden: Tensor) -> list[Tensor]:
    return [bilstm.lstm(part[:, None])[0][:, 0] for part in torch.split(hidden, LENGTHS)]


def test_states_are_those_of_each_sequence_by_itself() -> None:
    torch.manual_seed(0)
    bilstm = BiLstm(8, 3, 2).double()
    hidden = torch.randn(sum(LENGTHS), 8, dtype=torch.float64)
    alone = _alone(bilstm, hidden)
    states = bilstm(hidden, _stream())
    for each in (states, bilstm._by_torch(hidden, _stream())):
        torch.testing.assert_close(each, torch.cat(alone), rtol=1e-12, atol=1e-12)
    pooled = bilstm.pool(states, _stream())
    expected = torch.stack([torch.cat([each[-1, :3], each[0, 3:]]) for each in alone])
    torch.testing.assert_close(pooled, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", BILSTM_HEADS)
def test_a_head_scores_the_states_instead_of_the_encoders(kind: str) -> None:
    config = BILSTM_HEADS[kind]  # type: ignore[index]
    model, head = fine_tuned(config)
    model, head = model.double(), head.double()
    packed = random_packed(LENGTHS, model.config.vocab_size)
    stream = Stream.of(packed)
    with torch.no_grad():
        parts = zip(stream.token_ids.split(LENGTHS), stream.segment_ids.split(LENGTHS), strict=True)
        hidden = torch.cat([plain_hidden(model.bert, *part) for part in parts])
        assert head.bilstm is not None
        alone = _alone(head.bilstm, hidden)
        size = config.lstm_size
        read = torch.cat(alone)
        if not config.reads_tokens:
            read = torch.stack([torch.cat([each[-1, :size], each[0, size:]]) for each in alone])
        expected = head.scores(read)
        torch.testing.assert_close(
            head.logits(model.bert, stream), expected, rtol=1e-10, atol=1e-10
        )
        if config.reads_tokens:
            rows = torch.tensor([0, 6, 40])
            torch.testing.assert_close(
                head.logits(model.bert, stream, rows), expected[rows], rtol=1e-10, atol=1e-10
            )


def _recurrence(bilstm: BiLstm, hidden: Tensor) -> Tensor:
    """(n, H) states of one sequence -> (n, 2D), by the equations, token after token."""
    for layer in range(bilstm.lstm.num_layers):
        sides = []
        for ending in ("", "_reverse"):
            (into, across, first, second) = (
                getattr(bilstm.lstm, f"{name}_l{layer}{ending}")
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            state = cell = hidden.new_zeros(bilstm.size)
            states = []
            for row in hidden.flip(0) if ending else hidden:
                gates = into @ row + across @ state + first + second
                enter, forget, candidate, leave = gates.chunk(4)
                cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
                state = leave.sigmoid() * cell.tanh()
                states.append(state)
            sides.append(torch.stack(states[::-1] if ending else states))
        hidden = torch.cat(sides, dim=1)
    return hidden


@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right"])
@pytest.mark.parametrize("kind", ["sequence_classification", "token_classification"])
def test_gradients_are_those_of_the_plain_equations_down_to_the_embeddings(
    kind: str, direction: str
) -> None:
    config = BILSTM_HEADS[kind]  # type: ignore[index]
    model, head = fine_tuned(config, direction=direction)
    model, head = model.double(), head.double()
    packed = random_packed(LENGTHS, model.config.vocab_size)
    stream = Stream.of(packed)
    parts = zip(stream.token_ids.split(LENGTHS), stream.segment_ids.split(LENGTHS), strict=True)
    assert head.bilstm is not None
    read = [_recurrence(head.bilstm, plain_hidden(model.bert, *part)) for part in parts]
    rows = torch.cat(read)
    if not config.reads_tokens:
        size = config.lstm_size
        rows = torch.stack([torch.cat([each[-1, :size], each[0, size:]]) for each in read])
    plain = rows @ head.scores.weight.T + head.scores.bias
    found = head.logits(model.bert, stream)
    towards = torch.randn(plain.shape, dtype=torch.float64, generator=torch.manual_seed(2))
    weights = {**dict(head.named_parameters()), **dict(model.bert.named_parameters())}
    ours, expected = (
        torch.autograd.grad((each * towards).sum(), list(weights.values()))
        for each in (found, plain)
    )
    for name, *pair in zip(weights, ours, expected, strict=True):
        torch.testing.assert_close(*pair, rtol=1e-9, atol=1e-9, msg=name)


def test_sizes_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="lstm_size and lstm_layers must be at least 1"):
        TaskHeadConfig(kind="token_classification", labels=("a",), on_top="bilstm", lstm_size=0)
