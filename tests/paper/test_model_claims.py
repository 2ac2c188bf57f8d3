"""Sizes, input, encoder and head: the paper's claims that no other test holds by themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from bertsmith.batch import PretrainBatch
from bertsmith.data.config import Masking
from bertsmith.data.masking import VocabularyFacts, mask
from bertsmith.model import config as sizes
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.bert import Bert
from bertsmith.model.block_attention import attention_probabilities
from bertsmith.model.config import BertConfig, sized
from bertsmith.model.dropout import (
    ATTENTION_OUTPUT_SITE,
    ATTENTION_SITE,
    EMBEDDING_SITE,
    FEED_FORWARD_SITE,
    dropped,
    keep_factors,
    site_words,
)
from bertsmith.model.embeddings import Embeddings
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from tests.model.plain import plain_norm, random_packed, random_pretrain_batch

CONFIG = replace(sized(2, 32, 4), vocab_size=60, max_position_embeddings=64)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def pretraining(config: BertConfig) -> PretrainModel:
    with torch.device("meta"):
        return PretrainModel(config, ("masked_lm", "next_sentence"))


@pytest.mark.parametrize(("config", "millions"), [(sizes.BASE, 110), (sizes.LARGE, 340)])
def test_110m_and_340m_are_the_counts_in_tens_of_millions(config, millions) -> None:
    model = pretraining(config)
    for number in (count(model.bert), count(model)):
        assert round(number / 1e7) * 10 == millions


def test_the_heads_are_a_dense_layer_a_norm_two_biases_and_no_decoder_matrix() -> None:
    model = pretraining(sizes.BASE)
    hidden, vocabulary = 768, 30_522
    assert count(model.masked_lm) == hidden * (hidden + 1) + 2 * hidden + vocabulary
    assert count(model) - count(model.bert) == 624_188


@pytest.mark.parametrize("config", [*sizes.MINIATURES.values(), sizes.LARGE])
def test_heads_are_64_wide_and_feed_forward_is_four_times_the_width(config) -> None:
    assert config.head_size == 64
    assert config.intermediate_size == 4 * config.hidden_size


def test_there_are_512_positions_and_two_segments() -> None:
    embeddings = pretraining(sizes.BASE).bert.embeddings
    assert embeddings.position.weight.shape == (512, 768)
    assert embeddings.segment.weight.shape == (2, 768)


def test_dropout_falls_on_the_normalised_embedding_sum() -> None:
    embeddings = Embeddings(CONFIG)
    initialise(embeddings, std=0.2, seed=1)
    packed = random_packed([40, 23], CONFIG.vocab_size)
    with torch.no_grad():
        whole = embeddings(Stream.of(packed))
        found = embeddings(Stream.of(packed, dropout=(1, 2)))
    kept = found != 0
    torch.testing.assert_close(found[kept], whole[kept] / 0.9)
    assert abs(kept.float().mean().item() - 0.9) < 5 * 0.3 / kept.numel() ** 0.5


def test_every_layer_norm_adds_1e_12() -> None:
    norms = [m for m in pretraining(sizes.BASE).modules() if isinstance(m, nn.LayerNorm)]
    assert len(norms) == 2 * 12 + 2
    assert {norm.eps for norm in norms} == {1e-12}


def test_minus_10000_gives_the_same_weights_as_no_sight_at_all() -> None:
    stream = Stream.of(random_packed([7, 6], 60))
    (block,) = stream.blocks
    rules = AttentionRules(num_heads=1, direction="bidirectional", probability=0.0)
    qkv = torch.randn(13, 24)
    ours = attention_probabilities(qkv, block, rules)[:, 0]
    queries, keys, _ = qkv[block.rows].view(2, 7, 24).split(8, dim=2)
    adder = (torch.arange(7) >= block.lengths[:, None])[:, None, :] * -10_000.0
    original = torch.softmax(queries @ keys.transpose(1, 2) / 8**0.5 + adder, dim=2)
    assert (original[1, :, 6] == 0.0).all()
    torch.testing.assert_close(ours, original)


def test_the_two_gelus_differ_by_4_7e_4_at_most() -> None:
    places = torch.linspace(-10, 10, 200_001, dtype=torch.float64)
    exact, tanh = (functional.gelu(places, approximate=form) for form in ("none", "tanh"))
    assert (exact - tanh).abs().max().item() == pytest.approx(4.7e-4, abs=0.05e-4)
    assert sizes.BASE.hidden_act == "gelu"


def test_dropout_falls_on_four_places_and_on_no_other() -> None:
    config = replace(CONFIG, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3)
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=0.2, seed=3)
    model.double()
    batch = random_pretrain_batch([29], config.vocab_size)
    hidden = with_dropout(model.bert, Stream.of(batch.packed, dropout=(1, 2)))
    words = model.masked_lm(hidden[batch.target_rows], model.bert.embeddings.token.weight)
    pairs = model.next_sentence(torch.tanh(model.bert.pooler(hidden[:1])))
    expected = functional.cross_entropy(words, torch.from_numpy(batch.target_ids).long())
    expected += functional.cross_entropy(pairs, torch.from_numpy(batch.next_labels).long())
    torch.testing.assert_close(model(batch, (1, 2)).loss, expected, rtol=1e-11, atol=0)


def with_dropout(bert: Bert, stream: Stream) -> Tensor:
    """The plain encoder on one sequence, with dropout written where the paper's code has it."""
    config, embeddings, keys = bert.config, bert.embeddings, stream.row_keys
    hidden = (
        embeddings.token.weight[stream.token_ids]
        + embeddings.segment.weight[stream.segment_ids]
        + embeddings.position.weight[stream.positions]
    )
    hidden = plain_norm(hidden, embeddings.norm)
    hidden = dropped(hidden, site_words(keys, 0, EMBEDDING_SITE), 0.2)
    columns = torch.arange(len(hidden), dtype=torch.int32)
    for number, layer in enumerate(bert.layers):
        attention, feed_forward, contexts = layer.attention, layer.feed_forward, []
        for head, qkv in enumerate(heads(attention.qkv(hidden), config)):
            query, key, value = qkv
            weights = torch.softmax(query @ key.T / config.head_size**0.5, dim=1)
            row_words = site_words(keys, number, ATTENTION_SITE)[:, None]
            factors = keep_factors(row_words, columns | (head << 16), 0.3, weights.dtype)
            contexts.append((weights * factors) @ value)
        output = attention.output(torch.cat(contexts, dim=1))
        output = dropped(output, site_words(keys, number, ATTENTION_OUTPUT_SITE), 0.2)
        hidden = plain_norm(hidden + output, attention.norm)
        output = feed_forward.down(functional.gelu(feed_forward.up(hidden)))
        output = dropped(output, site_words(keys, number, FEED_FORWARD_SITE), 0.2)
        hidden = plain_norm(hidden + output, feed_forward.norm)
    return hidden


