"""The systems whose fine-tuning speed is compared: each takes step after step on the same items.

Ours as `bertsmith finetune` runs it, `transformers` as its example scripts come, and at its best.
All take so many batches, and then the same ones again. It does not know how the steps are timed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from benchmarks.finetuning.drawn import LONGEST
from benchmarks.systems import on_device
from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems, TaskPlan
from bertsmith.model.task_model import TaskModel
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.device import choose_precision, dtype_of
from bertsmith.train.placement import placed

RATE = 5e-5
BATCH = 32
LONGEST_WINDOW = 384
"""What the example script for questions pads to."""
GROUPED_BATCHES = 50
"""Of `Trainer`, `group_by_length`: sorted within so many batches."""

Numbers = npt.NDArray[np.integer]


class Step(NamedTuple):
    """One that was taken."""

    loss: Tensor
    """A GPU may still be computing it."""
    tokens: int
    """Of its examples, without padding."""


Steps = Iterator[Step]
System = Callable[[TaskModel, LabelledItems, torch.device, int], Steps]


def ours(
    model: TaskModel, labelled: LabelledItems, device: torch.device, num_batches: int
) -> Steps:
    """Steps as `bertsmith finetune` takes them; AdamW, so that losses compare."""
    precision = choose_precision("auto", device)
    config = OptimizerConfig(name="adamw", learning_rate=RATE)
    optimizer = placed(model, config, precision, device)
    scaler = optimizer.scaler
    plan = TaskPlan(labelled=labelled, batch_size=BATCH, seed=0)
    batches = itertools.chain.from_iterable(plan.steps(0, num_batches) for _ in itertools.count())
    for number, batch in enumerate(batches):
        losses = model(batch, (0, number))
        (losses.loss if scaler is None else losses.loss * scaler.scale).backward()
        optimizer.step(RATE)
        optimizer.zero_grad()
        yield Step(losses.loss.detach(), len(batch.packed.token_ids))


def script_default(
    model: TaskModel, labelled: LabelledItems, device: torch.device, num_batches: int
) -> Steps:
    """As the example scripts of `transformers` come: all of one length, float32."""
    rng = np.random.default_rng(0)
    orders = (rng.permutation(labelled.num_groups) for _ in itertools.count())
    peer = _peer(model, device)
    longest = LONGEST_WINDOW if _reads_passages(model) else LONGEST
    batches = _again(_cut(orders), num_batches)
    return _peer_steps(peer, peer, _inputs(labelled, batches, longest, device), autocast=None)


def script_best(
    model: TaskModel, labelled: LabelledItems, device: torch.device, num_batches: int
) -> Steps:
    """Padded to the batch's longest, grouped by length, bf16 where the hardware has it."""
    peer = _peer(model, device)
    return _best_steps(peer, peer, labelled, device, num_batches)


def script_compiled(
    model: TaskModel, labelled: LabelledItems, device: torch.device, num_batches: int
) -> Steps:
    """The same through torch.compile, for any length."""
    peer = _peer(model, device)
    return _best_steps(peer, torch.compile(peer, dynamic=True), labelled, device, num_batches)


SYSTEMS: dict[str, System] = {
    "bertsmith": ours,
    "transformers, scripts' default": script_default,
    "transformers, best": script_best,
    "transformers, best, compiled": script_compiled,
}


def _best_steps(
    peer: nn.Module,
    callable_peer: Callable[..., Any],
    labelled: LabelledItems,
    device: torch.device,
    num_batches: int,
) -> Steps:
    dtype = dtype_of(choose_precision("auto", device), device)
    autocast = None if dtype == torch.float32 else dtype
    inputs = _inputs(labelled, _again(grouped(labelled), num_batches), None, device)
    return _peer_steps(peer, callable_peer, inputs, autocast)


