"""Checks of a model's configuration and of its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from bertsmith.certificate.computed import original_outputs
from bertsmith.certificate.golden.modeling import LAYER_NORM_EPSILON, Architecture
from bertsmith.certificate.rows import Row, outcome, skipped
from bertsmith.certificate.subject import Subject, spelt
from bertsmith.checkpoints.names import DECODER, TOKEN_EMBEDDING

_LIVELY = (1e-3, 1e3)


def configuration(subject: Subject) -> Row:
    """Numbers that a BERT can be built and trained with; those that cannot load are refused."""
    config = subject.loaded.config
    faults = [
        f"{name} is {value}, expected {wanted}"
        for name, value, wanted, is_right in (
            (
                "initializer_range",
                config.initializer_range,
                "between 0 and 1",
                0.0 < config.initializer_range < 1.0,
            ),
            ("type_vocab_size", config.type_vocab_size, "at least 2", config.type_vocab_size > 1),
        )
        if not is_right
    ]
    sizes = (
        f"{config.num_hidden_layers} layers, width {config.hidden_size}, "
        f"{config.num_attention_heads} heads of {config.head_size}, feed-forward "
        f"{config.intermediate_size / config.hidden_size:g} times as wide, "
        f"{config.max_position_embeddings} positions, {spelt(config.direction)}"
    )
    return Row(
        name="configuration",
        status=outcome(not faults),
        found="; ".join(faults) or sizes,
        expected="a range and two segments",
        reference="paper, section 3 and Table 6; modeling.py, BertConfig",
    )


def activation(subject: Subject) -> Row:
    """Exact GELU, or what the model has instead, and how far that moves its outputs."""
    found = subject.loaded.config.hidden_act
    is_exact = found == "gelu"
    moved = "" if is_exact else _moved(subject, replace(subject.architecture, activation="gelu"))
    return Row(
        name="activation",
        status=outcome(is_exact),
        found=f"{found}{moved}",
        expected="gelu, the exact form",
        reference="paper, section 3; modeling.py, gelu",
        difference="gelu_tanh" if found == "gelu_tanh" else "",
    )


def epsilon(subject: Subject) -> Row:
    """LayerNorm's epsilon, and how far another one moves the outputs."""
    found, wanted = subject.loaded.config.layer_norm_eps, LAYER_NORM_EPSILON
    is_right = found == wanted
    moved = "" if is_right else _moved(subject, replace(subject.architecture, epsilon=wanted))
    return Row(
        name="LayerNorm's epsilon",
        status=outcome(is_right),
        found=f"{found:g}{moved}",
        expected=f"{wanted:g}",
        reference="modeling.py, layer_norm",
        difference="layer_norm_eps" if found <= 1e-5 else "",
    )


def finite(subject: Subject) -> Row:
    """No number is infinite or no number at all."""
    bad = {
        name: int((~torch.isfinite(tensor)).sum())
        for name, tensor in subject.model.state_dict().items()
    }
    found = [f"{count:,} in {name}" for name, count in bad.items() if count]
    return Row(
        name="weights are finite",
        status=outcome(not found),
        found=", ".join(found[:3]) or f"{len(bad)} tensors without one that is not",
        expected="no infinity and no NaN",
        reference="-",
    )


def norms(subject: Subject) -> Row:
    """Every LayerNorm lets something through."""
    sizes = {
        name: float(module.weight.detach().abs().mean())
        for name, module in subject.model.named_modules()
        if isinstance(module, nn.LayerNorm)
    }
    low, high = _LIVELY
    dead = [f"{name}: {size:.1e}" for name, size in sizes.items() if not low <= size <= high]
    return Row(
        name="LayerNorms are alive",
        status=outcome(not dead),
        found=", ".join(dead[:3])
        or f"mean weight {min(sizes.values()):.2f} to {max(sizes.values()):.2f}",
        expected=f"a mean weight of {low:g} to {high:g} in each of {len(sizes)}",
        reference="modeling.py, layer_norm",
    )


