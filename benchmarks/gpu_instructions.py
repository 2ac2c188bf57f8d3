"""What the kernels of a GPU are made of, without one: instructions, registers and spills.

    python -m benchmarks.gpu_instructions --capability 90 --length 128 --most 12

Triton builds its kernels on any machine, and brings NVIDIA's assembler and disassembler. Of kernels
that do not wait for memory instructions are a guess at the time: on an H100 the three of attention
issued 44% to 53% of what its processors could. Printed for each kernel, in bf16, of BASE's width,
dropout 0.1: its instructions in its longest loop and outside of it, what all warps of its programs
issue for one sequence of so many tokens and one head, registers, bytes that were spilled, and which
instructions the loop has. No row is kept.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from bertsmith.model import flash_attention, gpu_layer, gpu_norm, gpu_vocabulary_loss
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.config import BASE

PROBABILITY = 0.1
TYPES = {
    "words": "*i32", "keys": "*i32", "first_rows": "*i64", "last_rows": "*i64",
    "token_ids": "*i64", "segment_ids": "*i64", "positions": "*i64",
    "log_sums": "*fp32", "inner": "*fp32", "sums": "*fp32", "means": "*fp32", "scales": "*fp32",
    "weight": "*fp32", "bias": "*fp32", "grad_totals": "*fp32",
    "targets": "*i64", "losses": "*fp32", "highests": "*fp32", "at_targets": "*fp32",
    "is_right": "*i32",
    "num_rows": "i32", "stride": "i32", "first": "i32", "second": "i32", "third": "i32",
    "site": "i32", "num_tokens": "i32", "num_segments": "i32", "num_places": "i32",
    "scale": "fp32", "gain": "fp32", "epsilon": "fp32",
}  # fmt: skip
"""Of the kernels' arguments; all others point to numbers in bf16."""
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?);")
_TARGET = re.compile(r"\bBRA\b.*?(0x[0-9a-f]+)")
_PREDICATE = re.compile(r"^@!?U?P\w+ ")


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One, and how it is launched."""

    name: str
    """Its module's and its own."""
    constants: Mapping[str, int | str | None]
    options: Mapping[str, int]
    types: Mapping[str, str] = field(default_factory=dict)
    """Where they are not those of `TYPES`."""
    programs: int = 0
    """Of one sequence and head; 0: it knows none."""
    turns: int = 1
    """Of the loop, in each program."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """What became of one."""

    outside: int
    """Instructions that do not stand in the longest loop."""
    loop: Counter[str]
    """By name, those of the longest."""
    registers: int
    spilled_bytes: int


def main() -> None:
    """Prints every kernel's figures."""
    options = _options()
    if importlib.util.find_spec("triton") is None:
        sys.exit("Triton is not installed: `pip install triton` brings it")
    for kernel in kernels(options.length):
        print("\n".join(lines(kernel, made(kernel, options.capability), options.most)), flush=True)


def kernels(length: int) -> Iterator[Kernel]:
    """As a layer of BASE launches them for sequences of so many tokens."""
    rules = AttentionRules(
        num_heads=BASE.num_attention_heads, direction="bidirectional", probability=PROBABILITY
    )
    head_size = BASE.hidden_size // BASE.num_attention_heads
    tiled = flash_attention.kernel_constants(torch.bfloat16, head_size, rules, PROBABILITY)
    count = length // int(tiled["TILE"])
    for name in ("forward", "backward_of_queries", "backward_of_keys"):
        yield Kernel(
            name=f"flash_kernels.attention_{name}",
            constants=tiled,
            options=flash_attention.LAUNCH_OPTIONS,
            programs=count,
            turns=count,
        )
    for name, tile in (
        ("forward", flash_attention.SHORT_TILE),
        ("backward", flash_attention.SHORT_TILE_BACK),
    ):
        short = flash_attention.short_constants(torch.bfloat16, tiled, length, tile)
        assert short is not None
        yield Kernel(
            name=f"flash_short_kernels.attention_{name}",
            constants=short,
            options=flash_attention.SHORT_OPTIONS,
            programs=1,
            turns=length // tile,
        )
    for name, tiles in (
        ("gelu", gpu_layer.GELU_TILE),
        ("gelu_backward", gpu_layer.GELU_BACKWARD_TILE),
    ):
        yield Kernel(
            name=f"gelu_kernels.{name}",
            constants={"WIDTH": BASE.intermediate_size, **tiles},
            options=gpu_layer.OPTIONS,
            types={"inner": "*bf16"},
        )
    yield from _of_norms()
    yield from _of_loss()


def _of_norms() -> Iterator[Kernel]:
    norm = gpu_norm.constants(BASE.hidden_size, PROBABILITY)
    back = gpu_norm.backward_options(BASE.hidden_size)
    for name, rows, launched in (
        ("add_and_norm", gpu_norm.TILE, gpu_norm.OPTIONS),
        ("add_and_norm_backward", gpu_norm.BACKWARD_TILE, back),
    ):
        yield Kernel(name=f"norm_kernels.{name}", constants={**norm, **rows}, options=launched)


