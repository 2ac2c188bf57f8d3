import json

import pytest
import torch

from benchmarks import machine, pretraining
from benchmarks.pretraining import BUDGETS, GPU_SYSTEMS, fitting
from benchmarks.systems import SYSTEMS
from tests.benchmarks.small import small_corpus


def test_variants_of_large_models_and_what_a_gpu_does_not_need_stay_out():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert fitting("mini", cpu) == list(SYSTEMS)
    assert "bertsmith without a compiler" not in fitting("base", cpu)
    assert fitting("mini", cuda) == list(GPU_SYSTEMS)
    assert set(GPU_SYSTEMS) < set(SYSTEMS)


def test_a_cpu_takes_32_sequences_of_128():
    assert BUDGETS["cpu"].step_tokens == BUDGETS["cpu"].large_step_tokens == 32 * 128


def test_a_run_appends_a_row_that_says_how_it_was_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(machine, "RESULTS", tmp_path)
    monkeypatch.setenv("BERTSMITH_FUSION", "0")  # no kernels are built
    corpus = small_corpus(tmp_path / "words")
    options = ["--size", "tiny", "--rounds", "1", "--batch", "32", "--length", "16"]
    options += ["--system", "bertsmith", "--system", "bertsmith without a compiler"]
    monkeypatch.setattr("sys.argv", ["pretraining", *options, "--corpus", str(corpus)])
    pretraining.main()
    row = json.loads((tmp_path / "pretraining.jsonl").read_text(encoding="utf-8"))
    assert (row["size"], row["batch"], row["length"], row["steps_a_turn"]) == ("tiny", 32, 16, 1)
    assert (row["device"], row["instructions"], row["corpus"]) == ("cpu", None, "words")
    assert set(row["tokens_per_second"]) == {"bertsmith", "bertsmith without a compiler"}
    assert 5 < row["mean_tokens"] < 16
    assert set(row["versions"]) <= {"transformers"}
    assert row["left_out"] == {}
    assert "without a compiler" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "cuda"], "is not here"),
        (["--device", "cuda", "--isa", "AVX2"], "--isa is of CPUs"),
    ],
)
def test_what_cannot_be_measured_is_one_line_and_status_two(options, message, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("sys.argv", ["pretraining", *options])
    with pytest.raises(SystemExit) as stop:
        pretraining.main()
    assert stop.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