def matrices(subject: Subject) -> Row:
    """No matrix is constant, and no two layers hold the same one."""
    faults: list[str] = []
    seen: dict[tuple[str, float, float], str] = {}
    for name, tensor in subject.model.state_dict().items():
        if tensor.ndim < 2:
            continue
        deviation, total = float(tensor.std(correction=0)), float(tensor.double().sum())
        if deviation == 0.0:
            faults.append(f"{name} is constant")
        kind = (name.rpartition("layers.")[2].partition(".")[2], deviation, total)
        if name.startswith("bert.layers.") and kind in seen:
            faults.append(f"{name} is {seen[kind]} again")
        seen[kind] = name
    return Row(
        name="matrices are filled, layers differ",
        status=outcome(not faults),
        found="; ".join(faults[:3]) or f"{len(seen)} different matrices",
        expected="no constant matrix, no layer twice",
        reference="-",
    )


def pad_row(subject: Subject) -> Row:
    """The [PAD] row is an ordinary row."""
    table = subject.model.bert.token_embedding.detach()
    lengths = table.norm(dim=1)
    own = float(lengths[subject.tokenizer.pad_id])
    return Row(
        name="[PAD]'s row of the token embedding",
        status=outcome(own > 0.0),
        found=f"length {own:.2f}, the median row's {float(lengths.median()):.2f}",
        expected="not zero",
        reference="modeling.py, embedding_lookup",
        difference="pad_row",
    )


def tied_decoder(subject: Subject) -> Row:
    """The language-model head's decoder is the token embedding."""
    name, reference = (
        "decoder tied to the token embedding",
        "run_pretraining.py, get_masked_lm_output",
    )
    head = subject.model.masked_lm
    if head is None:
        return skipped(name, "this model has no language-model head", reference)
    embedding = subject.model.bert.token_embedding.detach()
    used = head.decoder_weight(embedding).detach()
    stored = subject.weights.tensors.get(DECODER, subject.weights.tensors[TOKEN_EMBEDDING])
    apart = max(
        float((used.float() - embedding.float()).abs().max()),
        float((stored.float() - embedding.float()).abs().max()),
    )
    return Row(
        name=name,
        status=outcome(apart == 0.0),
        found=f"differ by {apart:.1e} at most" if apart else "equal",
        expected="equal",
        reference=reference,
        difference="untied_decoder",
    )


def parameter_count(subject: Subject) -> Row:
    """As many parameters as the sizes say."""
    found = sum(parameter.numel() for parameter in subject.model.parameters())
    expected = _count(subject)
    return Row(
        name="number of parameters",
        status=outcome(found == expected),
        found=f"{found:,}",
        expected=f"{expected:,} by the sizes in the config",
        reference="paper, section 3; modeling.py",
    )


CHECKS: tuple[Callable[[Subject], Row], ...] = (
    configuration, activation, epsilon, finite, norms, matrices, pad_row, tied_decoder,
    parameter_count,
)  # fmt: skip


def _moved(subject: Subject, architecture: Architecture) -> str:
    """How far the model's outputs lie from what it would compute by the paper."""
    by_the_paper = original_outputs(subject.weights.tensors, subject.short, architecture)
    here, there = (o.hidden_states[-1] for o in (subject.original_of_short, by_the_paper))
    return f", which moves the hidden states by {np.abs(here - there).max():.1e} at most"


def _count(subject: Subject) -> int:
    config, model = subject.loaded.config, subject.model
    width, inner, vocabulary = config.hidden_size, config.intermediate_size, config.vocab_size
    square, norm = width * width + width, 2 * width
    tables = vocabulary + config.max_position_embeddings + config.type_vocab_size
    layer = 4 * square + norm + (width * inner + inner) + (inner * width + width) + norm
    count = tables * width + norm + config.num_hidden_layers * layer
    if model.bert.pooler is not None:
        count += square
    if model.masked_lm is not None:
        count += square + norm + vocabulary
        count += 0 if config.tie_word_embeddings else vocabulary * width
    if model.next_sentence is not None:
        count += 2 * width + 2
    return count