def _of_loss() -> Iterator[Kernel]:
    """Over BASE's vocabulary, in a multiple of 64 words, as it is multiplied by."""
    num_words = -(-BASE.vocab_size // 64) * 64
    for name, tile in (
        ("losses", gpu_vocabulary_loss.loss_constants(num_words, torch.bfloat16)),
        ("gradient", {"WORDS": num_words, **gpu_vocabulary_loss.TILE}),
    ):
        yield Kernel(
            name=f"vocabulary_kernels.vocabulary_{name}",
            constants=tile,
            options=gpu_vocabulary_loss.OPTIONS,
            types={"bias": "*bf16"},
        )


def built(
    function: Any,  # Triton names no type for one
    capability: int,
    types: Mapping[str, str],
    constants: Mapping[str, int | str | None],
    options: Mapping[str, int],
) -> Any:
    """A kernel for such a GPU: by the types of its arguments, all pointers being aligned."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    types = {**dict.fromkeys(function.arg_names, "*bf16"), **types}
    constants = {each: constants[each] for each in function.arg_names if each in constants}
    signature = {
        each: "constexpr" if each in constants else types[each] for each in function.arg_names
    }
    aligned = {
        (number,): [["tt.divisibility", 16]]
        for number, argument in enumerate(function.arg_names)
        if signature[argument].startswith("*")
    }
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=aligned)
    return compile(source, target=GPUTarget("cuda", capability, 32), options=dict(options))


def made(kernel: Kernel, capability: int) -> Made:
    """Builds one and looks at its machine code."""
    module, _, name = kernel.name.partition(".")
    function = getattr(importlib.import_module(f"bertsmith.model.{module}"), name)
    types = {**TYPES, **kernel.types}
    made_of = built(function, capability, types, kernel.constants, kernel.options).asm
    with tempfile.NamedTemporaryFile(suffix=".cubin") as code:
        Path(code.name).write_bytes(made_of["cubin"])
        outside, loop = split(_run("cuobjdump", "-sass", code.name).splitlines())
    registers, spilled = registers_and_spilled_bytes(made_of["ptx"], capability)
    return Made(outside=outside, loop=loop, registers=registers, spilled_bytes=spilled)


def registers_and_spilled_bytes(ptx: str, capability: int) -> tuple[int, int]:
    """What the assembler says of a kernel: each thread's."""
    architecture = f"sm_{capability}a" if capability >= 90 else f"sm_{capability}"
    with tempfile.NamedTemporaryFile(suffix=".ptx") as file:
        Path(file.name).write_text(ptx)
        told = _run("ptxas", "-v", f"--gpu-name={architecture}", file.name, "-o", "/dev/null")
    patterns = (r"Used (\d+) registers", r"(\d+) bytes spill stores")
    registers, spilled = (int(re.findall(pattern, told)[-1]) for pattern in patterns)
    return registers, spilled


def split(listing: Sequence[str]) -> tuple[int, Counter[str]]:
    """A disassembler's lines -> instructions outside of the longest loop, and those in it."""
    found = [match for line in listing if (match := _INSTRUCTION.match(line))]
    places = {int(match[1], 16): number for number, match in enumerate(found)}
    loops = []
    for number, match in enumerate(found):
        target = _TARGET.search(match[2])
        if target and places.get(int(target[1], 16), number) < number:  # itself: the code's end
            loops.append((places[int(target[1], 16)], number + 1))
    first, last = max(loops, key=lambda each: each[1] - each[0], default=(0, 0))
    names = [_PREDICATE.sub("", match[2]).split()[0].split(".")[0] for match in found]
    return len(names) - (last - first), Counter(names[first:last])


def lines(kernel: Kernel, figures: Made, most: int) -> Iterator[str]:
    """A kernel's, as text."""
    body = figures.loop.total()
    yield (
        f"{kernel.name}: {figures.outside} instructions and {body} in its loop, "
        f"{figures.registers} registers, {figures.spilled_bytes} bytes spilled"
    )
    if kernel.programs:
        issued = kernel.options["num_warps"] * (figures.outside + kernel.turns * body)
        yield f"  of one sequence and one head: {kernel.programs * issued:,} of all warps"
    if body:
        common = figures.loop.most_common(most)
        yield "  " + ", ".join(f"{name} {count}" for name, count in common)


def _run(tool: str, *words: str) -> str:
    """What a tool of Triton's prints, errors among it. Raises RuntimeError where it fails."""
    from triton.backends import nvidia

    path = Path(next(iter(nvidia.__path__)), "bin", tool)
    ran = subprocess.run([path, *words], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{tool}: {ran.stderr.strip()}")
    return ran.stdout + ran.stderr


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--capability", type=int, default=90, choices=[80, 86, 89, 90])
    parser.add_argument("--length", type=int, default=128, choices=flash_attention.SHORT_KEYS)
    parser.add_argument("--most", type=int, default=12, help="names of instructions shown")
    return parser.parse_args()


if __name__ == "__main__":
    main()
