"""A run that is killed and resumed ends with the very bytes of one that never stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from bertsmith.runs.directory import reached
from bertsmith.train.log import read_metrics
from tests.commands.small_run import TOY, TOY_RUN, command, environment, killed_at, run, write_text
from tests.commands.small_task import bertsmith

LAST = Path("checkpoints") / "step-00000024"
WAIT_SECONDS = 120.0
GROWING = (
    *TOY_RUN, "--phases", "8x8x8", "8x16x8", "8x32x8", "--tile-positions", "--save-every", "3",
)  # fmt: skip
FROM_A_MODEL = (
    "--phases", "24x32x8", "--warmup-steps", "4", "--evaluate-every", "8",
    "--evaluate-sequences", "24", "--save-every", "5", "--log-every", "4", "--held-out", "0.2",
    "--workers", "1", "--threads", "1", "--precision", "fp32",
)  # fmt: skip


def killed_after(
    directory: Path, rows: int, delay: float, *arguments: object, **changes: str
) -> None:
    """Starts a run and kills it `delay` seconds after `rows` new rows of metrics were written."""
    metrics = directory / "metrics.jsonl"
    before = _num_lines(metrics)
    process = subprocess.Popen(
        command(*arguments), env=environment(**changes), stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while abs(_num_lines(metrics) - before) < rows and process.poll() is None:
        assert time.monotonic() < deadline, "the run took no step"
        time.sleep(0.002)
    time.sleep(delay)
    assert process.poll() is None, "the run ended before it was killed: the test proves nothing"
    process.send_signal(signal.SIGKILL)
    process.wait()


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What is said, in this process, by a run that a mistake keeps from beginning."""
    assert bertsmith("pretrain", *arguments) == 2
    return capsys.readouterr().err


def steps_of(directory: Path, figure: str) -> list[int]:
    """The steps whose rows hold the figure, in the order of the file."""
    return [int(row["step"]) for row in read_metrics(directory / "metrics.jsonl") if figure in row]


def check_equal(directory: Path, undisturbed: Path) -> None:
    """Same bytes of model and trainer, and each step's row exactly once."""
    for name in ("model.safetensors", "trainer.safetensors", "trainer.json", "config.json"):
        assert (directory / LAST / name).read_bytes() == (undisturbed / LAST / name).read_bytes()
    losses = [
        [
            (row["step"], row["loss"])
            for row in read_metrics(path / "metrics.jsonl")
            if "loss" in row
        ]
        for path in (directory, undisturbed)
    ]
    assert losses[0] == losses[1]
    leftovers = [path.name for path in (directory / "checkpoints").iterdir() if "part" in path.name]
    assert leftovers == []


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    answer = run(write_text(folder / "text"), *TOY, "--out", folder / "run")
    assert answer.returncode == 0, answer.stderr
    return folder / "run"


