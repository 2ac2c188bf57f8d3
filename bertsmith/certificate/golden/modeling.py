"""google-research/bert's encoder and pre-training heads, restated plainly in NumPy float64.

Padded token ids, mask and segments -> hidden states, pooled vectors, logits. It was written from
the original and shares no code with the rest of the package: golden values are made with it, and a
certified model's own weights run through it. It does not know where variables are stored.

Source: google-research/bert, modeling.py (BertModel) and run_pretraining.py (get_masked_lm_output,
get_next_sentence_output).

Legend: N sequences, S padded length, H hidden size, A heads, K = H/A, M rows to predict, V
vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
Variables = Callable[[str], npt.NDArray[np.floating]]
"""A variable by the original's name, such as `bert/pooler/dense/kernel`; kernels are (in, out).
Any number type: whatever is computed is float64."""

LAYER_NORM_EPSILON = 1e-12
HIDDEN_KEY = -10_000.0
"""Added to the scores of keys that may not be seen."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What the weights do not say."""

    num_layers: int
    num_heads: int
    """A."""
    activation: str = "gelu"
    """`gelu` (exact), `gelu_tanh`, `relu`, `silu` or `tanh`."""
    epsilon: float = LAYER_NORM_EPSILON
    """Of every LayerNorm."""
    direction: str = "bidirectional"
    """`left_to_right` and `right_to_left` hide the other side; not in the original."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """N padded sequences, (N, S) each."""

    input_ids: Ids
    input_mask: Ids
    """1 for real tokens, 0 for padding."""
    segment_ids: Ids


def hidden_states(variables: Variables, batch: Batch, architecture: Architecture) -> list[Array]:
    """The embedding output and every layer's output, each (N, S, H)."""
    states = [embedding_output(variables, batch, architecture.epsilon)]
    adder = (1.0 - attention_mask(batch, architecture.direction)) * HIDDEN_KEY  # (N, S, S)
    for number in range(architecture.num_layers):
        scope = f"bert/encoder/layer_{number}"
        states.append(layer_output(variables, scope, states[-1], adder, architecture))
    return states


def embedding_output(variables: Variables, batch: Batch, epsilon: float) -> Array:
    """Token + segment + position, then LayerNorm: (N, S, H)."""
    scope = "bert/embeddings"
    output = variables(f"{scope}/word_embeddings")[batch.input_ids].astype(np.float64)
    output = output + variables(f"{scope}/token_type_embeddings")[batch.segment_ids]
    output = output + variables(f"{scope}/position_embeddings")[: batch.input_ids.shape[1]]
    return layer_norm(variables, scope, output, epsilon)


def attention_mask(batch: Batch, direction: str) -> Array:
    """(N, S, S): 1 where a query (second axis) may see a key (third axis)."""
    length = batch.input_ids.shape[1]
    sight = {
        "bidirectional": np.ones((length, length)),
        "left_to_right": np.tril(np.ones((length, length))),
        "right_to_left": np.triu(np.ones((length, length))),
    }[direction]
    return batch.input_mask[:, None, :] * sight


def layer_output(
    variables: Variables, scope: str, hidden: Array, adder: Array, architecture: Architecture
) -> Array:
    """One Transformer layer, post-LayerNorm: (N, S, H) -> (N, S, H)."""
    context = attention(variables, f"{scope}/attention/self", hidden, adder, architecture.num_heads)
    attended = dense(variables, f"{scope}/attention/output/dense", context) + hidden
    attended = layer_norm(variables, f"{scope}/attention/output", attended, architecture.epsilon)
    inner = dense(variables, f"{scope}/intermediate/dense", attended)
    inner = ACTIVATIONS[architecture.activation](inner)
    output = dense(variables, f"{scope}/output/dense", inner) + attended
    return layer_norm(variables, f"{scope}/output", output, architecture.epsilon)


def attention(
    variables: Variables, scope: str, hidden: Array, adder: Array, num_heads: int
) -> Array:
    """Softmax(Q K^T / sqrt(K) + adder) V, heads side by side: (N, S, H)."""
    query, key, value = (
        np.stack(np.split(dense(variables, f"{scope}/{part}", hidden), num_heads, axis=2), axis=1)
        for part in ("query", "key", "value")
    )  # (N, A, S, K) each
    scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(key.shape[3])  # (N, A, S, S)
    scores = scores + adder[:, None]
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    weights = weights / weights.sum(axis=3, keepdims=True)
    context: Array = np.concatenate(list((weights @ value).transpose(1, 0, 2, 3)), axis=2)
    return context  # (N, S, H)


def pooled_output(variables: Variables, first_token: Array) -> Array:
    """(N, H) vectors of the first token -> (N, H)."""
    return np.tanh(dense(variables, "bert/pooler/dense", first_token))


def masked_lm_logits(
    variables: Variables, rows: Array, decoder: npt.NDArray[np.floating], architecture: Architecture
) -> Array:
    """(M, H) final hidden states -> (M, V); the decoder (V, H) is the token embedding."""
    scope = "cls/predictions/transform"
    inner = ACTIVATIONS[architecture.activation](dense(variables, f"{scope}/dense", rows))
    inner = layer_norm(variables, scope, inner, architecture.epsilon)
    return inner @ decoder.T + variables("cls/predictions/output_bias")


def next_sentence_logits(variables: Variables, pooled: Array) -> Array:
    """(N, H) pooled vectors -> (N, 2): column 0 says next, column 1 says random."""
    weights = variables("cls/seq_relationship/output_weights")  # (2, H)
    return pooled @ weights.T + variables("cls/seq_relationship/output_bias")


def cross_entropies(logits: Array, labels: Ids) -> Array:
    """(M,) minus the log-probability of each row's label, in nats."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(shifted).sum(axis=1))
    losses: Array = log_sums - shifted[np.arange(len(labels)), labels]
    return losses


def dense(variables: Variables, scope: str, rows: Array) -> Array:
    """Rows times kernel, plus bias."""
    return rows @ variables(f"{scope}/kernel") + variables(f"{scope}/bias")


def layer_norm(variables: Variables, scope: str, rows: Array, epsilon: float) -> Array:
    """Over the last axis; the variance is that of all H values, and epsilon stands in the root."""
    centred = rows - rows.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    normed = centred / np.sqrt(variance + epsilon)
    gamma, beta = variables(f"{scope}/LayerNorm/gamma"), variables(f"{scope}/LayerNorm/beta")
    scaled: Array = normed * gamma + beta
    return scaled


def gelu(values: Array) -> Array:
    """The exact form, x times Phi(x): the original until commit bee6030 (7 February 2019)."""
    erf = np.fromiter(map(math.erf, (values / math.sqrt(2.0)).ravel().tolist()), np.float64)
    return values * 0.5 * (1.0 + erf.reshape(values.shape))


def gelu_tanh(values: Array) -> Array:
    """The tanh form: the original since then."""
    inner = math.sqrt(2.0 / math.pi) * (values + 0.044715 * values**3)
    return values * 0.5 * (1.0 + np.tanh(inner))


def relu(values: Array) -> Array:
    """The larger of x and 0."""
    return np.maximum(values, 0.0)


def silu(values: Array) -> Array:
    """The product of x and sigmoid(x)."""
    return values * 0.5 * (1.0 + np.tanh(0.5 * values))


def tanh(values: Array) -> Array:
    """The hyperbolic tangent."""
    return np.tanh(values)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": relu,
    "silu": silu,
    "tanh": tanh,
}
