"""A pre-trained model and a task -> everything that turns: encoder with head, optimizer, schedule.

And a checkpoint of it, whole: weights, task and trainer in one directory. It decides nothing: every
choice is in the run, and what is right in the batches.

Source: Devlin et al. 2018, section 4 and appendix A.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from bertsmith.checkpoints import store
from bertsmith.checkpoints.store import Loaded
from bertsmith.files import atomic_directory, write_json
from bertsmith.model.bert import Bert
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.sentence import SentenceConfig
from bertsmith.model.task import TaskHeadConfig
from bertsmith.model.task_model import TaskModel
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.functions import prepare_steps
from bertsmith.runs.learner import FeatureLearner, Learner
from bertsmith.tasks.scores import KeptStates
from bertsmith.tasks.stored import TASK
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.train.config import Precision
from bertsmith.train.device import recorded_precision
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.placement import placed
from bertsmith.train.schedule import ScheduleConfig
from bertsmith.train.state import TrainerState, save_state


@dataclass(frozen=True, kw_only=True)
class TaskTrainee:
    """An encoder with a task's head on its device, and the optimizer that holds what is trained."""

    model: TaskModel
    learner: Learner | FeatureLearner
    optimizer: Optimizer
    schedule: ScheduleConfig
    precision: Precision
    frozen: Mapping[str, Tensor]
    """What is not trained, by parameter name, in float32."""

    def weights(self) -> dict[str, Tensor]:
        """All weights in float32, whatever precision trains."""
        return {**self.frozen, **self.optimizer.masters()}


def begin_task_model(
    loaded: Loaded, config: TaskHeadConfig, run: FinetuneRun
) -> tuple[TaskModel, list[str]]:
    """The loaded encoder, in float32, under the task's head; and what was drawn or left aside.

    The head is drawn by the run's seed, and so is a pooler that the head reads and the model has
    not. Raises ValueError for more frozen layers than there are, for a head to go on with that is
    not there or of other labels, and for features that the model has not.
    """
    config = _head_config(config, loaded, run)
    bert, size = loaded.model.bert, loaded.config.num_hidden_layers
    if run.frozen_layers > size:
        raise ValueError(f"frozen_layers is {run.frozen_layers}, and the model has {size} layers")
    head, notes = _head(loaded, config, run)
    fresh = nn.ModuleDict({} if run.keep_head else {"head": head})
    if bert.pooler is None and config.needs_pooler:
        bert.pooler = nn.Linear(loaded.config.hidden_size, loaded.config.hidden_size)
        fresh["pooler"] = bert.pooler
        notes.append("the model holds no pooler, which this task reads: a new one is drawn too")
    unread: list[str] = list(loaded.model.objectives)
    if bert.pooler is not None and not config.needs_pooler:
        bert.pooler = None
        unread.append("the pooler")
    if unread:
        notes.append(f"not part of the task's model: {', '.join(unread)}")
    initialise(fresh, std=loaded.config.initializer_range, seed=run.seed)
    if run.approach == "feature_based":
        bert.requires_grad_(False)
    elif run.frozen_layers:
        _freeze(bert, run.frozen_layers)
        notes.append(
            f"not trained: the embeddings and the first {run.frozen_layers} of {size} layers"
        )
    return TaskModel(bert, head), notes


def task_trainee(
    run: FinetuneRun,
    model: TaskModel,
    num_steps: int,
    device: torch.device,
    states: KeptStates | None = None,
) -> TaskTrainee:
    """Puts the model on its device, with an optimizer without history.

    With `states` the head learns from these, and the encoder reads nothing.
    """
    precision = recorded_precision(run.precision, device)
    if states is None:
        prepare_steps(precision, device)
    frozen = {
        name: weight.detach().clone()
        for name, weight in model.named_parameters()
        if not weight.requires_grad
    }
    return TaskTrainee(
        model=model,
        learner=Learner(model, seed=run.seed, with_dropout=run.dropout)
        if states is None
        else FeatureLearner(model, states, seed=run.seed, with_dropout=run.dropout),
        optimizer=placed(model, run.optimizer, precision, device),
        schedule=ScheduleConfig(total_steps=num_steps, warmup_share=run.warmup_share),
        precision=precision,
        frozen=frozen,
    )


