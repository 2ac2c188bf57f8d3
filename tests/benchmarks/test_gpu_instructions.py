import importlib
import sys

import pytest

from benchmarks import gpu_instructions
from benchmarks.gpu_instructions import Kernel, Made, kernels, lines, made, split

pytest.importorskip("triton")

LISTING = """
        code for sm_90
        /*0000*/                   LDC R1, c[0x0][0x28] ;              /* 0x00000a00ff017b82 */
                                                                       /* 0x000e220000000800 */
        /*0010*/                   S2R R0, SR_CTAID.X ;                /* 0x0000000000007919 */
        /*0020*/                   FADD.FTZ R2, R2, R0 ;               /* 0x0000000002027221 */
        /*0030*/              @!P0 FMUL R2, R2, R2 ;                   /* 0x0000000202028220 */
        /*0040*/               @P1 BRA 0x30 ;                          /* 0x0000000000001947 */
        /*0050*/              @!P0 BRA 0x20 ;                          /* 0x0000000000008947 */
        /*0060*/                   EXIT ;                              /* 0x000000000000794d */
        /*0070*/                   BRA 0x70;                           /* 0xfffffffc00fc7947 */
""".splitlines()


def test_the_longest_loop_is_counted_apart_and_the_codes_end_is_none():
    outside, loop = split(LISTING)
    assert (outside, loop) == (4, {"FADD": 1, "FMUL": 1, "BRA": 2})


def test_code_without_a_loop_stands_outside():
    assert split(LISTING[:5]) == (2, {})


def test_a_kernels_figures_are_those_of_all_its_warps():
    kernel = Kernel(name="a.b", constants={}, options={"num_warps": 4}, programs=2, turns=3)
    told = lines(kernel, Made(outside=4, loop=split(LISTING)[1], registers=9, spilled_bytes=0), 1)
    assert list(told) == [
        "a.b: 4 instructions and 4 in its loop, 9 registers, 0 bytes spilled",
        "  of one sequence and one head: 128 of all warps",
        "  BRA 2",
    ]


def test_a_kernel_is_built_and_looked_at_without_a_gpu():
    short = next(each for each in kernels(128) if each.name.endswith("kernels.attention_backward"))
    assert (short.programs, short.turns) == (1, 4)
    found = made(short, 90)
    assert found.loop["HGMMA"] + found.loop["HMMA"] > 0
    assert found.loop["MUFU"] < found.loop.total() < 2000
    assert 100 < found.registers <= 255
    assert found.spilled_bytes < 400


@pytest.mark.parametrize("kernel", list(kernels(128)), ids=lambda kernel: kernel.name)
def test_every_kernel_is_told_all_that_it_is_built_for(kernel):
    module, _, name = kernel.name.partition(".")
    function = getattr(importlib.import_module(f"bertsmith.model.{module}"), name)
    constants = {each.name for each in function.params if each.is_constexpr}
    assert constants
    assert constants <= kernel.constants.keys()


def test_every_kernel_is_printed(monkeypatch, capsys):
    figures = Made(outside=4, loop=split(LISTING)[1], registers=9, spilled_bytes=0)
    monkeypatch.setattr(gpu_instructions, "made", lambda kernel, capability: figures)
    monkeypatch.setattr(sys, "argv", ["gpu_instructions"])
    gpu_instructions.main()
    told = capsys.readouterr().out
    names = ("forward", "gelu", "add_and_norm_backward", "vocabulary_losses")
    assert [name for name in names if name not in told] == []


def test_a_tool_that_fails_is_told_with_its_words():
    with pytest.raises(RuntimeError, match=r"ptxas: .*no-such"):
        gpu_instructions._run("ptxas", "/no-such-file.ptx")
