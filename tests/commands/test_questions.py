import bz2
import gzip
import io
import lzma
import os
import sys
import threading

import pytest

from bertsmith.commands.questions import Questions


def upper(text):
    if text == "bad":
        raise ValueError("it is bad")
    return text.upper()


def piped(content, encoding="utf-8"):
    """Standard input, whose own encoding must not matter."""
    return io.TextIOWrapper(io.BytesIO(content), encoding=encoding)


class Terminal(io.TextIOWrapper):
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
    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"one\ntwo\n")))
    windows = Questions([], [], upper).windows()
    assert next(windows) == ["ONE"]
    assert sys.stdin.readline() == "two\n"


def test_a_check_leaves_the_pipe_unread_and_counts_nothing_twice(tmp_path, monkeypatch, capsys):
    (tmp_path / "a").write_text("x\n\n")
    monkeypatch.setattr(sys, "stdin", piped(b"y\n\n\n"))
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


def test_a_directory_is_told_at_once(tmp_path):
    with pytest.raises(ValueError, match=r"is a directory: name a file of questions, one a line"):
        Questions([], [tmp_path], upper)


@pytest.mark.parametrize(
    "compress", [gzip.compress, bz2.compress, lzma.compress, lambda content: content]
)
def test_a_file_may_be_compressed(tmp_path, compress):
    (tmp_path / "a").write_bytes(compress("\ufeffx\r\n\n한국\nbad".encode()))
    questions = Questions([], [tmp_path / "a"], upper)
    windows = questions.windows()
    assert next(windows) == ["X", "한국"]
    assert questions.bytes_read == questions.num_bytes
    with pytest.raises(ValueError, match="a:4: it is bad"):
        next(windows)


def test_damaged_compression_and_a_compressed_pipe_are_told(tmp_path, monkeypatch):
    whole = gzip.compress(b"x\n" * 1000)
    (tmp_path / "a").write_bytes(whole[:-9])
    with pytest.raises(ValueError, match="a: damaged or cut-short compression"):
        Questions([], [tmp_path / "a"], upper).check()
    monkeypatch.setattr(sys, "stdin", piped(whole))
    with pytest.raises(ValueError, match="standard input is compressed: name the file itself"):
        list(Questions([], [], upper).windows())


def test_a_mistake_is_named_with_its_file_and_line(tmp_path):
    (tmp_path / "a").write_text("x\nbad\n")
    with pytest.raises(ValueError, match=r"a:2: it is bad"):
        Questions([], [tmp_path / "a"], upper).check()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp949"])
def test_the_pipe_is_utf8_whatever_the_terminals_encoding(encoding, monkeypatch):
    monkeypatch.setattr(sys, "stdin", piped("\ufeff한국어\r\ncafé".encode(), encoding))
    assert list(Questions([], [], str).windows()) == [["한국어", "café"]]


NOT_UTF8 = [
    (b"x\ncaf\xe9 noir\n", r":2: not UTF-8: byte 0xe9 at byte offset 5 .* Convert the file"),
    ("x\n".encode("utf-16"), r": not UTF-8 but UTF-16, .* iconv -f UTF-16"),
]


@pytest.mark.parametrize(("content", "told"), NOT_UTF8)
def test_what_is_not_utf8_is_named_with_its_line_and_byte(content, told, tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ValueError, match=f"a{told}"):
        Questions([], [tmp_path / "a"], str).check()
    monkeypatch.setattr(sys, "stdin", piped(content, "latin-1"))
    with pytest.raises(ValueError, match=f"standard input{told}"):
        list(Questions([], [], str).windows())


def test_what_stands_before_a_mistake_is_handed_out_first(monkeypatch):
    monkeypatch.setattr(sys, "stdin", piped(b"one\ntwo\nbad\nfour\n"))
    windows = Questions([], [], upper).windows()
    assert next(windows) == ["ONE", "TWO"]
    with pytest.raises(ValueError, match="standard input:3: it is bad"):
        next(windows)


def test_what_a_model_cannot_answer_is_checked_once_it_is_known(tmp_path):
    def short(text):
        if len(text) > 1:
            raise ValueError("too long")

    (tmp_path / "a").write_text("x\nlong\n")
    questions = Questions([], [tmp_path / "a"], upper)
    questions.check()
    with pytest.raises(ValueError, match="a:2: too long"):
        questions.check(short)


def test_bytes_are_counted_up_to_the_window_in_hand(tmp_path):
    (tmp_path / "a").write_text("x\n\nyy\nz\n")
    questions = Questions([], [tmp_path / "a"] * 2, upper)
    assert questions.num_bytes == 16
    assert [questions.bytes_read for _ in questions.windows(size=2)] == [6, 10, 16]
    assert Questions([], [], upper).num_bytes == 0


def test_a_file_and_a_pipe_have_the_same_lines(tmp_path, monkeypatch):
    content = b"x\ry\r\nz\r\r\n\nlast"
    (tmp_path / "a").write_bytes(content)
    of_file = list(Questions([], [tmp_path / "a"], str).windows())
    monkeypatch.setattr(sys, "stdin", piped(content))
    assert list(Questions([], [], str).windows()) == of_file == [["x\ry", "z\r", "last"]]
    monkeypatch.setattr(sys, "stdin", piped(b"x\ry\r"))
    with pytest.raises(ValueError, match="standard input: its lines end in carriage returns"):
        list(Questions([], [], str).windows())