@dataclass(frozen=True, kw_only=True)
class TaskCheckpoint:
    """Where checkpoints get what does not change."""

    tokenizer: Tokenizer
    task: Mapping[str, object]
    """As JSON values."""

    def write(self, path: Path, trained: TaskTrainee, state: TrainerState) -> None:
        """Writes model, vocabulary, task and trainer as one atomic directory to go on from."""
        weights, config = trained.weights(), trained.model.bert.config
        head = TaskHead(config, trained.model.head.config)
        head.load_state_dict(
            {name: weights.pop(f"head.{name}").cpu() for name in head.state_dict()}
        )
        config = replace(config, pad_token_id=self.tokenizer.pad_id)
        with atomic_directory(path) as directory:
            store.write(directory, weights, config, self.tokenizer, head=head)
            write_json(directory / TASK, self.task)
            save_state(directory, trained.optimizer, state.step, state.extra)


def _head_config(config: TaskHeadConfig, loaded: Loaded, run: FinetuneRun) -> TaskHeadConfig:
    """The task's head, on what the run puts under it."""
    config = replace(
        config,
        layers=run.layers,
        pooling=run.pooling,
        on_top=run.on_top,
        lstm_size=run.lstm_size,
        lstm_layers=run.lstm_layers,
    )
    if config.pooling == "cls":
        SentenceConfig(pooling=("cls",)).require_context(loaded.config.direction)
    if config.needs_pooler and loaded.config.direction == "two_way":
        raise ValueError(
            f"no token of {loaded.directory}, a two-way model, has seen the whole text in all its "
            f"numbers, so there is none to pool: take --on-top bilstm, or of frozen features "
            f"--pooling mean"
        )
    is_frozen = run.approach == "feature_based"
    if is_frozen and config.needs_pooler and loaded.model.bert.pooler is None:
        raise ValueError(
            f"{loaded.directory} holds no pooler, and one that is drawn and never trained says "
            f"nothing: choose --pooling cls or mean"
        )
    return config


def _head(loaded: Loaded, config: TaskHeadConfig, run: FinetuneRun) -> tuple[TaskHead, list[str]]:
    """The head with its own weights, or without a value yet; and a word on it."""
    head, own = TaskHead(loaded.config, config), loaded.head
    if not run.keep_head:
        replaced = "" if own is None else "; the one of the model is left aside"
        return head, [
            f"a new head of {config.num_labels} scores{_told_below(config)}, drawn by seed "
            f"{run.seed}{replaced}"
        ]
    found = "it has none" if own is None else _differing(own.config, config)
    if own is None or found:
        raise ValueError(
            f"keep_head goes on with the head that {loaded.directory} has, and {found}; leave it "
            f"out to begin with a new one"
        )
    head.load_state_dict(own.state_dict())
    return head, ["the model's own head is trained on"]


def _differing(own: TaskHeadConfig, config: TaskHeadConfig) -> str:
    """Why a head cannot be the other; empty where it is."""
    if own.kind != config.kind:
        return f"that one is for {own.kind}, the task needs {config.kind}"
    below, wanted = (_told_below(each) or " on nothing else" for each in (own, config))
    if below != wanted:
        return f"that one stands{below}, the run's{wanted} (on_top, layers, pooling)"
    has_names = config.kind not in ("multiple_choice", "question_answering")
    if has_names and own.labels != config.labels:
        labels, wanted = (", ".join(each.labels) for each in (own, config))
        return f"its labels are {labels:.100}, the task's {wanted:.100}"
    return ""


def _told_below(config: TaskHeadConfig) -> str:
    """What stands under a head's last layer; empty for what the encoder gives as usual."""
    told = []
    if config.on_top == "bilstm":
        told.append(f"a BiLSTM of {config.lstm_layers} x {config.lstm_size} states a direction")
    if config.layers != "last":
        told.append(f"the layers {config.layers}")
    if config.pooling != "pooler":
        told.append(f"the pooling {config.pooling}")
    return f" on {', '.join(told)}" if told else ""


def _freeze(bert: Bert, num_layers: int) -> None:
    """The embeddings and the first layers get no gradients."""
    for part in (bert.embeddings, *bert.layers[:num_layers]):
        part.requires_grad_(False)
