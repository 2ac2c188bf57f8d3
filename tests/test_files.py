import json
import subprocess
import sys
from pathlib import Path

import pytest

from bertsmith.files import (
    atomic_directory,
    atomic_file,
    lock,
    remove_leftovers,
    sha256,
    write_json,
    write_text,
)


def write_half(path: Path) -> None:
    with atomic_file(path) as file:
        file.write(b"half")
        raise RuntimeError("stopped here")


def fill_half(path: Path) -> None:
    with atomic_directory(path) as directory:
        (directory / "a.txt").write_text("half")
        raise RuntimeError("stopped here")


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "file.bin"
    with pytest.raises(RuntimeError, match="stopped here"):
        write_half(path)
    assert list(path.parent.iterdir()) == []
    with atomic_file(path) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole"


def test_an_error_keeps_the_older_file(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "old\n")
    with pytest.raises(RuntimeError, match="stopped here"):
        write_half(path)
    assert path.read_text() == "old\n"


def test_a_directory_is_swapped_whole(tmp_path):
    path = tmp_path / "checkpoint"
    for content in ("one", "two"):
        with atomic_directory(path) as directory:
            (directory / "a.txt").write_text(content)
            assert not path.exists() or (path / "a.txt").read_text() == "one"
    assert (path / "a.txt").read_text() == "two"
    with pytest.raises(RuntimeError, match="stopped here"):
        fill_half(path)
    assert (path / "a.txt").read_text() == "two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    (tmp_path / ".model.x.part").write_text("half")
    (tmp_path / ".run.y.part").mkdir()
    (tmp_path / "model").write_text("whole")
    remove_leftovers(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_json_is_readable_and_keeps_the_order_and_the_letters(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1, "a": "한국어"})
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert "한국어" in text
    assert text.endswith("}\n")
    assert list(json.loads(text)) == ["b", "a"]


def test_sha256_is_that_of_the_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256(tmp_path / "a").startswith("ba7816bf8f01cfea414140de5dae2223")


def test_a_second_process_is_refused_and_told_why(tmp_path):
    script = (
        "import sys; from pathlib import Path; from bertsmith.files import lock\n"
        "try:\n"
        "    with lock(Path(sys.argv[1])): print('held')\n"
        "except RuntimeError as error: print(error)\n"
    )

    def other() -> str:
        command = [sys.executable, "-c", script, str(tmp_path / ".lock")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    with lock(tmp_path / ".lock"):
        assert "in use by another bertsmith process" in other()
    assert other().strip() == "held"
