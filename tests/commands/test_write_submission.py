"""A submission is what the benchmark takes; MNLI's model answers, and is scored on, all it can."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from bertsmith import cli
from bertsmith.inference import Predictor
from bertsmith.tasks.glue import TASKS, GlueTask, task_named
from bertsmith.tasks.stored import Learned
from bertsmith.tasks.task import Classification
from bertsmith.train.config import Precision
from tests.commands.small_task import score_lines
from tests.tasks.answering import write_answering

TEXTS = ["the dog likes my cat .", "paris", "he is hairy ?", "\u200b"]
Words = tuple[str, ...]
LEARNED = [task for task in TASKS if task.name not in ("MNLI-mm", "AX")]


def write_test(glue: Path, task: GlueTask) -> None:
    """Four rows, the last of which holds nothing to read."""
    rows = ["\t".join(["index", *task.texts])]
    rows += ["\t".join([str(n), *(text for _ in task.texts)]) for n, text in enumerate(TEXTS)]
    path = glue / (task.directory or task.name) / f"{task.files[2]}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def write_run(folder: Path, task: GlueTask) -> Path:
    own = Classification(scheme=task.scheme, max_tokens=16, metrics=task.metrics)
    learned = Learned(name=task.name, columns={"texts": [*task.texts]})
    return write_answering(folder / task.name, own, learned)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GLUE's tests, and a run of each task."""
    folder = tmp_path_factory.mktemp("submission")
    for task in TASKS:
        write_test(folder / "glue", task)
    for task in LEARNED:
        write_run(folder / "runs", task)
    return folder


def submit(
    folder: Path, *names: str, glue: str = "glue", out: Path, fill: bool = False, more: Words = ()
) -> int:
    runs = [str(folder / "runs" / name) for name in names]
    words = ["write-submission", *runs, "--glue", str(folder / glue), "--out", str(out), *more]
    return cli.main([*words, "--device", "cpu", *(["--fill"] if fill else [])])


def files_of(path: Path) -> dict[str, list[str]]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode().splitlines() for name in archive.namelist()}


def test_every_test_is_answered_by_its_tasks_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("bertsmith.commands.write_submission._WINDOW", 2)
    names = [task.name for task in reversed(LEARNED)]
    assert submit(folder, *names, out=tmp_path / "g.zip") == 0
    captured = capsys.readouterr()
    files = files_of(tmp_path / "g.zip")
    assert set(files) == {f"{task.name}.tsv" for task in TASKS}
    for task in TASKS:
        run = "MNLI-m" if task.name in ("MNLI-mm", "AX") else task.name
        asked = [tuple(text for _ in task.texts) if task.texts[1:] else text for text in TEXTS[:3]]
        found = Predictor.load(folder / "runs" / run).classify(asked)  # type: ignore[arg-type]
        header, *rows = files[f"{task.name}.tsv"]
        assert header == "index\tprediction"
        assert [row.split("\t")[0] for row in rows] == ["0", "1", "2", "3"]
        answers = [row.split("\t")[1] for row in rows]
        if task.name == "STS-B":
            for answer, each in zip(answers, found, strict=False):
                assert each.value is not None
                assert float(answer) == pytest.approx(min(max(each.value, 0), 5), abs=1e-3)
            assert answers[-1] == "0.000"
        else:
            assert answers == [*(each.labels[0] for each in found), task.scheme.names[0]]
    assert f"AX: 4 rows by {folder / 'runs' / 'MNLI-m'}" in captured.out
    assert "the test of RTE has 3,000 rows at the benchmark, and 4 here" in captured.err
    assert "1 rows of RTE hold nothing to read and are answered entailment" in captured.err


def test_a_task_without_a_run_is_told_and_filled_only_if_asked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit(folder, "RTE", out=tmp_path / "g.zip") == 2
    told = capsys.readouterr().err
    assert "no run of CoLA, SST-2, MRPC, STS-B, QQP, MNLI-m, MNLI-mm, QNLI, WNLI, AX" in told
    assert not (tmp_path / "g.zip").exists()
    (folder / "few" / "RTE").mkdir(parents=True)
    write_test(folder / "few", task_named("RTE"))
    write_test(folder / "few", task_named("WNLI"))
    assert submit(folder, "RTE", glue="few", out=tmp_path / "g.zip", fill=True) == 0
    told = capsys.readouterr().out
    files = files_of(tmp_path / "g.zip")
    assert (
        "WNLI: no run; all 4 rows are answered 0, its majority class: the paper's answer too"
        in told
    )
    assert len(files["WNLI.tsv"]) == 5
    assert "AX: no run; all 1,104 rows are answered contradiction" in told
    assert files["AX.tsv"][-1] == "1103\tcontradiction"
    assert files["STS-B.tsv"][-1] == "1378\t0.000"


