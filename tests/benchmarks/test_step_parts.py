import json
from dataclasses import replace
from unittest import mock

import pytest
import torch

from benchmarks import machine, step_parts
from benchmarks.batches import Shape
from benchmarks.finetuning.speed_systems import BATCH
from benchmarks.parts import ORDER, Part
from benchmarks.processes import apart
from benchmarks.step_parts import MAKERS, Profiled, Trial, profiled, row_of, table
from bertsmith import native
from bertsmith.compiler import without_native
from bertsmith.fusion import unfused
from bertsmith.model import cpu_attention, cpu_training_layer
from bertsmith.model.config import TINY, sized
from bertsmith.native import has_fast_products, library
from bertsmith.train.device import choose_precision
from tests.benchmarks.small import small_corpus

SHAPE = Shape(num_sequences=2, length=16)


def test_the_table_adds_up_and_sets_the_floor_beside_it():
    parts = {name: Part() for name in ORDER}
    parts["linear layers, forward"] = Part(seconds=0.030, flops=2e9)
    parts["other"] = Part(seconds=0.010)
    found = Profiled(
        parts=parts, tokens=32, seconds=0.032, most_faults=0, matrix_flops_per_second=1e11
    )
    row = row_of("tiny", Trial(kind="pre-training", config=TINY, shape=SHAPE, rounds=3), found)
    assert row["profiled_seconds"] == pytest.approx(0.040)
    assert row["floor_seconds"] == pytest.approx(0.020)
    lines = table(json.loads(json.dumps(row))).splitlines()
    assert "| linear layers, forward | 30.0 | 75.0% | 2.00 | 20.0 |" in lines
    assert "| other | 10.0 | 25.0% |  |  |" in lines
    assert len(lines) == 2 + 2 + 3 + 2  # none of parts that the step has not
    assert "| **all** | 40.0 | 100.0% | 2.00 | 20.0 |" in lines
    assert "Without the profiler 32.0 ms" in lines[-1]
    assert "62% of that" in lines[-1]


def test_a_run_appends_a_row_whose_parts_are_the_step(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(machine, "RESULTS", tmp_path)
    monkeypatch.setenv("BERTSMITH_FUSION", "0")
    options = ["--size", "tiny", "--rounds", "1", "--length", "16", "--batch", "2"]
    options += ["--kind", "pre-training", "--corpus", str(small_corpus(tmp_path / "words"))]
    monkeypatch.setattr("sys.argv", ["step_parts", *options])
    step_parts.main()
    row = json.loads((tmp_path / "step_parts.jsonl").read_text(encoding="utf-8"))
    assert (row["kind"], row["corpus"]) == ("pre-training", "words")
    assert sum(part["seconds"] for part in row["parts"].values()) == row["profiled_seconds"]
    assert row["parts"]["data: drawing"]["seconds"] > 0
    assert "| part | milliseconds |" in capsys.readouterr().out


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "plain"])
@pytest.mark.parametrize("kind", MAKERS)
def test_every_part_of_a_model_takes_time_and_as_much_work_goes_back_as_forth(
    kind, is_native, monkeypatch
):
    monkeypatch.setattr(step_parts, "WARM_UP", 1)
    monkeypatch.setattr(step_parts, "OPENED", {})  # later tests want functions without a clock
    config = replace(sized(2, 32, 2), vocab_size=1200, max_position_embeddings=128)
    with without_native(not is_native):
        parts = profiled(Trial(kind=kind, config=config, shape=SHAPE, rounds=1)).parts
    linear = [parts[f"linear layers, {of}"].flops for of in ("forward", "input gradients")]
    assert linear[0] == linear[1] > 0
    attention = [parts[f"attention, {of}"].flops for of in ("forward", "backward")]
    # What functions in C++ multiply, nobody counts.
    assert (is_native and library(cpu_attention.SOURCE) is not None) == (attention == [0, 0])
    assert attention[1] == 2 * attention[0]
    for name in ("attention, backward", "norm, residual, dropout, backward", "GELU, backward",
                 "embeddings, backward", "head and loss, forward", "optimizer: update",
                 "data: laid out as tensors"):  # fmt: skip
        assert parts[name].seconds > 0


def _plainly_profiled(trial):
    """In a process of its own, into which no functions were loaded that have no clock."""
    with mock.patch.object(step_parts, "WARM_UP", 1), unfused():
        return profiled(trial)


def _are_layers_one_call():
    """In the type in which models learn here."""
    precision = choose_precision("auto", torch.device("cpu"))
    if precision == "fp32":
        return native.has_long_vectors() and library(cpu_training_layer.FLOAT32_SOURCE) is not None
    half = torch.zeros(1, dtype=torch.bfloat16)
    return precision == "bf16" and has_fast_products(
        cpu_training_layer.SOURCE, half, of_bfloat16=True
    )


@pytest.mark.parametrize("kind", MAKERS)
def test_layers_in_one_call_and_the_loss_tell_their_stages_and_products(kind):
    if not _are_layers_one_call():
        pytest.skip("layers are no single call here")
    width, inner, words = 64, 256, 1200
    config = replace(sized(2, width, 1), vocab_size=words, max_position_embeddings=128)
    found = apart(_plainly_profiled, Trial(kind=kind, config=config, shape=SHAPE, rounds=1))
    parts, tokens = found.parts, found.tokens
    stages = {
        name.removeprefix("layers: "): part
        for name, part in parts.items()
        if name.startswith("layers: ")
    }
    assert all(part.seconds > 0 for part in stages.values())
    for side in ("forward", "backward"):  # the calls themselves took longer than their stages
        assert parts[f"layers, {side}"].seconds > 0
    made = {name: part.flops / (2 * width) for name, part in stages.items() if part.flops}
    attention = [made.pop(f"attention, {side}") for side in ("forward", "backward")]
    rows = made["projection, forward"] / width  # all of the first layer, some of the last
    with_keys = 2 * tokens
    if kind == "pre-training":
        assert tokens < rows < 2 * tokens
        assert attention == [2 * 16 * rows, 5 * 16 * rows]
    else:  # of the last layer pooled tokens alone, which have neither keys nor values
        assert rows == tokens + BATCH
        with_keys = tokens
    of_maps = {
        "queries, keys and values": (rows + 2 * with_keys) * width,
        "projection": rows * width,
    }
    deep = rows * inner
    of_weights = sum(of_maps.values()) + 2 * deep
    if kind == "fine-tuning":  # those to keys and values too, of lone queries' own factors
        of_weights = rows * (4 * width + 2 * inner)
    assert made == {
        **{f"{name}, forward": number for name, number in of_maps.items()},
        **{f"{name}, backward": number for name, number in of_maps.items()},
        "up, GELU, forward": deep,
        "down, forward": deep,
        "down, slope of GELU, backward": deep,
        "up, backward": deep,
        "gradients of weights: products, backward": of_weights,
    }
    if kind == "pre-training":
        of_loss = (
            "scores and e^x, forward",
            "gradients of scores and words, backward",
            "gradients of rows, backward",
        )
        predicted = 2 * 2  # of each of two sequences 15% of 16 tokens
        for name in of_loss:
            part = parts[f"head and loss: {name}"]
            assert part.seconds > 0
            assert part.flops == 2 * predicted * width * words
