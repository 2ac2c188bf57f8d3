from dataclasses import replace

import pytest

from bertsmith.model import config as sizes
from bertsmith.model.bert import Bert
from bertsmith.model.config import BertConfig
from bertsmith.model.objectives import PretrainModel

# Encoder with pooler, and with both heads: the figures of the released models.
COUNTS = [
    (sizes.BASE, 109_482_240, 110_106_428),
    (sizes.BASE_CASED, 108_310_272, 108_932_934),
    (sizes.LARGE, 335_141_888, 336_226_108),
    (sizes.LARGE_CASED, 333_579_264, 334_661_958),
    (sizes.TINY, 4_385_920, None),
    (sizes.MINI, 11_170_560, None),
    (sizes.SMALL, 28_763_648, None),
    (sizes.MEDIUM, 41_373_184, None),
]


@pytest.mark.parametrize(("config", "encoder", "pretraining"), COUNTS)
def test_sizes_have_the_released_parameter_counts(config, encoder, pretraining):
    import torch

    with torch.device("meta"):
        assert sum(p.numel() for p in Bert(config).parameters()) == encoder
        if pretraining is not None:
            model = PretrainModel(config, ("masked_lm", "next_sentence"))
            assert sum(p.numel() for p in model.parameters()) == pretraining


def test_there_are_24_miniatures_and_the_sizes_of_table_6():
    assert len(sizes.MINIATURES) == 24
    assert sizes.MINIATURES["L2-H128"] == sizes.TINY
    assert sizes.MINIATURES["L12-H768"] == sizes.BASE
    shapes = [(c.num_hidden_layers, c.hidden_size, c.num_attention_heads) for c in sizes.TABLE_6]
    assert shapes == [
        (3, 768, 12), (6, 768, 3), (6, 768, 12), (12, 768, 12), (12, 1024, 16), (24, 1024, 16)
    ]  # fmt: skip
    assert all(c.intermediate_size == 4 * c.hidden_size for c in sizes.TABLE_6)


def test_contradictions_are_refused_with_both_values():
    with pytest.raises(ValueError, match=r"hidden_size 768 is not a multiple .* 7"):
        replace(sizes.BASE, num_attention_heads=7)
    with pytest.raises(ValueError, match="num_hidden_layers must be from 1 to 1,024, found 0"):
        BertConfig(num_hidden_layers=0)
    with pytest.raises(ValueError, match="hidden_dropout_prob must be in"):
        BertConfig(hidden_dropout_prob=1.0)


def test_an_lstm_of_both_sides_at_once_and_halves_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"an lstm reads in one direction: .* bidirectional"):
        BertConfig(layer_kind="lstm")
    with pytest.raises(ValueError, match="must be even, found 768, 3, 3072"):
        replace(sizes.BASE, direction="two_way", num_attention_heads=3)
    # An LSTM has no heads, so none of them need to fit.
    BertConfig(layer_kind="lstm", direction="left_to_right", hidden_size=250)


@pytest.mark.parametrize(
    ("direction", "layer_kind", "told"),
    [
        ("bidirectional", "transformer", "BERT"),
        ("left_to_right", "transformer", "BERT"),
        ("right_to_left", "lstm", "LSTM"),
        ("two_way", "lstm", "two-way pair of LSTMs"),
        ("two_way", "transformer", "two-way pair of BERTs"),
    ],
)
def test_a_kind_is_told_in_words(direction, layer_kind, told):
    assert replace(sizes.MINI, direction=direction, layer_kind=layer_kind).told_kind == told


@pytest.mark.parametrize(
    "wrong",
    [{"layer_norm_eps": -1.0}, {"layer_norm_eps": 0.0}, {"layer_norm_eps": float("nan")},
     {"layer_norm_eps": float("inf")}, {"pad_token_id": -1}, {"pad_token_id": 30_522},
     {"hidden_size": 0}, {"type_vocab_size": 0}],
)  # fmt: skip
def test_a_number_that_no_bert_can_have_is_refused_by_name(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=rf"^{name} must be .* found {value:,}"):
        BertConfig(**wrong)
