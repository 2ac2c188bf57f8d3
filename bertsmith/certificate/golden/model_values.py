"""A tiny BERT with weights by a formula -> its golden hidden states, logits and losses.

Two padded sequences, a pair and a single text, run through the restated original.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bertsmith.certificate.golden import modeling
from bertsmith.certificate.golden.formula import Array, rounded, value_of, variable_shapes
from bertsmith.certificate.golden.modeling import Architecture, Batch

_SIZES = {
    "vocab_size": 24, "hidden_size": 8, "num_hidden_layers": 2, "max_position_embeddings": 12,
}  # fmt: skip
_NUM_HEADS = 2
_INPUT_IDS = [[2, 7, 11, 5, 3, 13, 8, 21, 3], [2, 9, 4, 3, 0, 0, 0, 0, 0]]
_INPUT_MASK = [[1] * 9, [1] * 4 + [0] * 5]
_SEGMENT_IDS = [[0] * 5 + [1] * 4, [0] * 9]
# (sequence, position) of each token to predict.
_PREDICTED = [[0, 2], [0, 6], [1, 2]]
_LABELS, _NEXT_LABELS = [17, 8, 23], [0, 1]
# Tables so small that the variance of a row is about LayerNorm's epsilon.
_SMALL = 1e-6


def encoder_values() -> dict[str, object]:
    """What `encoder.json` holds."""
    return {
        "config": {**_SIZES, "num_attention_heads": _NUM_HEADS},
        "input_ids": _INPUT_IDS,
        "input_mask": _INPUT_MASK,
        "segment_ids": _SEGMENT_IDS,
        "masked_lm_positions": _PREDICTED,
        "masked_lm_ids": _LABELS,
        "next_sentence_labels": _NEXT_LABELS,
        "activations": _activations(),
        "cases": {name: _case(name) for name in ("gelu", "gelu_tanh")},
        "small_table_factor": _SMALL,
        "embedding_output_of_small_tables": _rows(_states("gelu", _SMALL)[0]),
    }


def _case(activation: str) -> dict[str, object]:
    variables, states = _variables(), _states(activation)
    pooled = modeling.pooled_output(variables, states[-1][:, 0])
    rows = np.stack([states[-1][sequence, position] for sequence, position in _PREDICTED])
    embedding = variables("bert/embeddings/word_embeddings")
    words = modeling.masked_lm_logits(variables, rows, embedding, _architecture(activation))
    pairs = modeling.next_sentence_logits(variables, pooled)
    word_losses = modeling.cross_entropies(words, np.array(_LABELS))
    pair_losses = modeling.cross_entropies(pairs, np.array(_NEXT_LABELS))
    in_code = word_losses.sum() / (len(_LABELS) + 1e-5)
    return {
        "hidden_states": [_rows(state) for state in states],
        "pooled_output": rounded(pooled),
        "masked_lm_logits": rounded(words),
        "next_sentence_logits": rounded(pairs),
        "loss": rounded(word_losses.mean() + pair_losses.mean()),
        "loss_in_code": rounded(in_code + pair_losses.mean()),
    }


def _activations() -> dict[str, object]:
    values = np.arange(-40, 41) / 8.0
    return {
        "values": values.tolist(),
        "gelu": rounded(modeling.gelu(values)),
        "gelu_tanh": rounded(modeling.gelu_tanh(values)),
    }


def _states(activation: str, table_factor: float = 1.0) -> list[Array]:
    return modeling.hidden_states(_variables(table_factor), _batch(), _architecture(activation))


def _variables(table_factor: float = 1.0) -> Callable[[str], Array]:
    values = {name: value_of(name, shape) for name, shape in variable_shapes(**_SIZES).items()}
    for name in values:
        if name.endswith("_embeddings"):
            values[name] = values[name] * table_factor
    return values.__getitem__


def _architecture(activation: str) -> Architecture:
    return Architecture(
        num_layers=_SIZES["num_hidden_layers"], num_heads=_NUM_HEADS, activation=activation
    )


def _batch() -> Batch:
    return Batch(
        input_ids=np.array(_INPUT_IDS),
        input_mask=np.array(_INPUT_MASK),
        segment_ids=np.array(_SEGMENT_IDS),
    )


def _rows(hidden: Array) -> object:
    """(N, S, H) -> the real tokens' rows, sequence after sequence."""
    return rounded(hidden[np.array(_INPUT_MASK).astype(bool)])
