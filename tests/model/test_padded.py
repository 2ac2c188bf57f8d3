"""The padded definition equals the packed model, and reads nothing where the mask is 0."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from bertsmith.checkpoints.onnx import packed_outputs, padded_with_noise
from bertsmith.model.config import sized
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.padded import INPUTS, PaddedBert, outputs_of
from bertsmith.model.sentence import DenseConfig, Pooling, SentenceConfig
from tests.checkpoints.fine_tuned import HEADS
from tests.model.dense import random_dense
from tests.model.plain import random_packed

CONFIG = replace(sized(2, 32, 4), vocab_size=60, max_position_embeddings=24)
BOTH = ("masked_lm", "next_sentence")
LENGTHS = [5, 1, 24, 11, 11, 2]
POOLINGS = get_args(Pooling)


def model_of(*objectives, dtype=torch.float64, with_pooler=False, **changes):
    model = PretrainModel(replace(CONFIG, **changes), objectives, with_pooler=with_pooler)
    initialise(model, std=0.3, seed=5)
    return model.to(dtype).eval()


def run(padded, arrays):
    with torch.no_grad():
        return padded(*(torch.from_numpy(arrays[name]) for name in INPUTS))


def both(padded, lengths=LENGTHS):
    """(name, packed, padded without its padding) of every output."""
    packed = random_packed(lengths, CONFIG.vocab_size)
    found = run(padded, padded_with_noise(packed, padded, 1))
    real = torch.from_numpy(packed.to_padded()[1].astype(bool))
    rows = (each[real] if each.ndim == 3 else each for each in found)
    return list(zip(padded.outputs, packed_outputs(padded, packed), rows, strict=True))


@pytest.mark.parametrize(
    ("objectives", "changes"),
    [
        (BOTH, {}),
        (("masked_lm",), {}),
        ((), {"with_pooler": True}),
        ((), {}),
        (("left_to_right_lm", "next_sentence"), {"direction": "left_to_right"}),
        (("right_to_left_lm", "next_sentence"), {"direction": "right_to_left"}),
        (BOTH, {"tie_word_embeddings": False}),
        *((BOTH, {"hidden_act": name}) for name in ("gelu_tanh", "relu", "silu", "tanh")),
    ],
)
def test_every_output_equals_the_packed_models(objectives, changes):
    padded = PaddedBert(model_of(*objectives, **changes))
    for name, packed, rows in both(padded):
        assert packed.abs().max() > 0.1, name
        torch.testing.assert_close(rows, packed, rtol=1e-11, atol=1e-11, msg=name)


@pytest.mark.parametrize("direction", ["bidirectional", "left_to_right"])
@pytest.mark.parametrize("kind", HEADS)
def test_a_tasks_logits_equal_the_packed_models(kind, direction):
    model = model_of("next_sentence", direction=direction)
    head = TaskHead(model.config, HEADS[kind])
    initialise(head, std=0.3, seed=6)
    padded = PaddedBert(model, head=head.double())
    packed = random_packed(LENGTHS, CONFIG.vocab_size)
    real = torch.from_numpy(packed.to_padded()[1].astype(bool))
    found = run(padded, padded_with_noise(packed, padded, 1))
    given = [name for name in padded.outputs if name in ("logits", "start_logits", "end_logits")]
    assert given == (["start_logits", "end_logits"] if kind == "question_answering" else ["logits"])
    for name, rows, expected in zip(
        padded.outputs, found, packed_outputs(padded, packed), strict=True
    ):
        rows = rows[real] if padded.is_a_row_a_token(name) else rows
        torch.testing.assert_close(rows, expected, rtol=1e-11, atol=1e-11, msg=name)


def test_a_tasks_logits_come_before_those_of_the_language_model():
    model = model_of(*BOTH)
    head = TaskHead(model.config, HEADS["sequence_classification"])
    initialise(head, std=0.3, seed=6)
    padded = PaddedBert(model, ("logits",), head=head.double())
    arrays = dict(zip(INPUTS, random_packed([7, 4], 60).to_padded(), strict=True))
    assert [tuple(rows.shape) for rows in run(padded, arrays)] == [(2, 3)]


def test_the_outputs_are_those_the_model_has():
    assert outputs_of(model_of()) == ("last_hidden_state",)
    assert outputs_of(model_of("masked_lm")) == ("last_hidden_state", "logits")
    assert outputs_of(model_of(*BOTH)) == (
        "last_hidden_state", "pooler_output", "logits", "seq_relationship_logits",
    )  # fmt: skip
    assert "sentence_embedding" in outputs_of(model_of(), SentenceConfig())


def test_outputs_come_in_the_order_asked_for_and_others_are_refused():
    model = model_of(*BOTH)
    padded = PaddedBert(model, ("seq_relationship_logits", "last_hidden_state"))
    shapes = [tuple(rows.shape) for _, _, rows in both(padded)]
    assert shapes == [(len(LENGTHS), 2), (sum(LENGTHS), 32)]
    with pytest.raises(ValueError, match="gives no sentence_embedding; it gives last_hidden_state"):
        PaddedBert(model, ("sentence_embedding",))


def test_what_stands_where_the_mask_is_0_changes_no_bit():
    padded = PaddedBert(
        model_of(*BOTH, dtype=torch.float32), sentence=SentenceConfig(pooling=POOLINGS)
    )
    packed = random_packed(LENGTHS, CONFIG.vocab_size)
    real = torch.from_numpy(packed.to_padded()[1].astype(bool))
    quiet = run(padded, dict(zip(INPUTS, packed.to_padded(), strict=True)))
    noisy = run(padded, padded_with_noise(packed, padded, 2))
    for name, before, after in zip(padded.outputs, quiet, noisy, strict=True):
        is_a_row_a_token = before.ndim == 3
        assert torch.equal(
            before[real] if is_a_row_a_token else before, after[real] if is_a_row_a_token else after
        ), name


def test_a_row_without_any_token_is_no_nan_and_changes_no_other_row():
    padded = PaddedBert(model_of(*BOTH), sentence=SentenceConfig(pooling=POOLINGS))
    arrays = dict(zip(INPUTS, random_packed([7, 4], 60).to_padded(), strict=True))
    alone = run(padded, arrays)
    wider = {name: np.concatenate([each, 0 * each[:1]]) for name, each in arrays.items()}
    for name, before, after in zip(padded.outputs, alone, run(padded, wider), strict=True):
        assert torch.isfinite(after).all(), name
        torch.testing.assert_close(after[:2], before, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("is_normalized", [False, True])
@pytest.mark.parametrize("has_dense", [False, True])
@pytest.mark.parametrize("pooling", [*((each,) for each in POOLINGS), ("cls", "max", "mean")])
def test_sentence_vectors_equal_the_packed_ones(pooling, has_dense, is_normalized):
    layer = DenseConfig(in_features=32 * len(pooling), out_features=20) if has_dense else None
    sentence = SentenceConfig(pooling=pooling, dense=layer, is_normalized=is_normalized)
    dense = random_dense(layer) if layer is not None else None
    padded = PaddedBert(model_of(), ("sentence_embedding",), sentence, dense=dense)
    ((_, packed, found),) = both(padded)
    assert found.shape == (len(LENGTHS), sentence.width(32))
    torch.testing.assert_close(found, packed, rtol=1e-6, atol=1e-6)  # float32 sums


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_round_where_the_packed_model_rounds(dtype):
    padded = PaddedBert(model_of(*BOTH, dtype=dtype))
    for name, packed, rows in both(padded):
        assert rows.dtype == dtype
        # One rounding, carried through two layers: sums are made in another order.
        scale = float(packed.abs().max())
        assert float((rows - packed).abs().max()) <= 8 * torch.finfo(dtype).eps * scale, name