def _peer(model: TaskModel, device: torch.device) -> nn.Module:
    """`transformers`' class with the same weights."""
    import transformers

    from bertsmith.checkpoints.config_json import config_to_json
    from bertsmith.checkpoints.names import to_hugging_face

    head = model.head.config
    content: dict[str, Any] = config_to_json(model.bert.config, ())
    config = transformers.BertConfig(
        **content, num_labels=head.num_labels, problem_type=head.problem_type
    )
    kind = transformers.BertForSequenceClassification
    if _reads_passages(model):
        kind = transformers.BertForQuestionAnswering
    peer = kind(config)
    state = to_hugging_face(
        {name: weight for name, weight in model.state_dict().items() if name.startswith("bert.")}
    )
    _, unexpected = peer.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    trained: nn.Module = peer.train().to(device)
    return trained


def _reads_passages(model: TaskModel) -> bool:
    return model.head.config.kind == "question_answering"


def _peer_steps(
    peer: nn.Module,
    callable_peer: Callable[..., Any],
    batches: Iterator[tuple[dict[str, Tensor], int]],
    autocast: torch.dtype | None,
) -> Steps:
    optimizer = torch.optim.AdamW(peer.parameters(), lr=RATE, weight_decay=0.01, fused=True)
    device = next(peer.parameters()).device
    for inputs, num_tokens in batches:
        with torch.autocast(device.type, dtype=autocast, enabled=autocast is not None):
            loss = callable_peer(**inputs).loss
        loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        yield Step(loss.detach(), num_tokens)


def _again(batches: Iterator[Numbers], num_batches: int) -> Iterator[Numbers]:
    """The first so many, without end."""
    return itertools.cycle(list(itertools.islice(batches, num_batches)))


def _inputs(
    labelled: LabelledItems,
    batches: Iterator[Numbers],
    length: int | None,
    device: torch.device,
) -> Iterator[tuple[dict[str, Tensor], int]]:
    """The items of each batch as the peer takes them: padded to a length, None: to the longest.

    With their tokens.
    """
    items = list(labelled.items)
    for numbers in batches:
        targets = torch.from_numpy(np.stack([labelled.targets[each] for each in numbers]))
        labels = targets.float() if targets.is_floating_point() else targets.long()
        names = ("labels",) if labels.shape[1] == 1 else ("start_positions", "end_positions")
        tensors = _padded([items[number] for number in numbers], length) | dict(
            zip(names, labels.T, strict=True)
        )
        num_tokens = int(tensors["attention_mask"].sum())
        yield {name: on_device(tensor, device) for name, tensor in tensors.items()}, num_tokens


def _padded(items: Sequence[Item], length: int | None) -> dict[str, Tensor]:
    longest = length or max(len(item.token_ids) for item in items)
    ids, segments, mask = (torch.zeros(len(items), longest, dtype=torch.long) for _ in range(3))
    for row, item in enumerate(items):
        ids[row, : len(item.token_ids)] = torch.from_numpy(item.token_ids.astype(np.int64))
        segments[row, : len(item.token_ids)] = torch.from_numpy(item.segment_ids.astype(np.int64))
        mask[row, : len(item.token_ids)] = 1
    return {"input_ids": ids, "token_type_ids": segments, "attention_mask": mask}


def grouped(labelled: LabelledItems) -> Iterator[Numbers]:
    """Batches of like lengths, in drawn order."""
    lengths, rng = lengths_of(labelled), np.random.default_rng(0)
    while True:
        order = rng.permutation(len(lengths))
        size = GROUPED_BATCHES * BATCH
        parts = [order[start : start + size] for start in range(0, len(order), size)]
        order = np.concatenate([part[np.argsort(-lengths[part], kind="stable")] for part in parts])
        batches = list(_cut(iter([order])))
        yield from (batches[place] for place in rng.permutation(len(batches)))


def _cut(orders: Iterator[Numbers]) -> Iterator[Numbers]:
    for order in orders:
        for start in range(0, len(order) - BATCH + 1, BATCH):
            yield order[start : start + BATCH]


def lengths_of(labelled: LabelledItems) -> Numbers:
    """Tokens of every item."""
    return np.array([len(item.token_ids) for item in labelled.items])
