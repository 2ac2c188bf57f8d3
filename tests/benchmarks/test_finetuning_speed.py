import itertools
import json
from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import machine
from benchmarks.finetuning import drawn, speed
from benchmarks.finetuning.speed_systems import BATCH, LONGEST_WINDOW, SYSTEMS, lengths_of
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.bert import Bert
from bertsmith.model.config import sized
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.task_model import TaskModel
from bertsmith.tasks.task import SpanAnswering

CONFIG = sized(2, 32, 2)
CPU = torch.device("cpu")


def test_drawn_items_have_the_lengths_of_texts_and_both_labels():
    labelled = drawn.drawn_items(500, 1000)
    lengths = lengths_of(labelled)
    assert np.mean(lengths) == pytest.approx(40, abs=3)
    assert max(item.token_ids.max() for item in labelled.items) < 1000
    assert 0.4 < np.mean(np.concatenate(labelled.targets)) < 0.6
    batch = labelled.batch(np.arange(BATCH))
    assert batch.packed.lengths.tolist() == lengths[:BATCH].tolist()


@pytest.mark.parity
@pytest.mark.parametrize("name", [name for name in SYSTEMS if "compiled" not in name])
def test_every_system_takes_steps_from_the_same_weights(name):
    model = TaskModel(Bert(CONFIG), TaskHead(CONFIG, drawn.HEAD))
    initialise(model, std=0.02, seed=0)
    items = drawn.drawn_items(3 * BATCH, 1000)
    taken = list(itertools.islice(SYSTEMS[name](model, items, CPU, 2), 4))
    # Two labels, weights near zero: the loss begins near log 2, whatever head the system draws.
    assert [float(step.loss) for step in taken] == pytest.approx([np.log(2)] * 4, abs=0.2)
    tokens = [step.tokens for step in taken]
    assert tokens[:2] == tokens[2:]  # the same batches again
    assert min(tokens) >= BATCH * 6
    assert sum(tokens[:2]) < items.num_tokens


@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("bertsmith", 16),
        ("transformers, best", 16),
        ("transformers, scripts' default", LONGEST_WINDOW),  # it scores padding too
    ],
)
def test_every_system_looks_for_an_answers_first_and_last_token(name, seen):
    model = TaskModel(Bert(CONFIG), TaskHead(CONFIG, SpanAnswering().head))
    model.bert.pooler = None
    initialise(model, std=0.02, seed=0)
    items = drawn.drawn_items(2 * BATCH, 1000).items
    labelled = LabelledItems(
        items=[replace(each, token_ids=np.resize(each.token_ids, 16),
                       segment_ids=np.zeros(16, np.int32)) for each in items],
        groups=np.arange(len(items)), rows=None,
        targets=[np.array([3, number % 8 + 4]) for number in range(len(items))],
    )  # fmt: skip
    taken = list(itertools.islice(SYSTEMS[name](model, labelled, CPU, 2), 2))
    assert [float(step.loss) for step in taken] == pytest.approx([np.log(seen)] * 2, abs=0.2)
    assert [step.tokens for step in taken] == [BATCH * 16] * 2  # padding is none of them


def test_what_is_measured_by_default_are_systems():
    assert all(set(names) <= set(SYSTEMS) for names in speed.BY_DEVICE.values())


def test_a_run_on_drawn_items_appends_a_row(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(machine, "RESULTS", tmp_path)
    monkeypatch.setenv("BERTSMITH_FUSION", "0")
    options = ["--task", "drawn", "--size", "tiny", "--rounds", "1", "--steps", "1"]
    monkeypatch.setattr("sys.argv", ["speed", *options, "--system", "bertsmith"])
    speed.main()
    row = json.loads((tmp_path / "finetuning_speed.jsonl").read_text(encoding="utf-8"))
    assert (row["task"], row["device"], row["left_out"]) == ("drawn", "cpu", {})
    assert row["mean_tokens"] == pytest.approx(40, abs=2)
    assert row["examples_per_second"]["bertsmith"] > 0
    assert "examples/s" in capsys.readouterr().out


def test_tasks_need_their_data(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["speed", "--task", "RTE"])
    with pytest.raises(SystemExit) as stop:
        speed.main()
    assert stop.value.code == 2
    assert "--data" in capsys.readouterr().err


def test_examples_are_those_of_the_mean_length_and_batches_count_the_second_time(monkeypatch):
    taken = ((90.0, 1), (80.0, 1), (1.0, 400), (2.0, 1200))
    turns = [speed.Turn(seconds=each, tokens=tokens, losses=[1.0]) for each, tokens in taken]
    asked = []

    def take_turns(workers, orders, **given):
        given["before_each"]()
        asked.extend(orders)
        return dict.fromkeys(workers, turns), {}

    monkeypatch.setattr(speed, "take_turns", take_turns)
    monkeypatch.setattr(speed.Worker, "begin", lambda *given: None)
    monkeypatch.setattr(speed, "lengths_of", lambda labelled: np.array([10, 30]))
    monkeypatch.setattr(speed, "matrix_rate", lambda *given, **how: 1.0)
    options = Namespace(
        device="cpu", data=None, system=["bertsmith"], rounds=2, steps=3, limit=None
    )
    row = speed.measure("tiny", drawn.NAME, options)
    assert asked == [3] * 4
    assert row["examples_per_second"] == {"bertsmith": 25.0}
