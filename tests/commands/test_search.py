"""`bertsmith search`: every run is one of finetune, and none is trained twice; what is chosen."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertsmith import cli
from bertsmith.checkpoints.store import load
from bertsmith.commands import search
from bertsmith.commands.search_options import defaults_of, grid_of
from bertsmith.recipes.finetuning import GLUE_GRID, PAPER_GRID
from bertsmith.runs.ancestry import ancestry, examples_of, precision_of
from bertsmith.runs.search_record import RunResult, chosen_run, read_results, write_results
from bertsmith.train.log import MetricsLog, Record
from tests.commands.small_run import killed_at
from tests.commands.small_task import RUN, bertsmith, write_glue, write_model

GRID = ("--grid.learning-rates", "1e-3", "1e-4", "--grid.batch-sizes", "4", "--restarts", "2")
NAMES = [f"batch4-rate{rate}-epochs1-seed{seed}" for rate in ("0.001", "0.0001") for seed in (0, 1)]


def without(*names: str) -> tuple[str, ...]:
    """The options of a run but for these, each of one value."""
    pairs = zip(RUN[::2], RUN[1::2], strict=True)
    return tuple(word for pair in pairs if pair[0] not in names for word in pair)


SHARED = without("--batch-size", "--optimizer.learning-rate", "--epochs")


def searching(folder: Path, out: Path, *options: object) -> tuple[object, ...]:
    """The arguments of a search with `folder`'s model and files."""
    files = ("--glue", folder / "glue", *SHARED, "--epochs", "1")
    return ("search", folder / "model", *files, *(options or GRID), "--out", out)


