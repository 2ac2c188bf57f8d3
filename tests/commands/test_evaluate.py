"""`bertsmith evaluate` of several models: each by itself, all as one, or why they do not fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bertsmith.checkpoints import store
from bertsmith.commands.finetune_request import learning_of
from bertsmith.model.int8_weights import multiplies_int8
from bertsmith.runs.finetune_report import answering_model
from bertsmith.runs.finetune_start import start_of
from bertsmith.tasks.metrics import accuracy
from bertsmith.train import device
from bertsmith.train.device import choose_device
from tests.commands import small_files
from tests.commands.small_task import RUN, bertsmith, write_glue, write_model

FEW = ("--epochs", "0.3", "--optimizer.learning-rate", "3e-4")


def run_of(folder: Path, out: Path, *options: object, model: str = "model") -> Path:
    """Fine-tunes a little, so that models still differ."""
    files = (folder / model, "--glue", folder / "glue", *RUN, *FEW, *options)
    assert bertsmith("finetune", *files, "--out", out) == 0
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GLUE's files and three runs of one model."""
    folder = tmp_path_factory.mktemp("ensemble")
    write_glue(folder / "glue")
    write_model(folder / "model")
    for seed in range(3):
        run_of(folder, folder / f"run{seed}", "--seed", seed)
    return folder


def asked(folder: Path, *models: object) -> tuple[object, ...]:
    return ("evaluate", *models, "--glue", folder / "glue", "--task", "SST-2")


def scores_in(told: str) -> list[str]:
    return [line.split()[1] for line in told.splitlines() if line.startswith("  accuracy ")]


