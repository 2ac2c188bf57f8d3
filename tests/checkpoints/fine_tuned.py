"""Tiny fine-tuned models for the tests, one of each kind, and a config for their heads."""

from __future__ import annotations

from dataclasses import replace

import torch

from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.task import TaskHeadConfig, TaskKind
from tests.checkpoints.tiny import tiny_config

HEADS: dict[TaskKind, TaskHeadConfig] = {
    "sequence_classification": TaskHeadConfig(
        kind="sequence_classification", labels=("bad", "good", "나쁨"), dropout=0.3,
        problem_type="multi_label_classification",
    ),
    "token_classification": TaskHeadConfig(
        kind="token_classification", labels=("O", "B-PER", "I-PER", "B-LOC")
    ),
    "multiple_choice": TaskHeadConfig(kind="multiple_choice", labels=("LABEL_0",)),
    "question_answering": TaskHeadConfig(
        kind="question_answering", labels=("LABEL_0", "LABEL_1"), dropout=0.0
    ),
}  # fmt: skip
BILSTM_HEADS: dict[TaskKind, TaskHeadConfig] = {
    kind: replace(head, on_top="bilstm", lstm_size=6, lstm_layers=2) for kind, head in HEADS.items()
}
FEATURE_HEADS: dict[str, TaskHeadConfig] = {
    "weighted": replace(HEADS["token_classification"], layers="weighted-sum-all"),
    "weighted under a BiLSTM": replace(
        BILSTM_HEADS["token_classification"], layers="weighted-sum-all"
    ),
    "side by side under a BiLSTM": replace(BILSTM_HEADS["question_answering"], layers="0,2"),
    "first token": replace(
        HEADS["sequence_classification"], layers="second-to-last", pooling="cls"
    ),
    "mean": replace(HEADS["multiple_choice"], layers="weighted-sum-all", pooling="mean"),
}
"""Of a model of two layers."""
ALL_HEADS = (*HEADS.values(), *BILSTM_HEADS.values(), *FEATURE_HEADS.values())


def fine_tuned(config: TaskHeadConfig, **changes: object) -> tuple[PretrainModel, TaskHead]:
    """An encoder, with a pooler where the head reads it, and the head, its bias drawn too."""
    bert = tiny_config(**changes)
    model = PretrainModel(bert, (), with_pooler=config.needs_pooler)
    initialise(model, std=0.3, seed=3)
    head = TaskHead(bert, config)
    initialise(head, std=0.3, seed=4)
    torch.nn.init.normal_(head.scores.bias, generator=torch.Generator().manual_seed(1))
    return model.eval(), head.eval()
