import json
import subprocess

from benchmarks import busy, machine
from bertsmith.environment import ENVIRONMENT


def test_a_row_has_every_round_alone_and_beside_others(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(machine, "RESULTS", tmp_path)
    monkeypatch.setenv("BERTSMITH_FUSION", "0")
    for name in (*ENVIRONMENT, "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("GOMP_SPINCOUNT", "1")  # a person's own is no part of the comparison
    options = ["--size", "tiny", "--rounds", "2", "--steps", "1", "--others", "1"]
    monkeypatch.setattr("sys.argv", ["busy", *options, "--system", "bertsmith"])
    asked = []
    monkeypatch.setattr(
        busy, "_one_turn", lambda system, variables, _: asked.append(variables) or 1.0
    )
    busy.main()
    row = json.loads((tmp_path / "busy.jsonl").read_text(encoding="utf-8"))
    both = {"bertsmith, as bertsmith sets it": [1.0] * 2, "bertsmith, as libgomp does": [1.0] * 2}
    assert row["examples_per_second"] == {"alone": both, "beside others": both}
    assert asked == [busy.SPINNING, {}] * 4
    assert "beside others, 1 of them" in capsys.readouterr().out


def test_a_turn_is_of_a_process_with_its_own_environment(monkeypatch):
    monkeypatch.setattr(busy, "stepper", told_environment)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    options = type("", (), {"size": "tiny", "steps": 2})
    for variables, expected in ((busy.SPINNING, 1.0), ({}, 0.5)):
        turn = busy._one_turn("bertsmith", variables, options)
        assert turn == 2 * busy.BATCH / expected


def told_environment(trial):
    """A system whose turn lasts 1 s where the count is set, else half a second."""
    import os

    from benchmarks.finetuning.speed import Turn

    is_set = os.environ.get("GOMP_SPINCOUNT") == busy.SPINNING["GOMP_SPINCOUNT"]
    return lambda count: Turn(seconds=1.0 if is_set else 0.5, tokens=1, losses=[])


def test_others_compute_meanwhile_and_end(monkeypatch):
    begun, begin = [], subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *given, **how: begun.append(begin(*given, **how)) or begun[-1]
    )
    with busy.busy(2):
        assert [each.poll() for each in begun] == [None, None]
    assert all(each.poll() is not None for each in begun)
