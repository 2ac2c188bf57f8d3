"""Whoever scores a model on what it has learned from is told so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.small_files import RUN
from tests.commands.small_task import bertsmith, write_model
from tests.commands.test_told_labels import table

TOLD = "note: the model has learned from"
SHORT = (*RUN, "--epochs", "0.2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that one run divided and another one learned whole, and its Dev."""
    folder = tmp_path_factory.mktemp("seen")
    model = write_model(folder / "model")
    train, dev = table(folder / "a.csv", *"xy" * 20), table(folder / "b.csv", *"xy" * 3)
    divided = ("--dev-share", "0.3")
    assert (
        bertsmith(
            "finetune", model, "--texts", train, *divided, *SHORT, "--out", folder / "divided"
        )
        == 0
    )
    assert (
        bertsmith(
            "finetune", model, "--texts", train, "--dev", dev, *SHORT, "--out", folder / "whole"
        )
        == 0
    )
    return folder


@pytest.mark.parametrize(
    ("run", "options", "own"),
    [
        ("divided", ("a.csv",), "--texts {}/a.csv --dev-share 0.3 --split dev"),
        ("divided", ("a.csv", "--split", "dev"), "--texts {}/a.csv --dev-share 0.3 --split dev"),
        ("divided", ("b.csv", "--dev", "a.csv"), "--texts {}/a.csv --dev-share 0.3 --split dev"),
        ("whole", ("a.csv",), "--texts {}/b.csv"),
        ("whole", ("a.csv", "--split", "dev"), "--texts {}/b.csv"),
        ("divided", ("a.csv", "--split", "dev", "--dev-share", "0.3"), None),
        ("divided", ("a.csv", "--split", "train"), None),
        ("divided", ("b.csv",), None),
        ("whole", ("b.csv",), None),
        ("whole", ("a.csv", "--dev", "b.csv"), None),
    ],
)
def test_scores_on_what_was_learned_are_told_with_how_to_score_the_rest(
    folder: Path,
    run: str,
    options: tuple[str, ...],
    own: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    capsys.readouterr()
    assert bertsmith("evaluate", folder / run, "--texts", *options) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith(TOLD)]
    expected = [] if own is None else [f"its own Dev is {own.format(folder.resolve())}"]
    assert [line.rpartition("; ")[2] for line in told] == expected