def heads(qkv: Tensor, config: BertConfig) -> list[Tensor]:
    """A tensors of (3, n, K)."""
    shape = (len(qkv), 3, config.num_attention_heads, config.head_size)
    return list(qkv.view(shape).permute(2, 1, 0, 3))


def test_the_pad_row_learns_like_any_other() -> None:
    embeddings = Embeddings(CONFIG).double()
    initialise(embeddings, std=0.2, seed=1)
    packed = random_packed([9], CONFIG.vocab_size)
    packed.token_ids[4] = CONFIG.pad_token_id  # a random replacement may draw it
    embeddings(Stream.of(packed)).square().mul(torch.rand(9, 32)).sum().backward()
    assert embeddings.token.weight.grad[CONFIG.pad_token_id].abs().max() > 0


@pytest.mark.parity
def test_transformers_cuts_no_tail_zeroes_the_pad_row_and_drops_its_gradient() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    peer = transformers.BertModel(transformers.BertConfig(num_hidden_layers=1, vocab_size=2000))
    embedding = peer.embeddings.word_embeddings
    assert (embedding.weight[0] == 0).all()
    assert embedding.weight.abs().max() > 0.06
    embedding(torch.tensor([0, 1])).sum().backward()
    assert (embedding.weight.grad[0] == 0).all()
    assert (embedding.weight.grad[1] == 1).all()


@pytest.mark.parametrize(("length", "targets"), [(128, 19), (512, 77)])
def test_the_head_reads_one_row_in_6_7(length, targets) -> None:
    config = replace(CONFIG, max_position_embeddings=512)
    model = PretrainModel(config, ("masked_lm",))
    initialise(model, std=0.02, seed=1)
    batch = masked_batch(length)
    read: list[int] = []
    model.masked_lm.dense.register_forward_hook(lambda _, inputs, __: read.append(len(inputs[0])))
    model(batch)
    assert read == [2 * targets]
    assert batch.num_tokens / read[0] == pytest.approx(6.7, abs=0.06)


def masked_batch(length: int) -> PretrainBatch:
    """Two full sequences, masked at the paper's rate."""
    packed = random_packed([length, length], CONFIG.vocab_size)
    packed.token_ids[packed.starts] = 2
    packed.token_ids[packed.starts + length - 1] = 3
    facts = VocabularyFacts(
        vocab_size=60, cls_id=2, sep_id=3, mask_id=4, is_continuation=np.zeros(60, dtype=bool)
    )
    ids, rows, targets = mask(packed.token_ids, packed.lengths, packed.keys, Masking(), facts, 1)
    return PretrainBatch(
        packed=replace(packed, token_ids=ids),
        target_rows=rows,
        target_ids=targets,
        next_labels=None,
        step_targets=len(rows),
        step_sequences=2,
    )


@pytest.mark.parametrize(
    ("direction", "sees_right", "sees_left"),
    [("bidirectional", True, True), ("left_to_right", False, True), ("right_to_left", True, False)],
)
def test_bert_alone_sees_both_sides_in_every_layer(direction, sees_right, sees_left) -> None:
    bert = Bert(replace(CONFIG, direction=direction))
    initialise(bert, std=0.2, seed=3)
    packed = random_packed([9], CONFIG.vocab_size)
    for place, other, sees in ((8, 0, sees_right), (0, 8, sees_left)):
        ids = packed.token_ids.copy()
        ids[place] = 5 + (ids[place] - 4) % 55
        with torch.no_grad():
            before = bert.hidden_states(Stream.of(packed))
            after = bert.hidden_states(Stream.of(replace(packed, token_ids=ids)))
        changed = [not torch.equal(a[other], b[other]) for a, b in zip(before, after, strict=True)]
        assert changed == [False, sees, sees]
