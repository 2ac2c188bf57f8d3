import errno
import json
import mmap
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bertsmith import files
from bertsmith.files import (
    InUseError,
    atomic_directory,
    atomic_file,
    claimed,
    forget_peak_memory,
    lock,
    peak_memory_bytes,
    read_json,
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


def refuse(directory: Path, written: str) -> None:
    with claimed(directory):
        with pytest.raises(InUseError), claimed(directory):
            pass
        if written:
            (directory / written).write_text("kept")
        raise ValueError("refused")


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


KILLED_AT_A_RENAME = """
import os, signal, sys
from pathlib import Path
from bertsmith.files import atomic_directory

renames, replace = [], Path.replace

def replace_or_die(self, target):
    renames.append(self)
    if len(renames) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)

Path.replace = replace_or_die
with atomic_directory(Path(sys.argv[1])) as directory:
    (directory / "a.txt").write_text("two")
"""


@pytest.fixture(params=[1, 2])
def killed_at_a_rename(tmp_path, request):
    """A directory holding "one", whose overwriter was killed before its first or second rename."""
    path = tmp_path / "model"
    with atomic_directory(path) as directory:
        (directory / "a.txt").write_text("one")
    command = [sys.executable, "-c", KILLED_AT_A_RENAME, str(path), str(request.param)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    return path


def test_a_kill_between_two_renames_keeps_the_older_directory(killed_at_a_rename):
    path = killed_at_a_rename
    remove_leftovers(path.parent)
    assert (path / "a.txt").read_text() == "one"
    assert [entry.name for entry in path.parent.iterdir()] == ["model"]


def test_writing_a_directory_again_first_puts_back_what_a_kill_moved_aside(killed_at_a_rename):
    with pytest.raises(RuntimeError, match="stopped here"):
        fill_half(killed_at_a_rename)
    assert (killed_at_a_rename / "a.txt").read_text() == "one"
    assert not list(killed_at_a_rename.parent.glob("*.old.part"))


def test_a_directory_that_cannot_take_the_place_leaves_the_older_one(tmp_path, monkeypatch):
    path = tmp_path / "model"
    with atomic_directory(path) as directory:
        (directory / "a.txt").write_text("one")
    replace = Path.replace

    def refused(self, target):
        if target == path and (self / "a.txt").read_text() == "two":
            raise PermissionError("not now")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(PermissionError, match="not now"), atomic_directory(path) as directory:
        (directory / "a.txt").write_text("two")
    assert (path / "a.txt").read_text() == "one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


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


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"a": ', r"facts\.json is not JSON: .*line 1"),
        (b"\xff\xfe{}", r"facts\.json is not JSON: .*utf-8"),
        (b"[" * 100_000, r"facts\.json is not JSON: .*recursion"),
        (b"[1]", r"facts\.json holds a list, expected a JSON object"),
    ],
)
def test_json_that_is_no_object_is_named(tmp_path, content, told):
    (tmp_path / "facts.json").write_bytes(content)
    with pytest.raises(ValueError, match=told):
        read_json(tmp_path / "facts.json")


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


def test_a_lock_that_was_taken_away_with_its_folder_holds_nobody_out(tmp_path, monkeypatch):
    place = tmp_path / "run" / ".lock"
    lock_file, attempts = files._lock_file, []

    def taken_away_meanwhile(file):
        attempts.append(file)
        if len(attempts) == 1:  # between opening and locking it
            place.unlink()
            place.parent.rmdir()
        lock_file(file)

    monkeypatch.setattr(files, "_lock_file", taken_away_meanwhile)
    refused = pytest.raises(InUseError)
    with lock(place):
        assert len(attempts) == 2
        with refused, lock(place):
            pass
    assert place.is_file()


def test_a_folder_that_goes_before_its_lock_is_opened_is_made_again(tmp_path, monkeypatch):
    place = tmp_path / "run" / ".lock"
    mkdir, made = Path.mkdir, []

    def gone_at_once(path, *given, **options):
        mkdir(path, *given, **options)
        made.append(path)
        if made == [place.parent]:
            path.rmdir()

    monkeypatch.setattr(Path, "mkdir", gone_at_once)
    with lock(place):
        assert place.is_file()
    assert len(made) > 1


def test_a_disk_that_cannot_lock_is_not_told_as_in_use(tmp_path, monkeypatch):
    def refused(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refused)
    told = pytest.raises(OSError, match=r"cannot be locked.*No locks available")
    with told as raised, lock(tmp_path / ".lock"):
        pass
    assert raised.value.filename == str(tmp_path / ".lock")


@pytest.mark.parametrize(
    ("there", "written", "left"),
    [
        ("", "", []),
        ("runs", "", ["runs"]),
        ("runs/new", "", ["runs", "runs/new"]),
        ("", "plan.txt", ["runs", "runs/new", "runs/new/.lock", "runs/new/plan.txt"]),
    ],
)
def test_a_claimed_directory_in_which_work_failed_leaves_no_lock_where_nothing_else_is(
    tmp_path: Path, there: str, written: str, left: list[str]
) -> None:
    (tmp_path / there).mkdir(parents=True, exist_ok=True)
    directory = tmp_path / "runs" / "new"
    with pytest.raises(ValueError, match="refused"):
        refuse(directory, written)
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert found == left


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forgets a peak")
def test_a_peak_of_memory_can_be_forgotten() -> None:
    with mmap.mmap(-1, 200_000_000) as block:  # given back whatever the allocator keeps
        for start in range(0, len(block), 4096):
            block[start] = 1
        high = peak_memory_bytes()
    assert forget_peak_memory()
    assert peak_memory_bytes() < high - 100_000_000
