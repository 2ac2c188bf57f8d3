"""A task's head reads the rows that it is meant to read, with keyed dropout in training alone."""

from dataclasses import replace

import pytest
import torch

from bertsmith.model.config import sized
from bertsmith.model.dropout import HEAD_SITE, dropped, site_words
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.model.task import TaskHeadConfig
from tests.checkpoints.fine_tuned import HEADS
from tests.model.plain import plain_hidden, random_packed

CONFIG = replace(sized(2, 32, 4), vocab_size=60, max_position_embeddings=24)
LENGTHS = [5, 1, 24, 11]


@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right"])
@pytest.mark.parametrize("kind", HEADS)
def test_logits_equal_the_plain_definition(kind, direction):
    config = replace(CONFIG, direction=direction)
    model = PretrainModel(config, (), with_pooler=True).double()
    head = TaskHead(config, HEADS[kind]).double()
    initialise(model, std=0.3, seed=5)
    initialise(head, std=0.3, seed=6)
    packed = random_packed(LENGTHS, config.vocab_size)
    stream = Stream.of(packed)
    with torch.no_grad():
        found = head.logits(model.bert, stream)
        parts = zip(stream.token_ids.split(LENGTHS), stream.segment_ids.split(LENGTHS), strict=True)
        hidden = [plain_hidden(model.bert, ids, segments) for ids, segments in parts]
        token = -1 if direction == "left_to_right" else 0
        pooled = torch.stack([torch.tanh(model.bert.pooler(each[token])) for each in hidden])
        rows = torch.cat(hidden) if HEADS[kind].reads_tokens else pooled
        expected = rows @ head.scores.weight.T + head.scores.bias
    assert expected.shape == (
        sum(LENGTHS) if HEADS[kind].reads_tokens else len(LENGTHS), HEADS[kind].num_labels,
    )  # fmt: skip
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
    if HEADS[kind].reads_tokens:
        some = torch.tensor([0, 4, 7, 40])
        of_some = head.logits(model.bert, stream, some)
        torch.testing.assert_close(of_some, expected[some], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", ["sequence_classification", "token_classification"])
def test_dropout_falls_on_what_the_head_reads_by_a_site_of_its_own(kind):
    config = replace(CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model, head = PretrainModel(config, (), with_pooler=True), TaskHead(config, HEADS[kind])
    initialise(model, std=0.3, seed=5)
    initialise(head, std=0.3, seed=6)
    packed = random_packed(LENGTHS, config.vocab_size)
    stream = Stream.of(packed, dropout=(1, 2))
    with torch.no_grad():
        rows, keys = model.bert(stream), stream.row_keys
        if not head.config.reads_tokens:
            rows, keys = model.bert.pool(rows, stream), stream.keys_of(stream.first_rows)
        kept = dropped(rows, site_words(keys, 0, HEAD_SITE), head.config.dropout)
        found = head.logits(model.bert, stream)
        torch.testing.assert_close(found, head.scores(kept), rtol=1e-5, atol=1e-5)
        assert not torch.allclose(found, head.scores(rows))
        quiet = head.logits(model.bert, Stream.of(packed))
        torch.testing.assert_close(quiet, head.scores(rows), rtol=1e-5, atol=1e-5)
    sites = [site_words(stream.row_keys, 0, site).tolist() for site in (HEAD_SITE, -1, 0, 1, 2)]
    assert len({tuple(words) for words in sites}) == 5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_of_a_half_precision_head_are_not_rounded_to_ties(dtype):
    head = TaskHead(CONFIG, HEADS["multiple_choice"])
    initialise(head, std=0.3, seed=6)
    head.to(dtype)
    rows = torch.randn(400, CONFIG.hidden_size).to(dtype)
    scores = head(rows)
    assert scores.dtype == torch.float32
    assert len(scores.unique()) > 390
    exact = rows.double() @ head.scores.weight.double().T + head.scores.bias.double()
    torch.testing.assert_close(scores.double(), exact, rtol=1e-5, atol=1e-5)
    scores.sum().backward()
    assert head.scores.weight.grad.dtype == dtype


@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"kind": "multiple_choice", "labels": ("a", "b")}, "has 1 scores, found 2"),
        ({"kind": "question_answering", "labels": ("a",)}, "has 2 scores, found 1"),
        ({"kind": "token_classification", "labels": ()}, "has 1 scores, found 0"),
        ({"kind": "token_classification", "labels": ("a",), "dropout": 1.0}, r"in \[0, 1\)"),
    ],
)
def test_a_head_that_cannot_be_is_refused(choices, told):
    with pytest.raises(ValueError, match=told):
        TaskHeadConfig(**choices)
