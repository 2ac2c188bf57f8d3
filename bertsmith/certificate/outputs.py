"""Checks of what a model computes: however it is packed, and beside the restated original."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from bertsmith.certificate import computed
from bertsmith.certificate.comparisons import Numbers, compared
from bertsmith.certificate.computed import in_float64, numbers, outputs_of
from bertsmith.certificate.rows import Row, skipped
from bertsmith.certificate.subject import Subject
from bertsmith.checkpoints.names import CLASSIFIER, SPAN_HEAD
from bertsmith.model.padded import PaddedBert
from bertsmith.model.pooling import sentence_vectors
from bertsmith.model.sentence import DenseConfig, Pooling
from bertsmith.model.stream import Stream

TOLERANCE = 1e-10
"""Two orders of summation in float64, through every layer."""
ROUNDING = 1e-5
"""Of float32, through every layer."""

_ENCODER = "paper, section 3; modeling.py, BertModel"


def hidden_states(subject: Subject) -> Row:
    """Every layer's output on mixed lengths, beside the original's padded one."""
    return _beside_original(
        "hidden states of every layer, mixed lengths",
        np.stack(subject.of_short.hidden_states),
        np.stack(subject.original_of_short.hidden_states),
        _ENCODER,
    )


def every_position(subject: Subject) -> Row:
    """The last layer's output on a sequence as long as there are positions."""
    return _beside_original(
        f"hidden states of all {subject.long.num_tokens} positions",
        subject.of_long.hidden_states[-1],
        subject.original_of_long.hidden_states[-1],
        _ENCODER,
    )


def pooled(subject: Subject) -> Row:
    """The vector of each sequence."""
    return _beside_original(
        "pooled vectors",
        subject.of_short.pooled,
        subject.original_of_short.pooled,
        "paper, section 3.2; modeling.py, BertModel (pooler)",
        without=f"this {subject.kind} has no pooler",
    )


def masked_lm(subject: Subject) -> Row:
    """The logits of the language-model head."""
    return _beside_original(
        "language-model logits",
        subject.of_short.words,
        subject.original_of_short.words,
        "paper, section 3.1; run_pretraining.py, get_masked_lm_output",
        without=f"this {subject.kind} has no language-model head",
    )


def next_sentence(subject: Subject) -> Row:
    """The logits of the next-sentence head."""
    return _beside_original(
        "next-sentence logits",
        subject.of_short.pairs,
        subject.original_of_short.pairs,
        "paper, section 3.1; run_pretraining.py, get_next_sentence_output",
        without=f"this {subject.kind} has no next-sentence head",
    )


def task_head(subject: Subject) -> Row:
    """The logits of the head that fine-tuning added."""
    name, head = "logits of the task head", subject.loaded.head
    reference = "paper, section 4; run_classifier.py and run_squad.py, create_model"
    if head is None:
        return skipped(name, f"this {subject.kind} has no task head", reference)
    if additions := head.config.additions:
        return skipped(name, f"the original has not {' and '.join(additions)}", reference)
    original, tensors = subject.original_of_short, subject.weights.tensors
    read = original.hidden_states[-1] if head.config.reads_tokens else original.pooled
    layer = SPAN_HEAD if head.config.kind == "question_answering" else CLASSIFIER
    weight, bias = (numbers(tensors[f"{layer}.{part}"].double()) for part in ("weight", "bias"))
    with in_float64(subject.model):
        stream = Stream.of(subject.short)
        found = copy.deepcopy(head).double().logits(subject.model.bert, stream)
    assert read is not None
    return _beside_original(name, numbers(found), read @ weight.T + bias, reference)


def one_by_one(subject: Subject) -> Row:
    """The same sequences in one stream and each alone."""
    with in_float64(subject.model):
        alone = [outputs_of(subject.model, each) for each in computed.one_by_one(subject.short)]
    return compared(
        "packed = one by one",
        subject.of_short.hidden_states[-1],
        np.concatenate([each.hidden_states[-1] for each in alone]),
        tolerance=TOLERANCE,
        reference=_ENCODER,
        against="each sequence alone, float64,",
    )


