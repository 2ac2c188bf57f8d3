"""The original's variable names <-> names in the Hugging Face layout, for the restated original.

An independent statement of what `checkpoints.names` knows: kernels are transposed, gamma and beta
are weight and bias. It does not know where tensors are stored.

Source: google-research/bert, modeling.py; `transformers`' convert_bert_original_tf_checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from bertsmith.certificate.comparisons import Numbers
from bertsmith.certificate.golden.modeling import Variables

WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"
BIAS, DECODER_BIAS = "cls.predictions.bias", "cls.predictions.decoder.bias"
"""The language-model head's bias, and the one that `transformers` gives a decoder of its own."""
_OTHER_NAMES = {
    "cls/predictions/output_bias": BIAS,
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
}
_ENDINGS = {"kernel": "weight", "gamma": "weight", "beta": "bias"}


def hugging_face_name(original: str) -> str:
    """The name on disk of one of the original's variables."""
    if original in _OTHER_NAMES:
        return _OTHER_NAMES[original]
    if original.endswith("_embeddings"):
        return original.replace("/", ".") + ".weight"
    scope, _, ending = original.replace("layer_", "layer/").replace("/", ".").rpartition(".")
    return f"{scope}.{_ENDINGS.get(ending, ending)}"


def variables_of(tensors: Mapping[str, Tensor]) -> Variables:
    """The original's variables, looked up among tensors named as on disk; float32 and exact.

    A decoder's own bias counts where there is one: what is tied holds a copy, or cannot be loaded.
    """

    def variable(name: str) -> Numbers:
        stored = hugging_face_name(name)
        if stored == BIAS and DECODER_BIAS in tensors:
            stored = DECODER_BIAS
        values: Numbers = tensors[stored].detach().float().numpy()
        return values.T if name.endswith("/kernel") else values

    return variable


def tensors_of(variables: Mapping[str, Numbers]) -> dict[str, Tensor]:
    """The original's variables under their names on disk, in their own number type."""
    return {
        hugging_face_name(name): torch.from_numpy(
            np.ascontiguousarray(value.T if name.endswith("/kernel") else value)
        )
        for name, value in variables.items()
    }
