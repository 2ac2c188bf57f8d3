"""A head on chosen layers reads what the plain definition says, and learns its weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.layer_mix import LayerMix
from bertsmith.model.stream import Stream
from bertsmith.model.task import TaskHeadConfig
from tests.checkpoints.fine_tuned import FEATURE_HEADS, HEADS, fine_tuned
from tests.model.plain import random_packed

LENGTHS = [5, 1, 24, 11]
STATES = {
    "last": [2], "second-to-last": [1], "0,2": [0, 2], "weighted-sum-all": [1, 2],
    "weighted-sum-with-embeddings": [0, 1, 2],
}  # fmt: skip
CONFIGS = {
    **FEATURE_HEADS,
    "mean of the last": replace(HEADS["multiple_choice"], pooling="mean"),
    "as ELMo's": replace(HEADS["token_classification"], layers="weighted-sum-with-embeddings"),
}


def _joined(head: TaskHead, states: list[Tensor]) -> Tensor:
    chosen = [states[number] for number in STATES[head.config.layers]]
    if head.layer_mix is None:
        return torch.cat(chosen, dim=1)
    weights = head.layer_mix.weights.exp() / head.layer_mix.weights.exp().sum()
    return head.layer_mix.scale * torch.einsum("s,sth->th", weights, torch.stack(chosen))


def _plain(head: TaskHead, states: list[Tensor]) -> Tensor:
    """The logits of one sequence, of all its L + 1 states of (n, H)."""
    pooling = {"cls": lambda each: each[:1], "mean": lambda each: each.mean(0, keepdim=True)}
    pooled = pooling.get(head.config.pooling, lambda each: each)
    read = _joined(head, [pooled(each) for each in states])
    if head.bilstm is not None:
        read = head.bilstm.lstm(read[:, None])[0][:, 0]
    return read @ head.scores.weight.T + head.scores.bias


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_gradients_equal_the_plain_definition(name: str) -> None:
    model, head = fine_tuned(CONFIGS[name])
    model, head = model.double(), head.double()
    if head.layer_mix is not None:
        torch.nn.init.normal_(head.layer_mix.weights, generator=torch.manual_seed(3))
        head.layer_mix.scale.data.fill_(1.7)
    packed = random_packed(LENGTHS, model.config.vocab_size)
    stream = Stream.of(packed)
    found = head.logits(model.bert, stream)
    whole = [each.split(LENGTHS) for each in model.bert.hidden_states(stream)]
    plain = torch.cat([_plain(head, list(states)) for states in zip(*whole, strict=True)])
    torch.testing.assert_close(found, plain, rtol=1e-11, atol=1e-11)
    if head.config.reads_tokens:
        rows = torch.tensor([0, 6, 40])
        some = head.logits(model.bert, stream, rows)
        torch.testing.assert_close(some, plain[rows], rtol=1e-11, atol=1e-11)
    towards = torch.randn(plain.shape, dtype=torch.float64, generator=torch.manual_seed(2))
    weights = [*head.parameters(), model.bert.embeddings.token.weight]
    pairs = [torch.autograd.grad((each * towards).sum(), weights) for each in (found, plain)]
    torch.testing.assert_close(*pairs, rtol=1e-9, atol=1e-9)


def test_a_mix_begins_as_the_mean_of_its_layers() -> None:
    mix = LayerMix(4)
    mix.weights.data.normal_()
    initialise(mix, std=0.02, seed=1)
    torch.testing.assert_close(mix.shares(), torch.full((4,), 0.25))
    mix.scale.data.fill_(1.7)
    torch.testing.assert_close(mix.shares(), torch.full((4,), 0.25))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"layers": "lst"}, "there are no layers 'lst'; did you mean 'last'"),
        ({"layers": "embeddings"}, "layers is embeddings, and the pooler reads the last layer"),
        (
            {"kind": "token_classification", "pooling": "mean"},
            "pooling is mean, and this head for token classification reads tokens",
        ),
        ({"on_top": "bilstm", "pooling": "cls"}, "reads the ends of a BiLSTM"),
    ],
)
def test_a_head_that_would_pass_over_what_is_asked_is_refused(
    changes: dict[str, str], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        replace(HEADS["sequence_classification"], **changes)  # type: ignore[arg-type]


def test_layers_that_the_encoder_has_not_are_refused() -> None:
    config = TaskHeadConfig(
        kind="token_classification", labels=("O", "B"), layers="concat-last-four"
    )
    with pytest.raises(ValueError, match="needs a model of at least 4 layers, this one has 2"):
        fine_tuned(config)
