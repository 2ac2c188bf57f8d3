"""The first Ctrl-C asks and says so, the second stops; a closed terminal asks too."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertsmith.runs.interruption import Interruption, agreed
from bertsmith.train.device import ALONE

WAITING = """
import pathlib, sys, time
from bertsmith.runs.interruption import Interruption
with Interruption() as interruption:
    print("waiting", flush=True)
    while not interruption.requested:
        time.sleep(0.01)
    print("as nobody reads any more", flush=True)
    print("and nobody hears", file=sys.stderr, flush=True)
    time.sleep(0.2)
    pathlib.Path(sys.argv[1]).write_text("saved")
"""


@pytest.fixture(autouse=True)
def from_a_terminal() -> Iterator[None]:
    """As where nobody has ignored a closed terminal, as nohup does, around all tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_only_asks(number: signal.Signals) -> None:
    with Interruption() as interruption:
        assert not interruption.requested
        os.kill(os.getpid(), number)
        assert interruption.requested


def test_what_a_signal_does_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    for is_told, num_told in ((True, 1), (False, 0)):
        with Interruption(is_told=is_told):
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        assert capfd.readouterr().err.count("stopping once the step in hand is saved") == num_told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_stops_at_once(number: signal.Signals) -> None:
    with Interruption():
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)  # the shell and the kernel both send it
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_signals_are_given_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_who_tells_late_of_a_closed_terminal_ends_nothing() -> None:
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # else the next ends these tests
    os.kill(os.getpid(), signal.SIGHUP)
    assert interruption.requested
    with Interruption() as later:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not later.requested


def test_a_run_under_nohup_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interruption.requested
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_leaves_time_to_save(tmp_path: Path) -> None:
    terminal, other = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, str(tmp_path / "saved")],
        stdin=other, stdout=other, stderr=other, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(other)
        with open(terminal, "rb", buffering=0) as screen:
            # Whole, with the end of its line: a terminal that closes earlier fails this print.
            assert screen.readline() == b"waiting\r\n"
        process.send_signal(signal.SIGHUP)
        ended = process.wait(60)
    assert (tmp_path / "saved").read_text() == "saved"
    assert ended == 0


@pytest.mark.parametrize("requested", [True, False])
def test_a_process_alone_agrees_with_itself(requested: bool) -> None:
    assert agreed(requested, ALONE) is requested
