"""A machine without memory is told in one line, with the options that take less."""

from __future__ import annotations

import pytest
import torch

from bertsmith import cli
from bertsmith.commands.evaluate import Evaluate
from bertsmith.commands.finetune_options import Finetune
from bertsmith.commands.memory import told
from bertsmith.commands.predict_options import Embed
from bertsmith.commands.pretrain_options import Pretrain

GPU = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79 GiB"


def test_a_tensor_that_no_machine_holds_is_known() -> None:
    with pytest.raises(RuntimeError) as stop:
        torch.empty(10**15)
    assert told(stop.value, Evaluate) == (
        "out of memory (for 4000000000000000 bytes more): what takes less is shorter texts, a "
        "smaller model, or a machine with more"
    )


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (Finetune, ["--accumulation", "--batch-size", "--max-tokens"]),
        (Pretrain, ["--accumulation", "--phases"]),
        (Embed, []),
    ],
)
def test_the_options_are_the_commands_own(kind: type, options: list[str]) -> None:
    line = told(torch.OutOfMemoryError(GPU), kind)
    assert line is not None
    assert line.startswith("out of memory (for 20.00 MiB more): what takes less is ")
    assert [word.strip(",") for word in line.split() if word.startswith("--")] == options
    bare = told(MemoryError(), kind)
    assert bare is not None
    assert bare.startswith("out of memory: ")


def test_other_errors_are_none_of_memory() -> None:
    assert told(RuntimeError("mat1 and mat2 shapes cannot be multiplied"), Evaluate) is None


@pytest.mark.parametrize("is_traced", [False, True])
def test_the_command_line_says_it_in_one_line(
    is_traced: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bertsmith.commands import predict

    def full(options: object) -> None:
        raise torch.OutOfMemoryError(GPU)

    monkeypatch.setenv("BERTSMITH_TRACEBACK", str(int(is_traced)))
    monkeypatch.setattr(predict, "predict", full)
    if is_traced:
        with pytest.raises(MemoryError) as stop:
            cli.main(["predict", "embed", "--model", "m", "a"])
        assert isinstance(stop.value.__cause__, torch.OutOfMemoryError)
        return
    assert cli.main(["predict", "runs/none", "a"]) == cli.EXIT_MISTAKE
    assert capsys.readouterr().err.startswith("bertsmith: out of memory (for 20.00 MiB more): ")
    monkeypatch.setattr(predict, "predict", broken)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        cli.main(["predict", "embed", "--model", "m", "a"])


def broken(options: object) -> None:
    raise RuntimeError("a fault of ours")