def test_models_compute_in_the_precision_asked_for(folder: Path, tmp_path: Path) -> None:
    answers: dict[str, list[float]] = {}
    precisions: tuple[Precision, ...] = ("fp32", "bf16")
    for precision in precisions:
        out = tmp_path / f"{precision}.zip"
        assert submit(folder, "STS-B", out=out, fill=True, more=("--precision", precision)) == 0
        answers[precision] = [float(row.split("\t")[1]) for row in files_of(out)["STS-B.tsv"][1:4]]
        predictor = Predictor.load(folder / "runs" / "STS-B", precision=precision)
        found = predictor.classify([(text, text) for text in TEXTS[:3]])
        told = [min(max(each.value or 0.0, 0.0), 5.0) for each in found]
        assert answers[precision] == pytest.approx(told, abs=6e-4)  # three digits are written
    assert answers["fp32"] != answers["bf16"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("RTE", "RTE"), "both learned RTE: leave one out"),
        (("own",), "own learned nothing that it names, which is no task of GLUE"),
        (("swapped",), "answers contradiction, entailment, neutral, and RTE is answered"),
    ],
)
def test_runs_that_do_not_fit_are_refused(
    names: tuple[str, ...], message: str,
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    own = Classification(scheme=task_named("MNLI").scheme, max_tokens=16)
    if not (folder / "runs" / "own").exists():
        write_answering(folder / "runs" / "own", own)
        write_answering(folder / "runs" / "swapped", own, Learned(name="RTE"))
    assert submit(folder, *names, out=tmp_path / "g.zip", fill=True) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_test_that_is_not_there_and_a_file_that_is_are_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "none").mkdir(exist_ok=True)
    assert submit(folder, "RTE", glue="none", out=tmp_path / "g.zip", fill=True) == 2
    assert "RTE has no test.tsv or .tsv.gz" in capsys.readouterr().err
    (tmp_path / "g.zip").write_text("mine")
    assert submit(folder, "RTE", out=tmp_path / "g.zip", fill=True) == 2
    assert "g.zip exists: name another file, or replace it with --force" in capsys.readouterr().err


def test_mnli_is_scored_on_both_sets_and_on_the_diagnostics_by_matthews(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"my dog\t{text}\t{label}" for text in TEXTS[:3] for label in
             ("contradiction", "entailment", "neutral")]  # fmt: skip
    for name, header in (
        ("MNLI/dev_matched", "sentence1\tsentence2\tgold_label"),
        ("MNLI/dev_mismatched", "sentence1\tsentence2\tgold_label"),
        ("diagnostic/diagnostic-full", "Premise\tHypothesis\tLabel"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.tsv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    run = str(write_run(tmp_path / "runs", task_named("MNLI")))
    words = ["evaluate", run, "--glue", str(tmp_path), "--device", "cpu"]
    assert cli.main([*words, "--task", "MNLI"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if line.endswith("9 examples:")] == [
        "dev of MNLI-m, 9 examples:", "dev of MNLI-mm, 9 examples:", "dev of AX, 9 examples:",
    ]  # fmt: skip
    assert [line.split()[0] for line in score_lines(told)] == [
        "accuracy", "accuracy", "matthews",
    ]  # fmt: skip
    for _ in range(2):  # a report of one's own is replaced
        assert cli.main([*words, "--task", "MNLI", "--report", str(tmp_path / "report")]) == 0
    assert {each.name for each in (tmp_path / "report").iterdir()} == {"MNLI-m", "MNLI-mm", "AX"}
    assert (tmp_path / "report" / "AX" / "README.md").is_file()
    capsys.readouterr()
    (tmp_path / "diagnostic/diagnostic-full.tsv").unlink()
    assert cli.main([*words, "--task", "MNLI"]) == 0
    assert "note: AX is not scored: " in capsys.readouterr().out
    assert cli.main([*words, "--task", "MNLI-mm"]) == 0
    assert capsys.readouterr().out.count("examples:") == 1