def test_an_ensemble_averages_the_probabilities_of_its_models(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [folder / f"run{seed}" for seed in range(3)]
    request = {"examples": {"glue": str(folder / "glue"), "task": "SST-2"}, "max_tokens": 16}
    start = start_of(store.load(folder / "model"), learning_of(request))
    shares = []
    for run in runs:
        model = answering_model(store.load(run), "fp32", choose_device("cpu"))
        shares.append([answer.scores for answer in start.dev.answers(model)])
    gold = [int(example.labels[0]) for example in start.dev.examples]
    expected = [accuracy(np.argmax(each, axis=1), gold) for each in [*shares, np.mean(shares, 0)]]
    capsys.readouterr()
    assert bertsmith(*asked(folder, *runs)) == 0
    told = capsys.readouterr().out
    assert scores_in(told) == [f"{each:.4g}" for each in expected]
    assert f"dev of SST-2, {runs[0]}, 20 examples:" in told
    assert "dev of SST-2, the ensemble of 3, 20 examples:" in told


def test_one_model_is_scored_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bertsmith(*asked(folder, folder / "run0")) == 0
    assert len(scores_in(capsys.readouterr().out)) == 1


def test_models_that_do_not_fit_are_refused_with_the_reason(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = folder / "run0"
    shorter = run_of(folder, tmp_path / "shorter", "--max-tokens", "6")
    capsys.readouterr()
    for models, told in (
        (
            (first, shorter),
            f"{shorter} is no part of this ensemble: it reads the examples",
        ),
        ((first, first), "stands there twice: an ensemble takes each model once"),
        ((first, folder / "model"), "holds no task head"),
    ):
        assert bertsmith(*asked(folder, *models)) == 2
        printed = capsys.readouterr()
        assert told in printed.err
        assert not scores_in(printed.out)


def test_what_all_models_note_is_told_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith(*asked(folder, folder / "run0", folder / "run1")) == 0
    assert capsys.readouterr().out.count("20 examples of Dev are here, and 872 are official") == 1


def test_labels_that_a_model_has_not_learned_are_refused_with_its_name(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "others.csv"
    file.write_text("text,label\nthe dog,1\nthe cat,maybe\n")
    assert bertsmith("evaluate", folder / "run0", "--texts", file) == 2
    told = capsys.readouterr().err
    assert f"{file}:3: label 'maybe' (1 in all) is none of the 2 that are learned: 0, 1" in told
    assert f"(scoring {folder / 'run0'})" in told


def test_the_ensemble_of_spans_is_scored_and_reported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = small_files.squad(tmp_path / "train.json", 40, 1, some_impossible=True)
    dev = small_files.squad(tmp_path / "dev.json", 12, 2, some_impossible=True)
    files = ("--squad", train, "--dev", dev, *small_files.SPANS)
    search = tmp_path / "search"
    grid = ("--batch-size", "8", "--optimizer.learning-rate", "2e-3", "--epochs", "12")
    options = (*small_files.RUN[:2], *small_files.RUN[6:-4], "--evaluate-every", "6", *grid)
    begin = ("search", folder / "model", *files, *options, "--restarts", "2", "--out", search)
    assert bertsmith(*begin) == 0
    told = capsys.readouterr().out
    (of_search,) = [line for line in told.splitlines() if line.startswith("  f1, ensemble of 2")]
    runs = sorted(path for path in search.iterdir() if (path / "run.json").is_file())
    report = tmp_path / "report"
    assert bertsmith("evaluate", *runs, "--squad", dev, "--report", report) == 0
    *_, of_all = [line for line in capsys.readouterr().out.splitlines() if line[:5] == "  f1 "]
    assert of_all.split()[1] == of_search.split()[4]
    assert "the ensemble of 2 evaluated" in (report / "README.md").read_text()


@pytest.mark.parametrize("some_impossible", [False, True])
def test_the_files_of_an_ensembles_answers_score_as_the_ensemble(
    some_impossible: bool, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = small_files.squad(tmp_path / "train.json", 40, 1, some_impossible=some_impossible)
    dev = small_files.squad(tmp_path / "dev.json", 40, 2, some_impossible=some_impossible)
    runs = [tmp_path / "first", tmp_path / "second"]
    few = ("--epochs", "1", "--optimizer.learning-rate", "1e-4")
    for seed, run in enumerate(runs):
        files = ("--squad", train, "--dev", dev, *small_files.SPANS, *small_files.RUN)
        begin = ("finetune", folder / "model", *files, *few)
        assert bertsmith(*begin, "--seed", seed, "--out", run) == 0
    capsys.readouterr()
    out, names = tmp_path / "answers", ["predictions.json", "nbest_predictions.json"]
    asked = ("evaluate", *runs, "--squad", dev, "--out", out)
    assert bertsmith(*asked) == 0
    lines = capsys.readouterr().out.splitlines()
    f1s, exacts = ([line.split()[1] for line in lines if line.startswith(f"  {name} ")]
                   for name in ("f1   ", "exact"))  # fmt: skip
    assert len(f1s) == len(exacts) == 3  # of either run and of both together
    assert len(set(f1s)) > 1
    assert {each.name for each in out.iterdir()} == {
        *names,
        *(["null_odds.json"] if some_impossible else []),
    }
    assert bertsmith("evaluate", "--predictions", out / names[0], "--squad", dev) == 0
    official = json.loads(capsys.readouterr().out)
    exact = official["exact" if some_impossible else "exact_match"]
    assert (f"{official['f1']:.4g}", f"{exact:.4g}") == (f1s[-1], exacts[-1])
    assert bertsmith(*asked) == 2
    assert f"{out} exists: --out writes a new folder" in capsys.readouterr().err
    assert bertsmith("predict", *runs, "--squad", dev, "--out", tmp_path / "new") == 2
    assert f"`bertsmith evaluate {runs[0]} {runs[1]} --squad" in capsys.readouterr().err


def test_answers_are_written_of_questions_alone(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith(*asked(folder, folder / "run0"), "--out", tmp_path / "out") == 2
    assert "--out writes answers for SQuAD's official evaluator: name" in capsys.readouterr().err


def test_a_model_is_scored_on_questions_of_the_other_kind_and_what_decided_is_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = {}
    for name, some_impossible in (("1.1", False), ("2.0", True)):
        train = small_files.squad(
            tmp_path / f"train{name}.json", 40, 1, some_impossible=some_impossible
        )
        sets[name] = small_files.squad(
            tmp_path / f"dev{name}.json", 12, 2, some_impossible=some_impossible
        )
        files = ("--squad", train, "--dev", sets[name], *small_files.SPANS, *small_files.RUN)
        begin = ("finetune", folder / "model", *files, "--epochs", "6", "--evaluate-every", "6")
        assert bertsmith(*begin, "--out", tmp_path / name) == 0
    capsys.readouterr()
    report = tmp_path / "report"
    assert bertsmith("evaluate", tmp_path / "1.1", "--squad", sets["2.0"], "--report", report) == 0
    told = " ".join(capsys.readouterr().out.split())
    line = (
        "scored as SQuAD 2.0, where no answer may be one; no null threshold, since the model "
        "learned to answer always: 0 of 12 answers are empty, and 3 of 12 questions have none"
    )
    assert line in told
    assert line in (report / "README.md").read_text()
    assert bertsmith("evaluate", tmp_path / "2.0", "--squad", sets["1.1"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "scored as SQuAD 2.0, where no answer may be one; null threshold " in told
    assert "of 12 answers are empty, and 0 of 12 questions have none" in told
    assert bertsmith("evaluate", tmp_path / "1.1", "--squad", sets["1.1"]) == 0
    assert "scored as SQuAD 1.1; no null threshold" in capsys.readouterr().out


@pytest.mark.skipif(not multiplies_int8(), reason="this CPU does not multiply int8")
def test_eight_bits_are_scored_and_told_and_predicted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    run = folder / "run0"
    assert bertsmith(*asked(folder, run), "--precision", "int8", "--device", "cpu") == 0
    told = capsys.readouterr().out
    assert "note: computed in int8, the rest in " in told
    assert scores_in(told)
    answers = []
    for precision in ("fp32", "int8"):
        asking = ("predict", run, "a good film", "--jsonl", "--precision", precision)
        assert bertsmith(*asking, "--device", "cpu") == 0
        answers.append(json.loads(capsys.readouterr().out))
    exact, rounded = (answer["probabilities"] for answer in answers)
    assert exact != rounded
    assert rounded == pytest.approx(exact, abs=0.05)


def test_a_precision_that_is_not_here_is_told_before_the_model_is_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "multiplies_float16", lambda: False)
    capsys.readouterr()
    asking = (*asked(folder, folder / "no-such-run"), "--precision", "fp16", "--device", "cpu")
    assert bertsmith(*asking) == 2
    assert "precision fp16 needs an NVIDIA or AMD GPU" in capsys.readouterr().err


def test_a_runs_own_precision_that_is_not_here_is_told_with_what_stands_in_for_it(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = tmp_path / "run"
    shutil.copytree(folder / "run0", run)
    record = json.loads((run / "run.json").read_text())
    record["run"]["precision"] = "fp16"
    (run / "run.json").write_text(json.dumps(record))
    monkeypatch.setattr(device, "multiplies_float16", lambda: False)
    monkeypatch.setattr(device, "cpu_multiplies_bf16", lambda: False)
    note = "note: fp16, which the run scored its model in, is not here: computed in fp32"
    for precision, count in (((), 1), (("--precision", "fp32"), 0)):
        capsys.readouterr()
        assert bertsmith(*asked(folder, run, run / "best"), *precision, "--device", "cpu") == 0
        assert " ".join(capsys.readouterr().out.split()).count(note) == count
