import pytest
import torch
from torch import nn

from bertsmith.model.linear import Linear
from bertsmith.train import device
from bertsmith.train.device import (
    Processes,
    cast_,
    choose_device,
    choose_precision,
    dtype_of,
    has_precision,
    recorded_precision,
    told_precision,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("amx", "avx512_bf16", "cap", "expected"),
    [
        (True, True, None, "bf16"),
        (False, True, None, "bf16"),
        (False, False, None, "fp32"),
        (True, True, "AVX2", "fp32"),
        (True, True, "avx512_core_vnni", "fp32"),
        (True, True, "AVX512_CORE_BF16", "bf16"),
        (True, True, "AVX512_CORE_AMX", "bf16"),
        (False, True, "ALL", "bf16"),
    ],
)
def test_bf16_is_chosen_where_the_cpu_multiplies_it_and_onednn_may(
    amx: bool, avx512_bf16: bool, cap: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = {"amx_bf16": amx, "avx512_bf16": avx512_bf16}
    monkeypatch.setattr(device, "multiplies_float16", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    if cap is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", cap)
    assert choose_precision("auto", CPU) == expected


@pytest.mark.parametrize(
    ("amx", "avx512_fp16", "cpu_name", "cap", "expected"),
    [
        (False, True, "Intel Xeon", None, "fp16"),
        (True, True, "Intel Xeon", None, "bf16"),
        (True, True, "Intel Xeon", "AVX512_CORE_BF16", "fp32"),
        (True, True, "Intel Xeon", "AVX512_CORE_FP16", "fp16"),
        (True, True, "Intel Xeon", "AVX512_CORE_AMX", "bf16"),
        (True, True, "Intel Xeon", "AVX2", "fp32"),
        (False, False, "Intel Xeon", None, "bf16"),
        (False, True, "AMD EPYC", None, "bf16"),
    ],
)
@pytest.mark.parametrize("has_compiler", [True, False])
def test_intels_cores_with_a_hidden_matrix_unit_take_float16_where_it_is_built(
    amx: bool,
    avx512_fp16: bool,
    cpu_name: str,
    cap: str | None,
    expected: str,
    has_compiler: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device, "multiplies_float16", lambda: has_compiler)
    expected = "fp32" if expected == "fp16" and not has_compiler else expected
    has = {"amx_bf16": amx, "avx512_bf16": True, "avx512_fp16": avx512_fp16, "cpu_name": cpu_name}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    if cap is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", cap)
    assert choose_precision("auto", CPU) == expected


@pytest.mark.parametrize(("has_bf16", "expected"), [(True, "bf16"), (False, "fp16")])
def test_gpus_without_bf16_take_fp16(
    has_bf16: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bf16)
    assert choose_precision("auto", torch.device("cuda", 0)) == expected


def test_apples_gpu_takes_fp32() -> None:
    assert choose_precision("auto", torch.device("mps")) == "fp32"


def test_a_named_precision_is_taken_and_fp16_where_nothing_has_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert choose_precision("bf16", CPU) == "bf16"
    for has_it in (True, False):
        monkeypatch.setattr(device, "multiplies_float16", lambda it=has_it: it)
        assert has_precision("fp16", CPU) is has_it
        if has_it:
            assert choose_precision("fp16", CPU) == "fp16"
            continue
        with pytest.raises(ValueError, match=r"fp16 needs an NVIDIA or AMD GPU, or a CPU .* cpu"):
            choose_precision("fp16", CPU)
    with pytest.raises(ValueError, match="found device mps"):
        choose_precision("fp16", torch.device("mps"))


def test_a_run_goes_on_where_its_precision_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    for has_it, expected in ((True, "fp16"), (False, "fp32")):
        monkeypatch.setattr(device, "multiplies_float16", lambda it=has_it: it)
        assert recorded_precision("fp16", CPU) == expected
        assert recorded_precision("bf16", CPU) == "bf16"


def test_people_are_told_what_is_computed_in() -> None:
    assert told_precision("fp32", CPU) == "fp32"
    assert told_precision("bf16", CPU) == "bf16 with fp32 masters"
    assert told_precision("fp16", CPU) == "fp32, products in fp16"
    assert told_precision("fp16", torch.device("cuda")) == "fp16 with fp32 masters"


def test_on_a_cpu_fp16_leaves_numbers_as_they_are_and_tells_how_they_are_multiplied() -> None:
    layer = nn.Sequential(Linear(4, 5), nn.LayerNorm(5))
    cast_(layer, "fp16")
    assert {parameter.dtype for parameter in layer.parameters()} == {torch.float32}
    assert dtype_of("fp16", CPU) == torch.float32
    assert dtype_of("fp16", torch.device("cuda")) == torch.float16
    assert layer[0].in_float16
    cast_(layer, "bf16")
    assert layer[0].weight.dtype == torch.bfloat16
    assert not layer[0].in_float16


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(5, 4)
        self.dense = nn.Linear(4, 5)
        self.norm = nn.ModuleList([nn.Linear(2, 2)])
        self.last = nn.LayerNorm(4)
        self.dense.weight = self.token.weight


def test_casting_keeps_norms_in_float32_and_tied_parameters_tied() -> None:
    layer = Layer()
    cast_(layer, "bf16")
    dtypes = {name: parameter.dtype for name, parameter in layer.named_parameters()}
    assert dtypes == {
        "token.weight": torch.bfloat16,
        "dense.bias": torch.bfloat16,
        "norm.0.weight": torch.float32,
        "norm.0.bias": torch.float32,
        "last.weight": torch.float32,
        "last.bias": torch.float32,
    }
    assert layer.dense.weight is layer.token.weight


def test_unknown_and_absent_devices_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown device 'gpu': expected auto, cpu, cuda or mps"):
        choose_device("gpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device cuda:0 is not here: torch sees 0 GPUs"):
            choose_device("cuda")
    assert choose_device("cpu") == CPU


def test_a_numbered_gpu_is_that_gpu_whichever_process_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    third = Processes(rank=2, world_size=4, local_rank=2)
    assert choose_device("cuda:0", third) == torch.device("cuda:0")
    assert choose_device("cuda", third) == torch.device("cuda:2")


def test_several_processes_do_not_take_one_numbered_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    told = "device cuda:0 is one GPU, and the run has 2 processes: take cuda"
    with pytest.raises(ValueError, match=told), device.joined_processes("cuda:0"):
        pass


def test_the_place_among_processes_is_read_as_torchrun_sets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert device.processes_of_environment() == Processes()
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("RANK", "5")
    with pytest.raises(ValueError, match="WORLD_SIZE is set but LOCAL_RANK is not"):
        device.processes_of_environment()
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert device.processes_of_environment() == Processes(rank=5, world_size=8, local_rank=1)


def test_only_the_first_process_is_first() -> None:
    assert Processes().is_first
    assert not Processes(rank=1, world_size=2).is_first


def test_more_threads_than_cores_are_refused() -> None:
    with pytest.raises(ValueError, match=r"threads must be 1 to .* found 100000"):
        device.set_threads(100_000)
    assert device.set_threads(None) == torch.get_num_threads()