def with_gradients(subject: Subject) -> Row:
    """The same stream as training computes it and as answers do."""
    with in_float64(subject.model), torch.enable_grad():
        trained = outputs_of(subject.model, subject.short)
    return compared(
        "answered = trained",
        subject.of_short.hidden_states[-1],
        trained.hidden_states[-1],
        tolerance=TOLERANCE,
        reference=_ENCODER,
        against="the same with gradients, float64,",
    )


def padded(subject: Subject) -> Row:
    """The same sequences in one stream and padded to the longest."""
    arrays = subject.short.to_padded(subject.loaded.config.pad_token_id)
    with in_float64(subject.model):
        plain = PaddedBert(subject.model, ("last_hidden_state",))
        (hidden,) = plain(*map(torch.from_numpy, arrays))
    return compared(
        "packed = padded",
        subject.of_short.hidden_states[-1],
        numbers(hidden)[arrays[1].astype(bool)],
        tolerance=TOLERANCE,
        reference=_ENCODER,
        against="padded to the longest, float64,",
    )


def rounding(subject: Subject) -> Row:
    """What float32 costs."""
    return compared(
        "float32 = float64 but for rounding",
        outputs_of(subject.model, subject.short).hidden_states[-1],
        subject.of_short.hidden_states[-1],
        tolerance=ROUNDING,
        reference=_ENCODER,
        against="the same model in float64",
    )


def sentences(subject: Subject) -> Row:
    """Sentence vectors as a sentence-transformers directory describes them."""
    name, reference = "sentence vectors", "Reimers and Gurevych 2019, section 3"
    config = subject.loaded.sentence
    if config is None:
        return skipped(name, "no sentence-transformers directory", reference)
    if config.refusal:
        return skipped(name, config.refusal, reference)
    hidden = subject.of_short.hidden_states[-1]
    expected = []
    for rows in np.split(hidden, np.cumsum(subject.short.lengths)[:-1]):
        vector = np.concatenate([_reduced(rows, each) for each in config.pooling])
        if config.dense is not None:
            vector = _through_dense(vector, config.dense, subject.dense)
        expected.append(vector / np.linalg.norm(vector) if config.is_normalized else vector)
    stream, dense = Stream.of(subject.short), subject.loaded.dense
    return compared(
        name,
        numbers(sentence_vectors(torch.from_numpy(hidden), stream, config, dense)),
        np.stack(expected),
        tolerance=1e-5,
        reference=reference,
        against=f"{config}, float32,",
    )


CHECKS: tuple[Callable[[Subject], Row], ...] = (
    hidden_states, every_position, pooled, masked_lm, next_sentence, task_head, one_by_one,
    with_gradients, padded, rounding, sentences,
)  # fmt: skip


def _beside_original(
    name: str, found: Numbers | None, expected: Numbers | None, reference: str, without: str = ""
) -> Row:
    if found is None and expected is None:
        return skipped(name, without, reference)
    return compared(
        name,
        np.empty(0) if found is None else found,
        np.empty(0) if expected is None else expected,
        tolerance=TOLERANCE,
        reference=reference,
        against="the restated original, float64,",
    )


def _reduced(rows: Numbers, pooling: Pooling) -> Numbers:
    """(n, H) -> (H,)."""
    if pooling in ("cls", "lasttoken"):
        return np.asarray(rows[0 if pooling == "cls" else -1])
    if pooling == "max":
        return np.asarray(rows.max(axis=0))
    if pooling == "weightedmean":
        return np.asarray(np.average(rows, axis=0, weights=np.arange(1, len(rows) + 1)))
    root = 0.5 if pooling == "mean_sqrt_len_tokens" else 1.0
    return np.asarray(rows.sum(axis=0) / len(rows) ** root)


def _through_dense(vector: Numbers, config: DenseConfig, tensors: Mapping[str, Tensor]) -> Numbers:
    """(P * H,) -> (D,), by the tensors on disk."""
    inner = numbers(tensors["linear.weight"].double()) @ vector
    if config.has_bias:
        inner = inner + numbers(tensors["linear.bias"].double())
    return np.asarray(np.tanh(inner) if config.activation == "tanh" else inner)
