import importlib.util
import math
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from benchmarks import gpu
from benchmarks.batches import Shape
from benchmarks.finetuning import speed
from benchmarks.gpu import MEASUREMENTS, ends_well
from benchmarks.machine import matrix_rate
from benchmarks.pretraining import GPU_SYSTEMS
from benchmarks.turns import Trial, Turn, stepper
from bertsmith.model.config import sized
from tests.processes import is_running, wait_until

LACKING = ("rich", "tyro", "datasets", "zstandard", "google_crc32c")
WITHOUT = f"""
import importlib, sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {LACKING!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Lacking())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def program(name):
    """The module that runs: of a package its `__main__`."""
    found = importlib.util.find_spec(name)
    return f"{name}.__main__" if found.submodule_search_locations else name


def programs():
    return sorted({program(measurement.command[0]) for measurement in MEASUREMENTS.values()})


def test_without_a_gpu_it_ends_with_one_line_and_status_two(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu"])
    assert gpu.main() == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "benchmarks.gpu: torch sees no CUDA GPU here; nothing was measured\n"


def test_all_of_it_takes_less_than_25_minutes():
    assert sum(measurement.seconds for measurement in MEASUREMENTS.values()) <= 25 * 60
    assert all(each.turn_seconds < each.seconds for each in MEASUREMENTS.values())


def test_it_needs_no_package_that_a_gpu_machine_lacks():
    command = [sys.executable, "-c", WITHOUT, "benchmarks.gpu"]
    finished = subprocess.run([*command, *programs()], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("has_peer", [True, False])
@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_program_understands_its_options(name, has_peer, monkeypatch):
    module, *arguments = MEASUREMENTS[name].arguments(has_peer=has_peer)
    found = importlib.import_module(program(module))
    monkeypatch.setattr("benchmarks.machine.choose_device", lambda name: None)
    monkeypatch.setattr("sys.argv", [module, *arguments])
    options = found._options()
    assert options.device == "cuda"
    named = options.system or []
    assert len(set(named)) == len(named)
    assert has_peer or named == ["bertsmith"]


def test_without_its_peer_ours_is_measured_alone_and_what_fails_is_named(monkeypatch, capsys):
    commands = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(
        gpu, "ends_well", lambda command, seconds: commands.append(command) or len(commands) > 1
    )
    monkeypatch.setattr("sys.argv", ["gpu", "finetuning", "pretraining-base-128"])
    assert gpu.main() == 1
    assert [command[-2:] for command in commands] == [["--system", "bertsmith"]] * 2
    told = capsys.readouterr()
    assert "ours is measured alone" in told.out
    assert told.err == "failed, or met its limit: finetuning\n"


def test_a_program_that_meets_its_limit_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    pid, whole = tmp_path / "pid", subprocess.Popen.wait
    child = (
        f"import os, pathlib, time; path = pathlib.Path({str(pid)!r});"
        f"path.write_text(str(os.getpid())); time.sleep(600)"
    )

    def until_all_have_begun(process, seconds=None):
        if seconds is None:
            return whole(process)
        wait_until(lambda: pid.exists() and pid.read_text())
        raise subprocess.TimeoutExpired(process.args, seconds)

    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    began = time.perf_counter()
    with monkeypatch.context() as patches:
        patches.setattr(subprocess.Popen, "wait", until_all_have_begun)
        assert not ends_well([sys.executable, "-c", script], 60)
    wait_until(lambda: not is_running(int(pid.read_text())))
    assert not ends_well([sys.executable, "-c", "import time; time.sleep(600)"], 0.1)
    assert time.perf_counter() - began < 300
    assert ends_well([sys.executable, "-c", "pass"], 60)
    assert not ends_well([sys.executable, "-c", "raise SystemExit(1)"], 60)


def test_a_name_that_is_none_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu", "pretraining"])
    with pytest.raises(SystemExit) as stop:
        gpu.main()
    assert stop.value.code == 2
    assert "unknown: pretraining" in capsys.readouterr().err


on_a_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]


class TestOnAGpu:
    pytestmark = on_a_gpu

    def test_its_matrix_rate_is_measured(self):
        assert matrix_rate("bf16", rounds=3, device=torch.device("cuda")) > 1e12

    @pytest.mark.parametrize("system", GPU_SYSTEMS)
    def test_systems_take_turns_of_pretraining(self, system):
        if system != "bertsmith":
            pytest.importorskip("transformers")
        config = replace(sized(2, 128), vocab_size=2000)
        trial = Trial(
            system=system,
            config=config,
            shape=Shape(num_sequences=8, length=64),
            device=torch.device("cuda"),
        )
        take = stepper(trial)
        turns = [take(Turn(first=10 * number, count=10)) for number in range(3)]
        assert all(math.isfinite(turn.loss) for turn in turns)
        assert turns[-1].peak_bytes > 1e6
        assert set(turns[-1].lengths) == {64}

    @pytest.mark.parametrize("system", speed.BY_DEVICE["cuda"])
    def test_systems_take_steps_of_fine_tuning(self, system):
        if system != "bertsmith":
            pytest.importorskip("transformers")
        trial = speed.Trial(
            system=system,
            size="tiny",
            task="drawn",
            data=None,
            device=torch.device("cuda"),
            num_batches=3,
        )
        assert all(map(math.isfinite, speed.stepper(trial)(3).losses))
