import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import before_after, machine
from benchmarks.before_after import Code, in_turn, run, speeds_of, table, unpacked

PACE = """
import json, os, sys
from pathlib import Path
assert Path(__file__).parent == Path.cwd(), "the code of the other folder"
speeds = {{"bertsmith": {speed}, "peer": 7.0}}
row = {{"size": "mini", "tokens_per_second": speeds, "told": sys.argv[1:]}}
Path(os.environ["BENCHMARK_ROWS"], "pace.jsonl").write_text(json.dumps(row) + "\\n")
"""


def git(root: Path, *words: str) -> None:
    who = ["-c", "user.name=one", "-c", "user.email=one@example.org"]
    subprocess.run(["git", "-C", str(root), *who, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    """Two commits, of which the second is half as fast again."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    for speed in (100.0, 150.0):
        (root / "pace.py").write_text(PACE.format(speed=speed))
        git(root, "add", "pace.py")
        git(root, "commit", "-q", "-m", "a pace")
    return root


def test_a_commit_is_measured_by_its_own_code(repository, tmp_path):
    before = unpacked(repository, "HEAD~1", tmp_path / "before")
    assert run(before, ["pace"]) == {"size mini, bertsmith": 100.0}
    assert run(Code(commit="", folder=repository), ["pace"]) == {"size mini, bertsmith": 150.0}


def test_both_take_turns_and_are_compared_in_pairs(repository, tmp_path, monkeypatch):
    before = unpacked(repository, "HEAD~1", tmp_path / "before")
    after = unpacked(repository, "HEAD", tmp_path / "after")
    turns = []
    monkeypatch.setattr(
        before_after, "run", lambda code, benchmark: turns.append(code) or run(code, benchmark)
    )
    measured = in_turn(before, after, ["pace"], pairs=3)
    assert measured == {"size mini, bertsmith": [(100.0, 150.0)] * 3}
    assert turns == [before, after, after, before, before, after]
    assert before.commit != after.commit


def test_a_row_keeps_the_speeds_of_both(repository, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(before_after, "ROOT", repository)
    monkeypatch.setattr(machine, "RESULTS", tmp_path / "rows")
    words = ["before_after", "HEAD~1", "--pairs", "2", "--", "pace", "--steps", "2"]
    monkeypatch.setattr(sys, "argv", words)
    before_after.main()
    row = json.loads((tmp_path / "rows" / "before_after.jsonl").read_text())
    assert row["benchmark"] == ["pace", "--steps", "2", "--system", "bertsmith"]
    assert row["speeds"] == {"size mini, bertsmith": [[100.0, 150.0]] * 2}
    assert row["ratios"] == {"size mini, bertsmith": 1.5}
    assert "| size mini, bertsmith | 1.500 | 1.500 | 1.500 |" in capsys.readouterr().out


def test_figures_are_of_our_systems_at_any_depth_and_a_time_counts_inverse():
    row = {
        "size": "base",
        "threads": 2,
        "matrix_flops_per_second": 1e12,
        "settings": {
            "mixed": {"tokens_per_second": {"bertsmith": 8.0, "bertsmith int8": 9.0, "peer": 1.0}},
            "one text": {"median_ms": {"bertsmith": 4.0, "peer": 5.0}},
        },
    }
    assert dict(speeds_of(row)) == {
        "size base, threads 2, settings, mixed, bertsmith": 8.0,
        "size base, threads 2, settings, mixed, bertsmith int8": 9.0,
        "size base, threads 2, settings, one text, bertsmith": 0.25,
    }


def test_the_figures_are_those_that_benchmarks_append():
    for name in ("pretraining", "finetuning_speed", "inference"):
        rows = (before_after.ROOT / f"benchmarks/results/{name}.jsonl").open()
        *_, last = (row for row in rows if '"bertsmith"' in row)  # some are of a peer alone
        assert dict(speeds_of(json.loads(last))), name


def test_the_table_has_the_median_and_the_ends():
    assert list(table({"mini": [0.9, 1.3, 1.1]}))[-1] == "| mini | 1.100 | 0.900 | 1.300 |"


def test_a_commit_that_is_not_there_is_told_in_a_line(repository, monkeypatch, capsys):
    monkeypatch.setattr(before_after, "ROOT", repository)
    monkeypatch.setattr(sys, "argv", ["before_after", "none", "--", "pace"])
    with pytest.raises(SystemExit) as ended:
        before_after.main()
    assert ended.value.code == 2
    assert f"'none' is no commit of {repository}" in capsys.readouterr().err


def test_a_benchmark_that_fails_is_told_with_its_words(repository):
    code = Code(commit="abc", folder=repository)
    with pytest.raises(ValueError, match=r"`python -m absent` of abc failed:\n.*No module named"):
        run(code, ["absent"])


def test_a_benchmark_without_a_speed_of_ours_is_refused(repository):
    with pytest.raises(ValueError, match="appended no row with one of tokens_per_second"):
        run(Code(commit="abc", folder=repository), ["this"])


def test_codes_that_measure_other_things_are_not_compared(repository, tmp_path):
    before = unpacked(repository, "HEAD~1", tmp_path / "before")
    text = (repository / "pace.py").read_text().replace("mini", "base")
    (repository / "pace.py").write_text(text)
    with pytest.raises(ValueError, match="size base, bertsmith, size mini, bertsmith; name what"):
        in_turn(before, Code(commit="", folder=repository), ["pace"], pairs=1)


def test_no_pair_is_no_measurement(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["before_after", "HEAD", "--pairs", "0", "--", "pace"])
    with pytest.raises(SystemExit):
        before_after.main()
    assert "at least one is needed" in capsys.readouterr().err


def test_one_name_for_two_speeds_is_refused(repository):
    text = (repository / "pace.py").read_text().replace('"\\n"', '"\\n" + json.dumps(row)')
    (repository / "pace.py").write_text(text)
    with pytest.raises(ValueError, match="measured one thing twice"):
        run(Code(commit="abc", folder=repository), ["pace"])


@pytest.mark.parametrize("words", [["--system", "peer"], ["--system=peer"]])
def test_a_system_that_is_named_is_measured_alone(words, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["before_after", "HEAD", "--", "pace", *words])
    assert before_after._options().benchmark == ["pace", *words]


def test_folders_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTSMITH_DATA", "data")
    monkeypatch.setenv("PYTHONPATH", "/others")
    found = before_after._paths(Code(commit="", folder=Path("/code")))
    assert found == {"PYTHONPATH": "/code:/others", "BERTSMITH_DATA": str(tmp_path / "data")}


def test_help_is_told(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["before_after", "--help"])
    with pytest.raises(SystemExit, match="0"):
        before_after.main()
    assert "COMMIT MODULE" in capsys.readouterr().out