def trained(folder: Path) -> dict[str, bytes]:
    """The weights of each run, and its rows without their seconds."""
    return {name: (folder / name / "best" / "model.safetensors").read_bytes() for name in NAMES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, GLUE's files and a finished search."""
    folder = tmp_path_factory.mktemp("search")
    write_glue(folder / "glue")
    write_model(folder / "model")
    assert bertsmith(*searching(folder, folder / "search")) == 0
    return folder


def test_a_search_knows_what_its_model_learned_from(folder: Path) -> None:
    (learned,) = examples_of(folder / "search" / "best")
    assert learned == {"glue": str(folder.resolve() / "glue"), "task": "SST-2"}


def test_every_run_is_one_of_finetune_to_the_byte(folder: Path, tmp_path: Path) -> None:
    run = ("--optimizer.learning-rate", "1e-4", "--batch-size", "4", "--epochs", "1", "--seed", "1")
    files = ("finetune", folder / "model", "--glue", folder / "glue", *SHARED)
    assert bertsmith(*files, *run, "--out", tmp_path / "run") == 0
    ours, alone = folder / "search" / NAMES[-1], tmp_path / "run"
    for place in ("best/model.safetensors", "best/task.json", "scores.json"):
        assert (ours / place).read_bytes() == (alone / place).read_bytes()
    records = [json.loads((each / "run.json").read_text()) for each in (ours, alone)]
    for record in records:
        record.pop("command")
    assert records[0] == records[1]


def test_the_best_on_dev_is_chosen_and_stands_for_the_search(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads((folder / "search" / "results.json").read_text())
    scores = {each["name"]: each["scores"]["accuracy"] for each in found["runs"]}
    assert list(scores) == NAMES
    best = max(NAMES, key=lambda name: scores[name])
    chosen, own = load(folder / "search"), load(folder / "search" / best)
    assert chosen.directory == folder / "search" / "best"
    assert chosen.head is not None
    assert own.head is not None
    assert torch.equal(chosen.head.scores.weight, own.head.scores.weight)
    assert not list((folder / "search" / "best").glob("trainer*"))
    asked = ("evaluate", folder / "search", "--glue", folder / "glue", "--task", "SST-2")
    assert bertsmith(*asked) == 0
    assert f"accuracy  {scores[best]:.4g}" in capsys.readouterr().out


def test_an_ended_search_is_only_told_again_with_its_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search, "carry_out", None)
    assert bertsmith("search", "--resume", folder / "search") == 0
    told = capsys.readouterr().out
    assert bertsmith(*searching(folder, folder / "search")) == 0
    assert capsys.readouterr().out == told
    for line in (
        "2 points of 2 seeds: 4 runs, 40 steps in all; 4 have ended",
        "batch 4; rate 0.001, 0.0001; epochs 1",
        "batch 4, rate 0.001, 1 epochs: 2 runs, ",
        "accuracy, all: mean ",
        "best on Dev: batch4-rate",
        "the highest of ",
    ):
        assert line in told
    assert [line.split()[0] for line in told.splitlines() if line.startswith("batch4-")] == NAMES
    readme = (folder / "search" / "README.md").read_text()
    table = told[told.index("run  ") : told.index("best on Dev")]
    assert table in readme


@pytest.mark.parametrize("step", [7, 10])
def test_a_killed_search_goes_on_and_ends_as_one_that_was_not(
    folder: Path, tmp_path: Path, step: int
) -> None:
    """The first run dies at its step 7; or when its last step is written, before it is saved."""
    out = tmp_path / "search"
    killed_at(step, *searching(folder, out))
    assert not (out / "results.json").exists()
    assert bertsmith("search", "--resume", out) == 0
    assert trained(out) == trained(folder / "search")
    (ours, whole) = (
        json.loads((each / "results.json").read_text()) for each in (out, folder / "search")
    )
    for result in (*ours["runs"], *whole["runs"]):
        result.pop("seconds")
    assert ours == whole


def test_what_ends_while_a_search_is_planned_is_not_made_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, hold = tmp_path / "search", search.claimed

    def after_another(directory: Path) -> contextlib.AbstractContextManager[None]:
        shutil.copytree(folder / "search", directory)
        return hold(directory)

    monkeypatch.setattr(search, "claimed", after_another)
    monkeypatch.setattr(search, "carry_out", None)
    assert bertsmith(*searching(folder, out)) == 0
    assert [
        each["name"] for each in json.loads((out / "results.json").read_text())["runs"]
    ] == NAMES
    assert trained(out) == trained(folder / "search")


def test_results_of_something_else_are_told(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"mine": 1}')
    with pytest.raises(ValueError, match=r"results.json was not written by this version"):
        read_results(tmp_path)


def test_ctrl_c_says_how_the_search_goes_on(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write = MetricsLog.write
    rows: list[Record] = []

    def interrupted(log: MetricsLog, row: Record) -> None:
        write(log, row)
        rows.append(row)
        if sum("loss" in each for each in rows) == 13:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patches:
        patches.setattr(MetricsLog, "write", interrupted)
        assert bertsmith(*searching(folder, tmp_path / "search")) == cli.EXIT_INTERRUPTED
    *_, go_on = capsys.readouterr().out.splitlines()
    assert go_on == shlex.join(["bertsmith", "search", "--resume", str(tmp_path / "search")])
    assert "1 of 4 runs have ended" in (tmp_path / "search" / "README.md").read_text()
    assert bertsmith(*shlex.split(go_on)[1:]) == 0
    told = capsys.readouterr().out
    assert f"run 1 of 4: {NAMES[0]}" not in told
    assert f"run 2 of 4: {NAMES[1]}\ngoing on after step 3 of 10" in told
    assert trained(tmp_path / "search") == trained(folder / "search")


def test_a_search_that_stops_again_has_the_model_that_it_calls_the_best(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever tells of it: the README, what the model came out of and was computed in."""
    out, result_of = tmp_path / "search", search.result_of
    shutil.copytree(folder / "search", out)
    for made in ("results.json", "README.md"):
        (out / made).unlink()
    shutil.rmtree(out / "best")
    scores = iter([0.6, 0.4, 0.9])

    def scored(*arguments: Any) -> RunResult:
        score = next(scores, None)
        if score is None:
            raise KeyboardInterrupt
        return replace(result_of(*arguments), scores={"accuracy": score}, failure="")

    def require_told(name: str) -> None:
        model = "best/model.safetensors"
        assert (out / model).read_bytes() == (out / name / model).read_bytes()
        assert f"`best/` holds the model of `{name}`" in (out / "README.md").read_text()
        assert ancestry(out / "best")[0].startswith(f"search: the best on Dev, {name}, of ")

    monkeypatch.setattr(search, "result_of", scored)
    write_readme, seen = search.write_readme, []

    def written(*arguments: Any) -> None:
        write_readme(*arguments)
        seen.append(chosen_run(out))
        require_told(str(seen[-1]))

    monkeypatch.setattr(search, "write_readme", written)
    assert bertsmith("search", "--resume", out) == cli.EXIT_INTERRUPTED
    assert seen == [NAMES[0], NAMES[0], NAMES[2]]
    path = out / NAMES[2] / "run.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "run": {**record["run"], "precision": "bf16"}}))
    # As if it had died when a better run was noted down, and not yet copied.
    results = read_results(out)
    results.runs[NAMES[1]] = replace(results.runs[NAMES[1]], scores={"accuracy": 1.0})
    write_results(out, results)
    require_told(NAMES[2])
    assert precision_of(out / "best") == "bf16"


def test_more_restarts_go_on_from_those_that_ended_and_fewer_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    point = ("--batch-size", "4", "--optimizer.learning-rate", "1e-3")
    assert bertsmith(*searching(folder, tmp_path, *point, "--restarts", "2")) == 0
    capsys.readouterr()
    # As if they had been made on a GPU, which is not here: their models are asked where it goes on.
    records = [tmp_path / "search.json", *tmp_path.rglob("run.json")]
    assert len(records) == 3
    for path in records:
        content = json.loads(path.read_text("utf-8"))
        content["versions"]["device"] = "cuda"
        path.write_text(json.dumps(content), "utf-8")
    here = ("--device", "cpu")
    assert bertsmith(*searching(folder, tmp_path, *point, "--restarts", "3", *here)) == 0
    told = capsys.readouterr().out
    assert "3 runs, 30 steps in all; 2 have ended" in told
    assert "run 3 of 3" in told
    assert "run 2 of 3" not in told
    assert "ensemble of 3" in told
    assert bertsmith(*searching(folder, tmp_path, *point, "--restarts", "1")) == 2
    assert "holds a search with 2 runs that are not asked for now" in capsys.readouterr().err


def test_runs_that_fail_are_named_and_counted_and_not_chosen(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = ("--grid.learning-rates", "0", "1e30", "1e-3", "--batch-size", "4", "--restarts", "2")
    assert bertsmith(*searching(folder, tmp_path, *rates)) == 0
    told = capsys.readouterr().out
    found = {
        each["name"]: each for each in json.loads((tmp_path / "results.json").read_text())["runs"]
    }
    unlearned = found["batch4-rate0-epochs1-seed0"]["failure"]
    assert unlearned.startswith("Dev accuracy 0.5; one answer to all has 0.5")
    diverged = found["batch4-rate1e+30-epochs1-seed1"]
    assert "what it computes was no number any more after step " in diverged["failure"]
    assert diverged["scores"] == {}
    assert "batch 4, rate 1e+30, 1 epochs: 2 runs, 2 failed (seed 0, 1)" in told
    assert "4 runs of 6 failed, and none of them is chosen" in told
    assert "best on Dev: batch4-rate0.001-epochs1-" in told
    capsys.readouterr()
    assert bertsmith("search", "--resume", tmp_path) == 0
    assert "6 have ended" in capsys.readouterr().out


def test_where_every_run_failed_nothing_is_chosen(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = ("--grid.learning-rates", "1e30", "0", "--batch-size", "4")
    assert bertsmith(*searching(folder, tmp_path, *rates)) == cli.EXIT_MISTAKE
    told = capsys.readouterr()
    assert "no run is left to choose" in told.out
    assert told.err == f"bertsmith: all 2 runs in {tmp_path} failed, and none was chosen\n"
    assert not (tmp_path / "best").exists()
    assert len(json.loads((tmp_path / "results.json").read_text())["runs"]) == 2
    readme = (tmp_path / "README.md").read_text()
    assert "no run is left to choose" in readme
    assert "bertsmith evaluate" not in readme
    asked = ("--glue", folder / "glue", "--task", "SST-2")
    whole = (
        f"{tmp_path} is a search in which 2 of 2 runs failed; none was chosen: name one of its "
        f"runs, such as {tmp_path}/batch4-rate0-epochs1-seed0"
    )
    for command in (("evaluate", tmp_path, *asked), ("predict", tmp_path, "a dog")):
        assert bertsmith(*command) == cli.EXIT_MISTAKE
        assert capsys.readouterr().err.startswith(f"bertsmith: {whole}")
    assert bertsmith("evaluate", tmp_path / "batch4-rate0-epochs1-seed0", *asked) == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--restarts", "0"), "restarts must be at least 1, found 0"),
        (("--batch-size", "4", "--grid.batch-sizes", "8"),
         "--batch-size and --grid.batch-sizes both say what is tried"),
        (("--grid.epochs", "2", "2"), "epochs of a grid holds 2 twice"),
        (("--grid.learning-rates",), "learning_rates of a grid needs at least one value"),
        (("--grid.batch-sizes", "0"), "batch_size must be at least 1, found 0"),
        (("--grid.batch-size", "4"), "did you mean '--grid.batch-sizes'"),
        (("--resume", "{search}"), "--resume takes everything from"),
        (("--resume", "{search}", "--restarts", "3"),
         "repeat the command that began it with --restarts in it: `bertsmith"),
        (("--out", "{search}", "--seed", "9"), "holds another search"),
        (("--out", "{run}"), "holds a fine-tuning run (`"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    places = {"search": folder / "search", "run": folder / "search" / NAMES[0]}
    files = ("search", folder / "model", "--glue", folder / "glue", *SHARED)
    assert bertsmith(*files, *(each.format(**places) for each in options)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_what_is_typed_for_a_run_takes_the_place_of_its_list() -> None:
    assert grid_of(defaults_of(())) == GLUE_GRID
    assert grid_of(defaults_of(("--recipe", "ner"))) == PAPER_GRID
    told = cli._parsed(cli.COMMANDS["search"], "search", ["m", "--epochs", "5"])
    assert grid_of(told).epochs == (5.0,)  # type: ignore[arg-type]
