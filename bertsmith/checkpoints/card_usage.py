"""A model card's facts -> the code that it shows: how the model is used, in its own format.

It does not run what it shows; the tests do.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bertsmith.model.config import Objective
from bertsmith.model.task import TaskKind

if TYPE_CHECKING:
    from bertsmith.checkpoints.card import Card

EXAMPLE = "A sentence with one [MASK] in it."
PIPELINES: dict[TaskKind, str] = {
    "sequence_classification": "text-classification",
    "token_classification": "token-classification",
    "question_answering": "question-answering",
    "multiple_choice": "multiple-choice",
}
"""The Hub's names of the tasks."""


def usage(card: Card) -> list[str]:
    """Code blocks, ready to be run beside the model's directory."""
    if card.format == "onnx":
        return [_fenced("python", _onnx(card))]
    if card.format == "sentence-transformers":
        return [_fenced("python", _sentence_transformers(card.name))]
    if card.head is not None and card.format == "tensorflow":
        script = "run_squad.py" if card.head.kind == "question_answering" else "run_classifier.py"
        return [_original(f"{script} of google-research/bert")]
    commands = [shlex.join(["bertsmith", *_question(card)])] if _question(card) else []
    if card.format == "tensorflow":
        return [
            *(_fenced("bash", command) for command in commands),
            f"or {_original('google-research/bert')}",
        ]
    return [
        *(_fenced("bash", command) for command in commands),
        _fenced("python", _transformers(card)),
    ]


def _original(code: str) -> str:
    return (
        f"with {code}, `--init_checkpoint bert_model.ckpt --bert_config_file bert_config.json "
        f"--vocab_file vocab.txt`."
    )


def _question(card: Card) -> list[str]:
    """What `bertsmith` can be asked at once; nothing for a model without the head for it."""
    if "masked_lm" not in card.objectives or card.head is not None:
        return []
    return ["predict", "fill-mask", "--model", card.name, EXAMPLE]


def _fenced(language: str, code: str) -> str:
    return f"```{language}\n{code}\n```"


def _transformers(card: Card) -> str:
    name = card.name
    if card.head is not None:
        return _of_task(name, card.head.kind)
    return _of_pretraining(name, card.objectives)


def _of_task(name: str, kind: TaskKind) -> str:
    if kind == "question_answering":
        return f"""\
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({name!r})
model = AutoModelForQuestionAnswering.from_pretrained({name!r})
scores = model(**tokenizer("Who sings?", "A bird sings.", return_tensors="pt"))
print(scores.start_logits, scores.end_logits)"""
    if kind == "multiple_choice":
        return f"""\
from transformers import AutoModelForMultipleChoice, AutoTokenizer

question, choices = "Who sings?", ["A bird.", "A quiet stone."]
tokenizer = AutoTokenizer.from_pretrained({name!r})
model = AutoModelForMultipleChoice.from_pretrained({name!r})
pairs = tokenizer([question] * 2, choices, padding=True, return_tensors="pt")
print(model(**{{key: rows[None] for key, rows in pairs.items()}}).logits)"""
    return f"""\
from transformers import pipeline

print(pipeline({PIPELINES[kind]!r}, model={name!r})("A sentence."))"""


def _of_pretraining(name: str, objectives: Sequence[Objective]) -> str:
    if "masked_lm" in objectives:
        return f"""\
from transformers import pipeline

print(pipeline("fill-mask", model={name!r})({EXAMPLE!r}))"""
    kind = "AutoModelForCausalLM" if "left_to_right_lm" in objectives else "AutoModel"
    answer = "logits" if kind == "AutoModelForCausalLM" else "last_hidden_state"
    return f"""\
from transformers import {kind}, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({name!r})
model = {kind}.from_pretrained({name!r})
print(model(**tokenizer("A sentence.", return_tensors="pt")).{answer})"""


def _sentence_transformers(name: str) -> str:
    return f"""\
from sentence_transformers import SentenceTransformer

model = SentenceTransformer({name!r})
vectors = model.encode(["A sentence.", "Another one."])
print(model.similarity(vectors, vectors))"""


def _onnx(card: Card) -> str:
    folder = repr(card.name)
    download = ""
    if card.is_on_hub:
        folder = f"snapshot_download({card.name!r})"
        download = "from huggingface_hub import snapshot_download\n"
    return f"""\
import numpy as np
import onnxruntime
{download}from tokenizers import Tokenizer

folder = {folder}
tokenizer = Tokenizer.from_file(f"{{folder}}/tokenizer.json")
tokenizer.enable_padding(pad_token="[PAD]", pad_id=tokenizer.token_to_id("[PAD]"))
tokenizer.enable_truncation({card.longest})
texts = tokenizer.encode_batch(["A sentence.", "Another, longer sentence."])
inputs = {{
    "input_ids": np.array([text.ids for text in texts]),
    "attention_mask": np.array([text.attention_mask for text in texts]),
    "token_type_ids": np.array([text.type_ids for text in texts]),
}}
session = onnxruntime.InferenceSession(f"{{folder}}/model.onnx")
outputs = {list(card.outputs)!r}
for name, values in zip(outputs, session.run(outputs, inputs)):
    print(name, values.shape)"""
