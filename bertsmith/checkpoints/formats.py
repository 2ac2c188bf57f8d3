"""The formats a model can be written in, and what each of them cannot hold.

A format is more than its tensors: it is the code that will run them. Where that code would compute
something else than this package, writing is refused with the reason. It knows neither tensors nor
disks.

Source: `transformers`' Bert classes; google-research/bert, modeling.py.
"""

from __future__ import annotations

from typing import Literal

from bertsmith.model.config import BertConfig, Objective
from bertsmith.model.task import TaskHeadConfig, unnamed_labels

Format = Literal["hugging-face", "sentence-transformers", "onnx", "tensorflow"]
NumberType = Literal["float32", "bfloat16", "float16"]

_READERS: dict[Format, str] = {
    "hugging-face": "transformers",
    "sentence-transformers": "sentence-transformers",
    "onnx": "onnxruntime",
    "tensorflow": "google-research/bert",
}


def refusal(
    format: Format,
    dtype: NumberType,
    config: BertConfig,
    objectives: tuple[Objective, ...],
    head: TaskHeadConfig | None = None,
) -> str | None:
    """Why a format cannot hold a model of this kind; None where it can."""
    if fault := dtype_refusal(format, dtype):
        return fault
    reader = _READERS[format]
    if (kind := config.told_kind) != "BERT":
        return f"{reader} has no {kind}; bertsmith.load reads it as it is"
    if head is not None and head.additions and format != "sentence-transformers":
        return (
            f"{reader} has no class for a BERT with {' and '.join(head.additions)}: that stays "
            f"beside the encoder where it is, and bertsmith.load reads it; --without-head writes "
            f"the encoder alone"
        )
    if format == "onnx":
        return None
    if config.direction == "right_to_left":
        return f"{reader} has no right-to-left BERT: it would read the text in both directions"
    if config.direction == "left_to_right":
        return _left_to_right_refusal(format, objectives, head)
    if format == "tensorflow" and "masked_lm" in objectives and not config.tie_word_embeddings:
        return (
            f"{reader} knows no decoder apart from the token embeddings, and this model has one of "
            f"its own"
        )
    return None


def _left_to_right_refusal(
    format: Format, objectives: tuple[Objective, ...], head: TaskHeadConfig | None
) -> str | None:
    reader = _READERS[format]
    if format == "tensorflow":
        return f"{reader} has no left-to-right BERT: it would read the text in both directions"
    if format == "hugging-face" and "next_sentence" in objectives:
        return (
            f"{reader} has no class for a left-to-right BERT with a next-sentence head, which "
            f"reads the last token here and would read the first there"
        )
    if format == "hugging-face" and head is not None and not head.reads_tokens:
        return (
            f"{reader} has no class for a left-to-right BERT with a head for "
            f"{head.kind.replace('_', ' ')}, which reads the last token here and would read the "
            f"first there"
        )
    return None


def head_refusal(format: Format, head: TaskHeadConfig) -> str | None:
    """Why a format holds a model without its task head; None where it holds both."""
    if format == "sentence-transformers":
        return "sentence-transformers holds the encoder alone"
    if format == "tensorflow" and head.kind in ("token_classification", "multiple_choice"):
        return (
            f"google-research/bert has no code for {head.kind.replace('_', ' ')}, only for "
            f"sequence classification and question answering"
        )
    return None


def head_facts_left_out(format: Format, head: TaskHeadConfig) -> str | None:
    """What a format that holds a task head does not say of it; None where it says all."""
    if format != "tensorflow":
        return None
    facts = []
    if head.labels != unnamed_labels(head.num_labels):
        facts.append(f"the labels {', '.join(head.labels)}")
    if head.problem_type is not None:
        facts.append(f"problem_type {head.problem_type}")
    if not facts:
        return None
    said = " and ".join(facts)
    return f"{said}: bert_config.json has no place for them; the scores keep their order"


def dtype_refusal(format: Format, dtype: NumberType) -> str | None:
    """Why a format cannot hold numbers of this type; None where it can."""
    if format == "tensorflow" and dtype != "float32":
        return f"google-research/bert reads float32 only, found --dtype {dtype}"
    if format == "onnx" and dtype == "bfloat16":
        return "onnxruntime computes no bfloat16 on a CPU; use --dtype float16 or float32"
    return None