def test_killed_at_random_moments_and_resumed_gives_the_same_bytes(
    undisturbed: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "run"
    first = (undisturbed / "corpus", *TOY_RUN, "--out", directory)
    killed_after(directory, 5, random_delay(), *first)
    killed_after(directory, 4, random_delay(), "--resume", directory)
    answer = run(*first)
    assert answer.returncode == 0, answer.stderr
    assert "going on after step" in answer.stdout
    check_equal(directory, undisturbed)


def test_killed_steps_after_a_checkpoint_around_longer_phases_takes_these_steps_again(
    undisturbed: Path, tmp_path: Path
) -> None:
    whole, directory = tmp_path / "whole", tmp_path / "run"
    answer = run(undisturbed / "corpus", *GROWING, "--out", whole)
    assert answer.returncode == 0, answer.stderr
    first = (undisturbed / "corpus", *GROWING, "--out", directory)
    # Phases grow after 8 and 16 steps: one border lies before the checkpoint, the other behind it.
    for step, saved in ((11, 9), (17, 15)):
        killed_at(step, "pretrain", *first, BERTSMITH_FUSION="0")
        assert steps_of(directory, "loss") == list(range(1, step + 1))
        assert reached(directory) == saved
    answer = run(*first)
    assert answer.returncode == 0, answer.stderr
    assert "going on after step 15 of 24" in answer.stdout
    check_equal(directory, whole)
    assert steps_of(directory, "loss") == list(range(1, 25))
    assert steps_of(directory, "evaluation_loss") == [8, 16, 24]


def test_killed_before_and_behind_its_first_checkpoint_a_run_from_a_model_gives_the_same_bytes(
    undisturbed: Path, tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("boats\nteachers\n")
    whole, directory = tmp_path / "whole", tmp_path / "run"
    text = undisturbed.parent / "text"
    asked = (text, "--from", undisturbed, "--add-words", tmp_path / "words.txt", *FROM_A_MODEL)
    answer = run(*asked, "--out", whole)
    assert answer.returncode == 0, answer.stderr
    first = (*asked, "--out", directory)
    for step, saved in ((3, 0), (11, 10)):  # checkpoints: after every fifth step
        killed_at(step, "pretrain", *first, BERTSMITH_FUSION="0")
        assert reached(directory) == saved
        assert steps_of(directory, "loss") == list(range(1, step + 1))
    answer = run(*first)
    assert answer.returncode == 0, answer.stderr
    assert "going on after step 10 of 24" in answer.stdout
    check_equal(directory, whole)
    assert steps_of(directory, "evaluation_loss") == [0, 8, 16, 24]


def test_a_killed_run_does_not_begin_again_from_other_weights(
    undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, directory = tmp_path / "model", tmp_path / "run"
    shutil.copytree(undisturbed / LAST, model)
    text = undisturbed.parent / "text"
    killed_at(3, "pretrain", text, "--from", model, *FROM_A_MODEL, "--out", directory)
    other = undisturbed / "checkpoints" / "step-00000023" / "model.safetensors"
    shutil.copy(other, model / "model.safetensors")
    told = refusal(capsys, "--resume", directory)
    assert f"the weights of {model} are others than those the run began with" in told
    shutil.rmtree(model)
    assert f"no model at {model}" in refusal(capsys, "--resume", directory)
    shutil.copytree(undisturbed / LAST, model)
    answer = run("--resume", directory)
    assert answer.returncode == 0, answer.stderr


def test_a_damaged_checkpoint_names_the_one_before_it_from_which_the_bytes_are_the_same(
    undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "run"
    shutil.copytree(undisturbed, directory)
    os.truncate(directory / LAST / "trainer.safetensors", 1_000)
    told = refusal(capsys, "--resume", directory)
    assert f"{directory / LAST / 'trainer.safetensors'} is damaged (" in told
    how = f"; once {directory / LAST} is deleted, the run goes on from step-00000023\n"
    assert told.endswith(how)
    shutil.rmtree(directory / LAST)
    answer = run("--resume", directory)
    assert answer.returncode == 0, answer.stderr
    check_equal(directory, undisturbed)


def test_a_run_without_its_corpus_says_how_to_make_the_same_again(
    undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, text = tmp_path / "run", undisturbed.parent / "text"
    shutil.copytree(undisturbed, directory)
    shutil.rmtree(directory / LAST)
    shutil.rmtree(directory / "corpus")
    for again in (("--resume", directory), (text, *TOY, "--out", directory)):
        told = refusal(capsys, *again)
        assert f"{directory / 'corpus'}, the corpus that this run trains on, is" in told
        assert f"(`bertsmith pretrain {text}" in told
    assert bertsmith("pretrain", text, *TOY, "--out", tmp_path / "other", "--plan-only") == 0
    (tmp_path / "other" / "corpus").rename(directory / "corpus")
    answer = run("--resume", directory)
    assert answer.returncode == 0, answer.stderr
    check_equal(directory, undisturbed)


def test_a_run_without_the_corpus_that_was_named_says_so(
    undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, directory = tmp_path / "corpus", tmp_path / "run"
    shutil.copytree(undisturbed / "corpus", corpus)
    killed_at(3, "pretrain", corpus, *TOY_RUN, "--out", directory)
    shutil.rmtree(corpus)
    told = refusal(capsys, "--resume", directory)
    assert f"{corpus}, the corpus that this run trains on, is not there" in told
    assert told.endswith("put it back, or build it again as it was\n")


@pytest.mark.slow
def test_killed_many_times_with_all_kernels_and_many_threads(tmp_path: Path) -> None:
    corpus = tmp_path / "whole" / "corpus"
    threads = ("--threads", str(len(os.sched_getaffinity(0))))
    whole = subprocess.run(
        command(write_text(tmp_path / "text"), *TOY, *threads, "--out", tmp_path / "whole"),
        env=environment(BERTSMITH_FUSION="1", OMP_NUM_THREADS=""),
        check=False,
    )
    assert whole.returncode == 0
    directory = tmp_path / "run"
    changes = {"BERTSMITH_FUSION": "1", "OMP_NUM_THREADS": ""}
    first = (corpus, *TOY_RUN, *threads, "--out", directory)
    killed_after(directory, 1, random_delay(), *first, **changes)
    for _ in range(5):
        killed_after(directory, 2, random_delay(), "--resume", directory, **changes)
    last = subprocess.run(command("--resume", directory), env=environment(**changes), check=False)
    assert last.returncode == 0
    check_equal(directory, tmp_path / "whole")


def random_delay() -> float:
    """Up to 30 ms, a step or two with its checkpoint; another in every run of the test."""
    return int.from_bytes(os.urandom(2), "big") / 65_536 * 0.03


def _num_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
