"""`bertsmith verify`: a line a check, a verdict, and an exit status that a script can read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tyro
from rich.console import Console

from bertsmith import cli
from bertsmith.certificate import checks
from bertsmith.certificate.rows import Row
from bertsmith.commands import verify as command
from bertsmith.commands.verify import verdict, verify
from bertsmith.commands.verify_options import Verify
from tests.certificate.breaking import saved

PASSED = Row(name="a", status="passed", found="x", expected="y", reference="z", section="s")
FAILED = Row(
    name="[bold]b", status="failed", found="u", expected="v", reference="w", section="t",
    difference="gelu_tanh",
)  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "tiny")


def found(monkeypatch: pytest.MonkeyPatch, *rows: Row) -> None:
    monkeypatch.setattr(checks, "certify", lambda name, profile: iter(rows))


def test_the_command_line_names_model_profile_and_form() -> None:
    assert tyro.cli(Verify, args=["m"]) == Verify(model="m")
    options = tyro.cli(Verify, args=["m", "--profile", "google", "--jsonl"])
    assert options == Verify(model="m", profile="google", jsonl=True)


def test_a_sound_model_is_certified_with_status_0(model: Path, capsys) -> None:
    assert cli.main(["verify", str(model)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith(f"CERTIFIED under the profile paper: {model}: ")
    assert all(len(line.split("\t")) == 6 for line in lines[:-1])
    assert len(lines) > 60


def test_a_broken_model_is_not_certified_with_status_1(tmp_path: Path, capsys) -> None:
    folder = saved(tmp_path / "m", hidden_act="relu")
    with pytest.raises(SystemExit) as stop:
        cli.main(["verify", str(folder)])
    assert stop.value.code == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("NOT CERTIFIED under the profile paper")
    assert last.endswith("Failed: activation (this model)")


def test_what_is_no_model_is_one_line_with_status_2(tmp_path: Path, capsys) -> None:
    assert cli.main(["verify", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_json_lines_hold_every_row_and_the_verdict(monkeypatch, capsys) -> None:
    found(monkeypatch, PASSED, FAILED)
    with pytest.raises(SystemExit) as stop:
        verify(Verify(model="m", profile="google", jsonl=True))
    assert stop.value.code == 1
    first, second, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "name": "a", "status": "passed", "found": "x", "expected": "y", "reference": "z",
        "difference": "", "section": "s",
    }  # fmt: skip
    assert second["status"] == "failed"
    assert last.pop("seconds") >= 0.0
    assert last == {"certified": False, "model": "m", "profile": "google"}


def test_the_verdict_counts_names_and_hints() -> None:
    assert verdict([PASSED, PASSED], Verify(model="m"), 2.04) == (
        "CERTIFIED under the profile paper: m: 2 passed, in 2.0 s"
    )
    assert verdict([PASSED, FAILED], Verify(model="m"), 2.0) == (
        "NOT CERTIFIED under the profile paper: m: 1 passed, 1 failed, in 2.0 s. "
        "Failed: [bold]b (t); under --profile google this is a known difference"
    )
    known = replace(FAILED, status="known difference")
    for rows, told in (([known], "1 known difference"), ([known] * 2, "2 known differences")):
        assert f"m: {told}, in 2.0 s" in verdict(rows, Verify(model="m"), 2.0)
    assert verdict([FAILED] * 2, Verify(model="m"), 2.0).endswith("these are known differences")


def test_a_terminal_gets_a_table_a_section_with_names_as_they_are(monkeypatch, capsys) -> None:
    found(monkeypatch, PASSED, FAILED)
    terminal = Console(force_terminal=True, width=120)
    monkeypatch.setattr(command, "Console", lambda: terminal)
    with pytest.raises(SystemExit):
        verify(Verify(model="m"))
    shown = capsys.readouterr().out
    assert "[bold]b" in shown
    assert shown.count("reference") == 2
    assert "NOT CERTIFIED" in shown.splitlines()[-1]


def test_options_are_read_without_torch() -> None:
    from tests.test_cli import NO_HEAVY_IMPORT, run_python

    code = NO_HEAVY_IMPORT.format(arguments=["verify", "m", "--profil", "x"], heavy=("torch",))
    answer = run_python(code)
    assert answer.returncode == 2
    assert "did you mean '--profile'?" in answer.stderr
