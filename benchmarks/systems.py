"""The systems that are compared: each a function that takes one training step on a batch.

Ours as `bertsmith pretrain` runs it, with and without what a compiler built, and `transformers` at
its default and at its best, all from the same weights, on any device. It does not know how the
steps are timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.machine import CPU
from bertsmith.batch import PretrainBatch
from bertsmith.compiler import without_native
from bertsmith.fusion import unfused
from bertsmith.memory import keep_freed_memory
from bertsmith.model.config import BertConfig
from bertsmith.model.objectives import PretrainModel
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.device import choose_precision, dtype_of
from bertsmith.train.placement import placed

RATE = 1e-4

Step = Callable[[PretrainBatch, int], Tensor]
"""Takes a step's batch and number, and gives its loss, which a GPU may still be computing."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all systems begin with."""

    config: BertConfig
    weights: Mapping[str, Tensor]
    device: torch.device = CPU
    padded_length: int | None = None
    """What peers pad every sequence to, so that a compiler meets one shape; None: to the longest of
    the batch."""


def ours(setup: Setup) -> Step:
    """A step as `bertsmith pretrain` takes it on this machine; AdamW, so that losses compare."""
    model = PretrainModel(setup.config, ("masked_lm", "next_sentence"))
    model.load_state_dict(setup.weights)
    precision = choose_precision("auto", setup.device)
    config = OptimizerConfig(name="adamw", learning_rate=RATE)
    optimizer = placed(model, config, precision, setup.device)
    scaler = optimizer.scaler

    def step(batch: PretrainBatch, number: int) -> Tensor:
        losses = model(batch, (0, number))
        (losses.loss if scaler is None else losses.loss * scaler.scale).backward()
        optimizer.step(RATE)
        optimizer.zero_grad()
        loss: Tensor = losses.loss.detach()
        return loss

    return step


def ours_without_compiler(setup: Setup) -> Step:
    """The same step with the plain functions in place of those in C++ and of fused kernels."""
    step = ours(setup)

    def plain(batch: PretrainBatch, number: int) -> Tensor:
        with unfused(), without_native():
            return step(batch, number)

    return plain


def peer(config: BertConfig, weights: Mapping[str, Tensor], attention: str = "sdpa") -> nn.Module:
    """`transformers`' BertForPreTraining with our weights; its default attention, or another."""
    import transformers

    from bertsmith.checkpoints.config_json import config_to_json
    from bertsmith.checkpoints.names import to_hugging_face

    content = config_to_json(config, ("masked_lm", "next_sentence"))
    peers = transformers.BertConfig(**content, attn_implementation=attention)
    model = transformers.BertForPreTraining(peers)
    model.load_state_dict(to_hugging_face(weights), strict=False)
    module: nn.Module = model.train()
    return module


def transformers_default(setup: Setup) -> Step:
    """float32, eager, torch's AdamW as it comes."""
    model = peer(setup.config, setup.weights).to(setup.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    return peer_step(setup, model, model, optimizer, autocast=None)


def transformers_best(setup: Setup, attention: str = "sdpa") -> Step:
    """Scaled-dot-product attention, torch.compile, fused AdamW; bf16 autocast where that is faster.

    Without bf16 instructions autocast would slow it down several times: float32 is its best there.
    """
    model = peer(setup.config, setup.weights, attention).to(setup.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, fused=True)
    dtype = dtype_of(choose_precision("auto", setup.device), setup.device)
    autocast = None if dtype == torch.float32 else dtype
    return peer_step(setup, model, torch.compile(model), optimizer, autocast)


def transformers_best_with_eager_attention(setup: Setup) -> Step:
    """The same with attention operator by operator, of which the compiler makes its own kernels."""
    return transformers_best(setup, "eager")


def transformers_best_with_kept_memory(setup: Setup) -> Step:
    """The same with our setting of the allocator, which no one tells its users of."""
    keep_freed_memory()
    return transformers_best(setup)


def peer_step(
    setup: Setup,
    model: nn.Module,
    callable_model: Callable[..., object],
    optimizer: torch.optim.Optimizer,
    autocast: torch.dtype | None,
) -> Step:
    """A step of `transformers` on the padded form of our batch."""
    device, length = setup.device, setup.padded_length  # not its weights, which take memory

    def step(batch: PretrainBatch, number: int) -> Tensor:
        tensors = padded(batch, length).items()
        inputs = {name: on_device(tensor, device) for name, tensor in tensors}
        with torch.autocast(device.type, dtype=autocast, enabled=autocast is not None):
            output = callable_model(**inputs)
        loss: Tensor = output.loss  # type: ignore[attr-defined]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def padded(batch: PretrainBatch, length: int | None = None) -> dict[str, Tensor]:
    """A whole step as the arguments of `BertForPreTraining`, with padding.

    To `length`, or else to the longest sequence. Where that leaves nothing to pad, no mask: so the
    peer may take its faster attention.
    """
    assert batch.next_labels is not None
    assert len(batch.target_rows) == batch.step_targets, "the peer averages over what it sees"
    arrays = batch.packed.to_padded()
    missing = 0 if length is None else length - arrays[0].shape[1]
    input_ids, mask, types = (
        nn.functional.pad(torch.from_numpy(array), (0, missing)) for array in arrays
    )
    rows = torch.full((batch.packed.num_tokens,), -100)
    rows[torch.from_numpy(batch.target_rows)] = torch.from_numpy(batch.target_ids).long()
    labels = torch.full_like(input_ids, -100)
    labels[mask.bool()] = rows
    inputs = {
        "input_ids": input_ids,
        "token_type_ids": types,
        "labels": labels,
        "next_sentence_label": torch.from_numpy(batch.next_labels).long(),
    }
    return inputs if bool(mask.all()) else {**inputs, "attention_mask": mask}


def on_device(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor there; from pinned memory to a GPU, for which nobody waits."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


SYSTEMS: dict[str, Callable[[Setup], Step]] = {
    "bertsmith": ours,
    "bertsmith without a compiler": ours_without_compiler,
    "transformers default": transformers_default,
    "transformers best": transformers_best,
    "transformers best, eager attention": transformers_best_with_eager_attention,
    "transformers best, memory kept": transformers_best_with_kept_memory,
}
VARIANTS = ("bertsmith without a compiler", "transformers best, memory kept")
