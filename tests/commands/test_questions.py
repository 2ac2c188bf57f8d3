import io
import os
import sys
import threading

import pytest

from bertsmith.commands.questions import Questions


def upper(text):
    if text == "bad":
        raise ValueError("it is bad")
    return text.upper()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_arguments_come_before_files_and_files_in_the_order_given(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2")
    questions = Questions([("text 1", "x")], [tmp_path / "b", tmp_path / "a"], upper)
    assert list(questions.windows()) == [["X", "B1", "B2", "A1", "A2"]]


def test_input_streams_in_windows(tmp_path):
    (tmp_path / "a").write_text("x\n" * 10_000)
    questions = Questions([], [tmp_path / "a"], upper)
    assert [len(window) for window in questions.windows()] == [4096, 4096, 1808]


def test_a_typed_line_is_answered_before_the_next(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal("one\ntwo\n"))
    windows = Questions([], [], upper).windows()
    assert next(windows) == ["ONE"]
    assert sys.stdin.readline() == "two\n"


def test_a_check_leaves_the_pipe_unread_and_counts_nothing_twice(tmp_path, monkeypatch, capsys):
    (tmp_path / "a").write_text("x\n\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n\n\n"))
    questions = Questions([], [tmp_path / "a", tmp_path.__class__("-")], upper)
    questions.check()
    assert list(questions.windows()) == [["X", "Y"]]
    questions.report(1, 512, "the rest was not read")
    assert capsys.readouterr().err.splitlines() == [
        "1 of 2 were longer than the 512 tokens that the model reads: the rest was not read",
        "blank lines passed over: 3",
    ]


def test_a_check_leaves_a_named_pipe_unread(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=("x\ny\n",))
    writer.start()
    questions = Questions([], [tmp_path / "pipe"], upper)
    questions.check()
    assert list(questions.windows()) == [["X", "Y"]]
    writer.join()


def test_a_missing_file_is_missed_before_the_long_work(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Questions([], [tmp_path / "nowhere"], upper).check()


def test_a_mistake_is_named_with_its_file_and_line(tmp_path):
    (tmp_path / "a").write_text("x\nbad\n")
    with pytest.raises(ValueError, match=r"a:2: it is bad"):
        Questions([], [tmp_path / "a"], upper).check()
