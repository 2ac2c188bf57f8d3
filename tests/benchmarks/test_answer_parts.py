import json
from dataclasses import replace

import pytest
import torch

from benchmarks import answer_parts, machine
from benchmarks.answer_parts import Clocked, Trial, clocked, row_of, source_of, table
from benchmarks.inference.report import flops
from benchmarks.machine import CPU
from benchmarks.processes import apart
from benchmarks.timed import Stage
from bertsmith.answering import rest_of
from bertsmith.compiler import without_native
from bertsmith.model.config import TINY, sized
from bertsmith.model.int8_weights import multiplies_int8
from bertsmith.native import has_fast_products

CONFIG = replace(sized(2, 64, 1), vocab_size=1200, max_position_embeddings=128)
LENGTHS = [5, 30, 100, 1, 64]


def a_trial(**values):
    given = {"config": CONFIG, "precision": "auto", "lengths": LENGTHS, "is_pooled": False}
    return Trial(rounds=1, **{**given, **values})


def test_the_table_adds_up_and_sets_the_rate_beside_it():
    stages = {"up": Stage(0.030, 2e9), "norms": Stage(0.005, 0.0)}
    found = Clocked(stages=stages, seconds=0.040, matrix_flops_per_second=1e11)
    row = row_of("tiny", a_trial(config=TINY), found)
    lines = table(json.loads(json.dumps(row))).splitlines()
    assert lines[4:] == [
        "| up | 30.0 | 75.0% | 2.00 | 20.0 |",
        "| norms | 5.0 | 12.5% |  |  |",
        "| all else | 5.0 | 12.5% |  |  |",
        "| **all** | 40.0 | 100.0% | 2.00 | 20.0 |",
    ]
    assert (row["tokens"], row["longest"], row["sequences"]) == (200, 100, 5)


def test_a_run_appends_a_row(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(machine, "RESULTS", tmp_path)
    options = ["--size", "tiny", "--rounds", "1", "--length", "8", "--pooled"]
    monkeypatch.setattr("sys.argv", ["answer_parts", *options])
    answer_parts.main()
    row = json.loads((tmp_path / "answer_parts.jsonl").read_text(encoding="utf-8"))
    assert (row["tokens"], row["is_pooled"]) == (8 * answer_parts.SEQUENCES, True)
    assert 0 <= sum(stage["seconds"] for stage in row["stages"].values()) < row["seconds"]
    assert "| all else |" in capsys.readouterr().out


def one_call(precision):
    """Skips where layers of that precision are no call here."""
    rest = rest_of(precision, CPU)
    numbers = torch.zeros(1, dtype=torch.bfloat16 if rest == "bf16" else torch.float32)
    of_bytes, of_float16 = precision == "int8", rest == "fp16"
    source = source_of(precision)
    if not has_fast_products(source, numbers, of_bytes=of_bytes, of_float16=of_float16):
        pytest.skip("layers are no single call here")


def looks_up(precision):
    """Whether what ids bring to the first layer is made beforehand."""
    return precision == "int8" or rest_of(precision, CPU) != "fp32"


@pytest.mark.parametrize("precision", ["auto", "int8"])
def test_layers_tell_all_their_products(precision):
    if precision == "int8" and not multiplies_int8():
        pytest.skip("no eight bits here")
    one_call(precision)
    found = apart(clocked, a_trial(precision=precision)).stages
    of_layers = {"queries, keys and values", "attention", "projection", "norms", "up", "down"}
    assert {*found} == of_layers | {"embeddings"}
    assert all(stage.seconds > 0 for stage in found.values())
    first = 6 * sum(LENGTHS) * CONFIG.hidden_size**2 if looks_up(precision) else 0
    assert sum(stage.flops for stage in found.values()) == flops(CONFIG, LENGTHS) - first


def test_a_pooled_layer_makes_products_of_pooled_tokens_alone():
    precision = "bf16" if rest_of("auto", CPU) == "bf16" else "fp32"  # float16 has no lone queries
    one_call(precision)
    found = apart(clocked, a_trial(precision=precision, is_pooled=True)).stages
    rows, count, width = sum(LENGTHS), len(LENGTHS), CONFIG.hidden_size
    made = {name: stage.flops / (2 * width) for name, stage in found.items() if stage.flops}
    assert made == {
        "queries, keys and values": (count if looks_up(precision) else 3 * rows + count) * width,
        # Keys and values turned round each query and its sum, which meet hidden states.
        "attention": 2 * sum(length**2 for length in LENGTHS) + 2 * (rows + count * width),
        "projection": (rows + count) * width,
        "up": (rows + count) * CONFIG.intermediate_size,
        "down": (rows + count) * CONFIG.intermediate_size,
    }


def test_where_layers_are_no_call_nothing_is_told():
    with without_native():
        found = clocked(a_trial())
    assert found.stages == {}
    assert found.seconds > 0
