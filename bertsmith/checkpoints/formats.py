"""The formats a model can be written in, and what each of them cannot hold.

A format is more than its tensors: it is the code that will run them. Where that code would compute
something else than this package, writing is refused with the reason. It knows neither tensors nor
disks.

Source: `transformers`' Bert classes; google-research/bert, modeling.py.
"""

from __future__ import annotations

from typing import Literal

from bertsmith.model.config import BertConfig, Objective

Format = Literal["hugging-face", "sentence-transformers", "onnx", "tensorflow"]
NumberType = Literal["float32", "bfloat16", "float16"]

_READERS: dict[Format, str] = {
    "hugging-face": "transformers",
    "sentence-transformers": "sentence-transformers",
    "onnx": "onnxruntime",
    "tensorflow": "google-research/bert",
}


def refusal(
    format: Format, dtype: NumberType, config: BertConfig, objectives: tuple[Objective, ...]
) -> str | None:
    """Why a format cannot hold a model of this kind; None where it can."""
    if fault := dtype_refusal(format, dtype):
        return fault
    if format == "onnx":
        return None
    reader = _READERS[format]
    if config.direction == "right_to_left":
        return f"{reader} has no right-to-left BERT: it would read the text in both directions"
    if config.direction == "left_to_right":
        if format == "tensorflow":
            return f"{reader} has no left-to-right BERT: it would read the text in both directions"
        if format == "hugging-face" and "next_sentence" in objectives:
            return (
                f"{reader} has no class for a left-to-right BERT with a next-sentence head, which "
                f"reads the last token here and would read the first there"
            )
    if format == "tensorflow" and "masked_lm" in objectives and not config.tie_word_embeddings:
        return (
            f"{reader} knows no decoder apart from the token embeddings, and this model has one of "
            f"its own"
        )
    return None


def dtype_refusal(format: Format, dtype: NumberType) -> str | None:
    """Why a format cannot hold numbers of this type; None where it can."""
    if format == "tensorflow" and dtype != "float32":
        return f"google-research/bert reads float32 only, found --dtype {dtype}"
    if format == "onnx" and dtype == "bfloat16":
        return "onnxruntime computes no bfloat16 on a CPU; use --dtype float16 or float32"
    return None
