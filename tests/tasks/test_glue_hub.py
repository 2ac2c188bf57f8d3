"""GLUE in the Hub's layout is spelt as the benchmark's own files are."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertsmith.tasks import glue_hub
from bertsmith.tasks.glue import TASKS, task_named
from tests.commands.small_task import bertsmith, write_model

ENTAILMENT = ("entailment", "not_entailment")
THREE_WAY = ("entailment", "neutral", "contradiction")
ROW = {"sentence1": "he likes my dog", "sentence2": "he likes paris", "label": 1}


def hub_at(folder: Path, names: Sequence[str] = ENTAILMENT) -> Path:
    """RTE as the Hub's data set has it: a folder of Parquet, and a card that lists its splits."""
    label = {"names": list(names), "_type": "ClassLabel"}
    string = {"dtype": "string", "_type": "Value"}
    features = {"sentence1": string, "sentence2": string, "label": label}
    (folder / "rte").mkdir(parents=True)
    card = ["---", "configs:", "- config_name: rte", "  data_files:"]
    for split, count in (("train", 12), ("validation", 6)):
        rows = [{**ROW, "label": number % 2} for number in range(count)]
        table = pa.Table.from_pylist(rows)
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        pq.write_table(
            table.replace_schema_metadata(metadata), folder / "rte" / f"{split}-00000.parquet"
        )
        card += [f"  - split: {split}", f"    path: rte/{split}-*"]
    (folder / "README.md").write_text("\n".join([*card, "---", ""]))
    return folder


@pytest.mark.parametrize(
    ("task", "names", "number", "label"),
    [
        ("RTE", ENTAILMENT, 1, "not_entailment"),
        ("WNLI", ("not_entailment", "entailment"), 1, "1"),
        ("CoLA", ("unacceptable", "acceptable"), 0, "0"),
        ("MRPC", None, 1, "1"),
        ("MNLI", THREE_WAY, 2, "contradiction"),
        ("STS-B", None, 3.25, "3.25"),
    ],
)
def test_labels_are_spelt_as_in_the_benchmarks_files(
    task: str, names: Sequence[str] | None, number: float, label: str
) -> None:
    row = {"sentence": "a", "sentence1": "a", "sentence2": "b", "premise": "a", "hypothesis": "b"}
    (found,) = glue_hub.examples_of([{**row, "label": number}], task_named(task), names, "here")
    assert (found.labels, found.place) == ((label,), "here: row 1")
    assert found.texts == (("a",) if task == "CoLA" else ("a", "b"))


def test_every_task_that_learns_stands_there() -> None:
    assert set(glue_hub.TASKS) == {task.name for task in TASKS} - {"AX"}
    for task in TASKS:
        if task.name in glue_hub.TASKS:
            assert len(glue_hub.TASKS[task.name].texts) == len(task.texts)


@pytest.mark.parametrize(
    ("row", "names", "told"),
    [
        ({**ROW, "label": -1}, ENTAILMENT, "here: row 1: label -1 is the mark of none"),
        ({**ROW, "label": 2}, ENTAILMENT, "label 2 is none of the task's, expected 0 to 1"),
        ({**ROW, "sentence1": 7}, ENTAILMENT, "column 'sentence1' must hold text, found int 7"),
        ({"sentence1": "a", "label": 1}, ENTAILMENT, "no column 'sentence2', found 'sentence1'"),
        (ROW, None, "must be named entailment, not_entailment in some order, found nothing"),
        (ROW, ("no", "yes"), "found no, yes"),
    ],
)
def test_rows_of_another_kind_are_refused(
    row: dict[str, object], names: Sequence[str] | None, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        glue_hub.examples_of([row], task_named("RTE"), names, "here")


def test_without_the_library_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    model = write_model(tmp_path / "model")
    for place in (hub_at(tmp_path / "hub"), "nyu-mll/glue"):
        assert bertsmith("finetune", model, "--glue", place, "--task", "RTE") == 2
        assert "pip install 'bertsmith[hub]'" in capsys.readouterr().err


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def blot(file: Path) -> None:
    file.write_bytes(b"PAR1" + bytes(116) + file.read_bytes()[120:])


def count_otherwise(card: Path) -> None:
    """The data set's own card says how many examples each set has."""
    counts = (
        "dataset_info:\n- config_name: rte\n  splits:\n"
        "  - {name: train, num_bytes: 9, num_examples: 99}\n"
        "  - {name: validation, num_bytes: 9, num_examples: 6}\n"
    )
    change(card, "---\nconfigs", f"---\n{counts}configs")


def drop_configs(card: Path) -> None:
    card.write_text("---\ndataset_info:\n- config_name: rte\n---\n# GLUE\n")


TRAIN, CARD = "rte/train-00000.parquet", "README.md"
NOT_WHOLE = "this copy is not whole or not sound; download the data set anew"


@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        (TRAIN, cut, NOT_WHOLE),
        (TRAIN, blot, NOT_WHOLE),
        (TRAIN, Path.unlink, NOT_WHOLE),
        (CARD, count_otherwise, NOT_WHOLE),
        (CARD, Path.unlink, "it has no README.md with a `configs` block, which says what files"),
        (CARD, drop_configs, "its README.md has no `configs` block that names rte, which says"),
        (CARD, lambda card: card.write_text("---\nconfigs: [\n---\n"), "names rte, which says"),
    ],
)
def test_a_damaged_directory_is_one_line(
    name: str, damage: Callable[[Path], object], told: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    hub = hub_at(tmp_path / "hub")
    damage(hub / name)
    with pytest.raises(ValueError, match=re.escape(told)) as error:
        glue_hub.read(str(hub), task_named("RTE"), "train")
    assert str(error.value).startswith(f"{hub}: cannot load rte, train")
    assert "\n" not in str(error.value)
    assert "network" not in str(error.value)


def test_a_directory_in_the_hubs_layout_is_learned_and_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    model, hub = write_model(tmp_path / "model"), hub_at(tmp_path / "hub")
    run = ("--task", "RTE", "--epochs", "1", "--batch-size", "6", "--precision", "fp32")
    out = tmp_path / "run"
    assert bertsmith("finetune", model, "--glue", hub, *run, "--out", out) == 0
    assert "entailment 6 (50.0%), not_entailment 6 (50.0%)" in capsys.readouterr().out
    assert bertsmith("evaluate", out, "--glue", hub, "--task", "RTE") == 0
    assert "dev of RTE, 6 examples" in capsys.readouterr().out
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    assert bertsmith("evaluate", out, "--glue", "no-such/data-set", "--task", "RTE") == 2
    assert "no-such/data-set: cannot load rte, validation" in capsys.readouterr().err
