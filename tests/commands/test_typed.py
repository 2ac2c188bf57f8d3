"""A file's name among the texts is told before any model is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith import cli
from bertsmith.commands.typed import refuse_files


@pytest.mark.parametrize(
    "command",
    ["predict runs/none", "predict embed --model none", "predict fill-mask --model none"],
)
def test_a_files_name_is_no_text_to_answer(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "reviews.csv").write_text("text\nthe dog\n", "utf-8")
    first, *others = command.split()
    assert cli.main([first, *others, str(tmp_path / "reviews.csv")]) == 2
    told = capsys.readouterr().err
    assert f"reviews.csv is a file: to answer its rows, --file {tmp_path}" in told


def test_a_files_name_is_no_sentence_to_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("the dog\n", "utf-8")
    assert cli.main(["explain", str(tmp_path / "text.txt"), "--model", "none"]) == 2
    assert "text.txt is a file: explain takes" in capsys.readouterr().err


def test_texts_of_any_kind_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    texts = ("the dog", "folder", "", "x" * 5000, "a\0b", "none.csv", "가" * 300)
    refuse_files(texts, str)
    (tmp_path / "none.csv").touch()
    with pytest.raises(ValueError, match=r"none\.csv is a file"):
        refuse_files(texts, str)
