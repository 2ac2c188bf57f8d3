"""Parameter names: Google's original <-> Hugging Face's, both ways.

One table names every variable of google-research/bert, `#` standing for a layer's number. A dense
layer's matrix is stored as (inputs, outputs) there and as (outputs, inputs) here, so a `kernel` is
transposed; the heads' `output_weights` lie the same way in both. This file knows only names.

Source: google-research/bert, modeling.py, run_pretraining.py, run_classifier.py and run_squad.py.
"""

from __future__ import annotations

import re

_OTHERS = {
    "bert/embeddings/word_embeddings": "bert.embeddings.word_embeddings.weight",
    "bert/embeddings/token_type_embeddings": "bert.embeddings.token_type_embeddings.weight",
    "bert/embeddings/position_embeddings": "bert.embeddings.position_embeddings.weight",
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
}
_NORMS = {
    "bert/embeddings/LayerNorm": "bert.embeddings.LayerNorm",
    "bert/encoder/layer_#/attention/output/LayerNorm":
        "bert.encoder.layer.#.attention.output.LayerNorm",
    "bert/encoder/layer_#/output/LayerNorm": "bert.encoder.layer.#.output.LayerNorm",
    "cls/predictions/transform/LayerNorm": "cls.predictions.transform.LayerNorm",
}  # fmt: skip
_DENSE = {
    "bert/encoder/layer_#/attention/self/query": "bert.encoder.layer.#.attention.self.query",
    "bert/encoder/layer_#/attention/self/key": "bert.encoder.layer.#.attention.self.key",
    "bert/encoder/layer_#/attention/self/value": "bert.encoder.layer.#.attention.self.value",
    "bert/encoder/layer_#/attention/output/dense": "bert.encoder.layer.#.attention.output.dense",
    "bert/encoder/layer_#/intermediate/dense": "bert.encoder.layer.#.intermediate.dense",
    "bert/encoder/layer_#/output/dense": "bert.encoder.layer.#.output.dense",
    "bert/pooler/dense": "bert.pooler.dense",
    "cls/predictions/transform/dense": "cls.predictions.transform.dense",
}
_HUGGING_FACE = {
    **_OTHERS,
    **{f"{google}/gamma": f"{theirs}.weight" for google, theirs in _NORMS.items()},
    **{f"{google}/beta": f"{theirs}.bias" for google, theirs in _NORMS.items()},
    **{f"{google}/kernel": f"{theirs}.weight" for google, theirs in _DENSE.items()},
    **{f"{google}/bias": f"{theirs}.bias" for google, theirs in _DENSE.items()},
}
_GOOGLE = {theirs: google for google, theirs in _HUGGING_FACE.items()}
_LAYER = re.compile(r"(?<=^bert/encoder/layer_)(0|[1-9]\d*)(?=/)|"
                    r"(?<=^bert\.encoder\.layer\.)(0|[1-9]\d*)(?=\.)")  # fmt: skip


def hugging_face_name(google: str) -> str | None:
    """The Hugging Face name of one of Google's variables; None for any other."""
    return _translated(google, _HUGGING_FACE)


def google_name(hugging_face: str) -> str | None:
    """The name of Google's variable; None for a parameter that the original does not have."""
    return _translated(hugging_face, _GOOGLE)


def is_transposed(google: str) -> bool:
    """True for a matrix whose axes stand the other way round in Google's files."""
    return google.endswith("/kernel")


def _translated(name: str, table: dict[str, str]) -> str | None:
    layer = _LAYER.search(name)
    if layer is None:
        return table.get(name) if "#" not in name else None
    found = table.get(_LAYER.sub("#", name))
    return found and found.replace("#", layer[0])
