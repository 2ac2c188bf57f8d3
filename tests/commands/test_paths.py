"""Text is read that is text; nothing is written inside it, or over a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith import cli
from bertsmith.commands.build_corpus import build_corpus
from bertsmith.commands.paths import require_no_others
from bertsmith.commands.text_options import BuildCorpus
from bertsmith.text.rules import SPECIAL_TOKENS
from bertsmith.text.tokenizer import Tokenizer
from tests.commands.small_run import write_text

COMMANDS = (
    ["learn-vocab", "{text}", "--vocab-size", "99", "--out", "{out}"],
    ["build-corpus", "{text}", "--vocab", "vocab", "--out", "{out}"],
    ["pretrain", "{text}", "--out", "{out}"],
)


def files_in(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("text", "text lies inside the input text"),
        ("text/made", "text/made lies inside the input text"),
        ("text/text.txt", "text.txt is a file"),
        ("file", "file is a file; name another one with --out"),
        ("file/made", "file is a file; name another one with --out"),
    ],
)
def test_a_place_that_is_none_is_refused_and_nothing_is_changed(
    words: list[str],
    out: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "text")
    (tmp_path / "file").write_text("theirs")
    before = files_in(tmp_path)
    assert cli.main([word.format(text="text", out=out) for word in words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "with --out" in error
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        (["one", "two"], "one, two: made by build-corpus"),
        (["text", "one"], "bertsmith: one: made by build-corpus"),
        (["."], "one, two: made by build-corpus"),
    ],
)
def test_a_corpus_is_not_read_as_text(
    words: list[str],
    inputs: list[str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = tmp_path / "work"
    write_text(work / "text")
    (work / "text" / "manifest.json").write_text("{}")  # of somebody else
    monkeypatch.chdir(work)
    letters = "abcdefghijklmnopqrstuvwxyz."
    Tokenizer([*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters)]).save("vocab")
    for out in ("one", "two"):
        build_corpus(BuildCorpus(inputs=(Path("text"),), vocab=Path("vocab"), out=Path(out)))
    capsys.readouterr()
    before = files_in(tmp_path)
    assert cli.main([words[0], *inputs, *words[2:-1], "../out"]) == 2
    assert named in capsys.readouterr().err
    assert files_in(tmp_path) == before


def test_a_run_named_by_itself_is_not_begun_inside_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(write_text(tmp_path / "texts"))
    assert cli.main(["pretrain", "."]) == 2
    assert "runs/texts lies inside the input ., " in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["texts", "text.txt"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no place that nobody can write to")
@pytest.mark.parametrize(
    "words",
    [
        *(command for command in COMMANDS if command[0] != "learn-vocab"),
        ["reproduce", "table4", "--text", "{text}", "--data", ".", "--out", "{out}", "--plan-only"],
        ["explain", "a cat", "--model", "none", "--out", "{out}/picture.svg"],
    ],
)
def test_a_place_that_cannot_be_written_to_is_refused_before_the_work(
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "text")
    assert cli.main([word.format(text="text", out="/proc/none") for word in words]) == 2
    assert "directory /proc/none cannot be written to (/proc: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["pretrain", "text", "--out", "out"],
        ["finetune", "mini-en", "--texts", "text/rows.csv", "--out", "out"],
        ["search", "mini-en", "--texts", "text/rows.csv", "--out", "out"],
    ],
    ids=["pretrain", "finetune", "search"],
)
@pytest.mark.parametrize("name", ["README.md", "results.json", "first-vectors.npy", "curves.png"])
def test_a_run_does_not_begin_where_it_would_replace_what_somebody_put_there(
    words: list[str],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "text")
    (tmp_path / "text/rows.csv").write_text("text,label\na,1\nb,0\n" * 20)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("theirs")
    before = files_in(tmp_path)
    assert cli.main(words) == 2
    record = "search.json" if words[0] == "search" else "run.json"
    assert f"out holds {name}, but no run ({record})" in capsys.readouterr().err
    assert files_in(tmp_path) == before


def test_files_that_a_run_does_not_write_may_stand_beside_it(tmp_path: Path) -> None:
    require_no_others(tmp_path / "absent", "run.json")
    (tmp_path / ".gitignore").write_text("*")
    (tmp_path / "holiday.png").write_text("a picture")
    require_no_others(tmp_path, "run.json")
    (tmp_path / "README.md").write_text("of a run")
    with pytest.raises(ValueError, match=r"holds README.md, but no run \(run.json\)"):
        require_no_others(tmp_path, "run.json")
    (tmp_path / "run.json").write_text("{}")
    require_no_others(tmp_path, "run.json")
    assert len(files_in(tmp_path)) == 4
