"""Which files a folder holds, links and loops among them."""

from collections import Counter
from pathlib import Path

from bertsmith.reading.folders import (
    HIDDEN,
    LOOPS,
    NO_FILES,
    files_of_no_known_format,
    files_under,
)


def test_linked_folders_are_read_once_and_loops_are_counted(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    for name in ("in/a/1.txt", "in/z/2.txt", "out/3.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("A sentence.")
    (inside / "linked").symlink_to(outside)
    (inside / "linked.txt").symlink_to(inside / "z" / "2.txt")
    (inside / "a" / "itself").symlink_to(inside / "a")
    (inside / "a" / "up").symlink_to(tmp_path)
    (inside / "z" / "again").symlink_to(outside)
    (outside / "back").symlink_to(inside)
    (inside / "gone").symlink_to(tmp_path / "nowhere")
    skipped = Counter()
    found = [path.relative_to(inside).as_posix() for path in files_under(inside, skipped)]
    assert found == ["a/1.txt", "linked/3.txt", "linked.txt", "z/2.txt"]
    assert skipped == {LOOPS: 4, NO_FILES: 1}


def test_files_stand_in_the_order_of_their_paths_parts(tmp_path):
    names = ["b/1", "b-/2", "b.txt", "a/c/3", "a-b", "a/4", ".git/5", "a/.6"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    visible = [
        tmp_path / name for name in names if "." not in (name[0], name.rpartition("/")[2][0])
    ]
    expected = sorted(visible, key=lambda path: path.parts)
    skipped = Counter()
    assert files_under(tmp_path, skipped) == expected
    assert skipped == {HIDDEN: 2}


def test_of_files_that_are_passed_over_the_first_are_named():
    files = [Path("a", name) for name in ("1.pdf", "2.doc", "3.png", "4.zip")]
    assert files_of_no_known_format(files[:1]) == "files of no known format (1.pdf)"
    assert files_of_no_known_format(files).endswith("(1.pdf, 2.doc, 3.png, ...)")
