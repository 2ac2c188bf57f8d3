"""The systems that are compared: each a function that takes one training step on a batch.

Ours as `bertsmith pretrain` runs it, with and without a compiler, and `transformers` at its default
and at its best, all from the same weights. It does not know how the steps are timed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bertsmith.batch import PretrainBatch
from bertsmith.files import keep_freed_memory
from bertsmith.fusion import unfused
from bertsmith.model.config import BertConfig
from bertsmith.model.objectives import PretrainModel
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.device import cast_, choose_precision
from bertsmith.train.optimizer import Optimizer

RATE = 1e-4

Step = Callable[[PretrainBatch, int], float]


def ours(config: BertConfig, weights: dict[str, Tensor]) -> Step:
    """A step as `bertsmith pretrain` takes it on this machine."""
    keep_freed_memory()
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    model.load_state_dict(weights)
    cast_(model, choose_precision("auto", torch.device("cpu")))
    optimizer = Optimizer(model.named_parameters(), OptimizerConfig(learning_rate=RATE))

    def step(batch: PretrainBatch, number: int) -> float:
        losses = model(batch, (0, number))
        losses.loss.backward()
        optimizer.step(RATE)
        optimizer.zero_grad()
        return float(losses.loss.detach())

    return step


def ours_without_compiler(config: BertConfig, weights: dict[str, Tensor]) -> Step:
    """The same step with the plain functions in place of fused kernels."""
    step = ours(config, weights)

    def plain(batch: PretrainBatch, number: int) -> float:
        with unfused():
            return step(batch, number)

    return plain


def peer(config: BertConfig, weights: dict[str, Tensor]) -> nn.Module:
    """`transformers`' BertForPreTraining with our weights, its own default attention."""
    import transformers

    from bertsmith.checkpoints.config_json import config_to_json
    from bertsmith.checkpoints.names import to_hugging_face

    content = config_to_json(config, ("masked_lm", "next_sentence"))
    model = transformers.BertForPreTraining(transformers.BertConfig(**content))
    model.load_state_dict(to_hugging_face(weights), strict=False)
    return model.train()


def transformers_default(config: BertConfig, weights: dict[str, Tensor]) -> Step:
    """float32, eager, torch's AdamW as it comes."""
    model = peer(config, weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    return peer_step(model, model, optimizer, is_autocast=False)


def transformers_best(config: BertConfig, weights: dict[str, Tensor]) -> Step:
    """Scaled-dot-product attention, torch.compile, fused AdamW; bf16 autocast where that is faster.

    Without bf16 instructions autocast would slow it down several times: float32 is its best there.
    """
    model = peer(config, weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, fused=True)
    autocast = choose_precision("auto", torch.device("cpu")) == "bf16"
    return peer_step(model, torch.compile(model), optimizer, is_autocast=autocast)


def transformers_best_with_kept_memory(config: BertConfig, weights: dict[str, Tensor]) -> Step:
    """The same with our setting of the allocator, which no one tells its users of."""
    keep_freed_memory()
    return transformers_best(config, weights)


def peer_step(
    model: nn.Module,
    callable_model: Callable[..., object],
    optimizer: torch.optim.Optimizer,
    is_autocast: bool,
) -> Step:
    """A step of `transformers` on the padded form of our batch."""

    def step(batch: PretrainBatch, number: int) -> float:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_autocast):
            output = callable_model(**padded(batch))
        output.loss.backward()  # type: ignore[attr-defined]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(output.loss.detach())  # type: ignore[attr-defined]

    return step


def padded(batch: PretrainBatch) -> dict[str, Tensor]:
    """A whole step as the arguments of `BertForPreTraining`, with padding."""
    assert batch.next_labels is not None
    assert len(batch.target_rows) == batch.step_targets, "the peer averages over what it sees"
    input_ids, mask, types = (torch.from_numpy(array) for array in batch.packed.to_padded())
    rows = torch.full((batch.packed.num_tokens,), -100)
    rows[torch.from_numpy(batch.target_rows)] = torch.from_numpy(batch.target_ids).long()
    labels = torch.full_like(input_ids, -100)
    labels[mask.bool()] = rows
    return {
        "input_ids": input_ids,
        "attention_mask": mask,
        "token_type_ids": types,
        "labels": labels,
        "next_sentence_label": torch.from_numpy(batch.next_labels).long(),
    }


SYSTEMS: dict[str, Callable[[BertConfig, dict[str, Tensor]], Step]] = {
    "bertsmith": ours,
    "bertsmith without a compiler": ours_without_compiler,
    "transformers default": transformers_default,
    "transformers best": transformers_best,
    "transformers best, memory kept": transformers_best_with_kept_memory,
}
VARIANTS = ("bertsmith without a compiler", "transformers best, memory kept")
