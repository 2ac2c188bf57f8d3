import os
import sys

import pytest

from benchmarks.process_memory import parents, resident_bytes, run_watched, tree_of

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def test_a_tree_holds_children_of_children_and_nobody_else():
    assert tree_of(5, {5: 1, 6: 5, 7: 6, 8: 1, 9: 8}) == {5, 6, 7}
    assert tree_of(4, {5: 1}) == {4}


def test_a_name_with_blanks_and_brackets_does_not_hide_the_parent(tmp_path):
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "stat").write_text("12 (odd ) 3 (name) S 7 12 0\n")
    (tmp_path / "uptime").write_text("1 2\n")
    assert parents(tmp_path) == {12: 7}


def test_memory_is_summed_and_an_ended_process_counts_nothing(tmp_path):
    for number, kilobytes in ((3, 100), (4, 50)):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "status").write_text(f"Name:\tx\nVmRSS:\t  {kilobytes} kB\n")
    assert resident_bytes([3, 4, 5], tmp_path) == 150 * 1024


@linux
def test_a_childs_memory_counts_as_the_commands():
    child = "import time; held = bytearray(80_000_000); time.sleep(2)"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    finished = run_watched([sys.executable, "-c", script], os.environ)
    assert finished.peak_bytes > 80_000_000
    assert finished.most_processes == 2
    assert finished.seconds > 2


@linux
def test_a_command_that_fails_is_an_error_with_its_last_words():
    with pytest.raises(RuntimeError, match="out of luck"):
        run_watched([sys.executable, "-c", "raise SystemExit('out of luck')"], os.environ)
