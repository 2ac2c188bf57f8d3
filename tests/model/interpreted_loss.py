"""The loss over a vocabulary by a GPU's kernels beside its definition, for a process of its own.

    TRITON_INTERPRET=1 python -m tests.model.interpreted_loss

Triton looks for the variable once, when it is first imported. In float16, not bfloat16: its
interpreter computes with numpy, which has none.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import torch
from torch.nn import functional

from bertsmith.model import gpu_vocabulary_loss, vocabulary_loss
from tests.model.triton_kernels import patch_triton_once_a_function


class Case(NamedTuple):
    """Rows and words; tiles are of 1,024 columns, and one there of 1,024 or 2,048 words."""

    rows: int
    words: int
    dtype: str = "float32"
    bias: str = "float32"
    scale: float = 4.0
    """Of the logits."""
    is_rounded: bool = False
    """To whole numbers, of which the highest stands in many places."""
    num_unused: int = 0
    """Words behind the others that no text has."""


CASES = [
    Case(1, 1),
    Case(5, 3, "float16"),
    Case(6, 57),
    Case(1, 1003, "float16", "float16"),
    Case(9, 1003),
    Case(9, 1024, "float16", num_unused=21),
    Case(5, 2113, num_unused=64),
    Case(5, 2048, "float16", "float16"),
    Case(4, 4999, "float16"),
    Case(7, 5000, scale=1.0, is_rounded=True),
    Case(7, 2500, "float16", scale=2.0, is_rounded=True, num_unused=9),
    Case(5, 1100, scale=1e30),
    Case(5, 2100, "float16", scale=1e4),
    Case(5, 1500, scale=0.0),
]
ODD = ["nan", "inf", "-inf", "all -inf", "bias nan", "target -inf", "beyond"]
"""What stands in one row of three, or at all words' biases, or is its target."""


def inputs(case: Case) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, the bias, and targets: guesses, the last of words as likely, any, a certain one."""
    generator = torch.Generator().manual_seed(case.words)
    logits = case.scale * torch.randn(case.rows, case.words, generator=generator)
    bias = torch.randn(case.words, generator=generator)
    if case.is_rounded:
        logits, bias = logits.round(), torch.zeros(case.words)
    logits, bias = logits.to(getattr(torch, case.dtype)), bias.to(getattr(torch, case.bias))
    num_words = case.words - case.num_unused
    bias[num_words:] = -torch.inf
    targets = torch.randint(num_words, (case.rows,), generator=generator)
    scores = logits.float() + bias.float()
    for row in range(case.rows):
        highest = (scores[row] == scores[row].max()).nonzero()
        if row % 4 < 2:
            targets[row] = highest[0 if row % 4 == 0 else -1]
    if case.rows > 1 and case.scale < 10.0:
        # Next to 1, which half precision would not tell from it.
        logits[-1, targets[-1]] = scores[-1].max() + 10.0
    return logits, bias, targets


def guesses(logits: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The first of the highest scores in each row."""
    scores = (logits.float() + bias.float()).tolist()
    return torch.tensor([row.index(max(row)) for row in scores])


def errors(case: Case, device: str = "cpu") -> list[float]:
    """Of the loss, without a gradient too, of both gradients and of the logits' at the targets.

    As shares of their size in float64. And by how many the right ones differ, and the gradients at
    words that no text has.
    """
    logits, bias, targets = inputs(case)
    num_right = (guesses(logits, bias) == targets).sum()
    logits, bias, targets, num_right = (
        each.to(device) for each in (logits, bias, targets, num_right)
    )
    wide, wide_bias = (each.double().requires_grad_() for each in (logits, bias))
    expected = functional.cross_entropy(wide + wide_bias, targets, reduction="sum")
    expected.backward()
    assert wide.grad is not None
    assert wide_bias.grad is not None
    alone, alone_right = gpu_vocabulary_loss.loss(logits, bias, targets)
    total, correct, by_bias = gpu_vocabulary_loss.loss_and_gradient(logits, bias, targets)
    assert total.dtype == by_bias.dtype == torch.float32
    assert by_bias.shape == (1, case.words)
    rows = torch.arange(case.rows, device=device)
    exact, found = (each[rows, targets].double() for each in (wide.grad, logits))
    smallest = max(torch.finfo(logits.dtype).tiny, 1e-9)
    unused = torch.cat([logits, by_bias])[:, case.words - case.num_unused :]
    return [
        _share(total, expected.detach()),
        _share(alone, expected.detach()),
        _share(by_bias[0], wide_bias.grad),
        _share(logits, wide.grad),
        float(((found - exact).abs() / exact.abs().clamp_min(smallest)).max()),
        float((correct - num_right).abs() + (alone_right - num_right).abs()),
        float(unused.abs().sum()),
    ]


def _share(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Of float64's size, or of what float32 hardly tells from nothing."""
    return float((found.double() - expected).norm() / expected.norm().clamp_min(1e-9))


def differing(kind: str, device: str = "cpu") -> list[float]:
    """How many losses and gradients are not those of operators, NaN where these are.

    Of targets beyond the vocabulary, how many losses are not NaN.
    """
    logits, bias, targets = inputs(Case(3, 1500))
    targets[1] = 7
    if kind in ("nan", "inf", "-inf"):
        logits[1, 1400] = float(kind)
    elif kind == "all -inf":
        logits[1] = -torch.inf
    elif kind == "bias nan":
        bias[1300] = torch.nan
    elif kind == "target -inf":
        bias[7] = -torch.inf
    if kind == "beyond":
        found = []
        for target in (-1, 1500, 2**40):
            targets[1] = target
            given = (each.to(device) for each in (logits, bias, targets))
            found.append(float(not gpu_vocabulary_loss.loss(*given)[0].isnan()))
        return found
    expected = logits.clone()
    total, _ = vocabulary_loss._to_gradient(expected, bias, targets)
    logits, bias, targets = (each.to(device) for each in (logits, bias, targets))
    found_total, _, by_bias = gpu_vocabulary_loss.loss_and_gradient(logits, bias, targets)
    near = {"rtol": 1e-5, "atol": 1e-6, "equal_nan": True}
    pairs = [(found_total, total), (logits, expected), (by_bias[0], expected.sum(0))]
    return [float((~torch.isclose(one.cpu(), other, **near)).sum()) for one, other in pairs]


if __name__ == "__main__":
    patch_triton_once_a_function()
    gpu_vocabulary_loss._NUM_PROGRAMS = 4  # so that each has several rows
    # What is not written is then not a number, and would be seen.
    torch.use_deterministic_algorithms(True)
    for case in CASES:
        print(json.dumps(errors(case)), flush=True)
    for kind in ODD:
        print(json.dumps(differing(kind)), flush=True)
