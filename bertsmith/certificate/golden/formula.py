"""Names of the original's variables -> fixed values of a tiny BERT, by a formula.

So golden files need not hold weights: whoever checks makes the same ones. No two rows, heads or
layers are alike, so that nothing can be exchanged unnoticed.
"""

from __future__ import annotations

import zlib
from math import prod

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

DECIMALS = 12
"""Of every golden number: far above the last places in which processors differ."""


def value_of(name: str, shape: tuple[int, ...]) -> Array:
    """A variable's values: LayerNorm's gamma around 1, everything else around 0."""
    places = np.arange(1, prod(shape) + 1, dtype=np.float64)
    phase = zlib.crc32(name.encode()) % 1000 / 100.0
    waves = np.sin(phase + 0.61 * places + 0.013 * places * places).reshape(shape)
    if name.endswith("gamma"):
        return 1.0 + 0.3 * waves
    return (0.45 if len(shape) > 1 else 0.2) * waves


def variable_shapes(
    *, vocab_size: int, hidden_size: int, num_hidden_layers: int, max_position_embeddings: int
) -> dict[str, tuple[int, ...]]:
    """Every variable of BertModel and the two pre-training heads; feed-forward is 4H wide."""
    width, inner = hidden_size, 4 * hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "bert/embeddings/word_embeddings": (vocab_size, width),
        "bert/embeddings/token_type_embeddings": (2, width),
        "bert/embeddings/position_embeddings": (max_position_embeddings, width),
        "cls/predictions/output_bias": (vocab_size,),
        "cls/seq_relationship/output_weights": (2, width),
        "cls/seq_relationship/output_bias": (2,),
    }
    square = ("bert/pooler/dense", "cls/predictions/transform/dense")
    kernels = {scope: (width, width) for scope in square}
    norms = ["bert/embeddings", "cls/predictions/transform"]
    for number in range(num_hidden_layers):
        scope = f"bert/encoder/layer_{number}"
        for part in ("self/query", "self/key", "self/value", "output/dense"):
            kernels[f"{scope}/attention/{part}"] = (width, width)
        kernels[f"{scope}/intermediate/dense"] = (width, inner)
        kernels[f"{scope}/output/dense"] = (inner, width)
        norms += [f"{scope}/attention/output", f"{scope}/output"]
    for scope, (rows, columns) in kernels.items():
        shapes |= {f"{scope}/kernel": (rows, columns), f"{scope}/bias": (columns,)}
    for scope in norms:
        shapes |= {f"{scope}/LayerNorm/gamma": (width,), f"{scope}/LayerNorm/beta": (width,)}
    return shapes


def rounded(values: npt.ArrayLike) -> object:
    """Rounded to DECIMALS, minus zero as zero, as plain lists and numbers."""
    found: object = (np.round(np.asarray(values, dtype=np.float64), DECIMALS) + 0.0).tolist()
    return found
