"""The first Ctrl-C asks, the second stops."""

from __future__ import annotations

import os
import signal

import pytest

from bertsmith.runs.interruption import Interruption, agreed
from bertsmith.train.device import ALONE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_only_asks(number: signal.Signals) -> None:
    with Interruption() as interruption:
        assert not interruption.requested
        os.kill(os.getpid(), number)
        assert interruption.requested


def test_the_second_signal_stops_at_once() -> None:
    with Interruption():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_signals_are_given_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize("requested", [True, False])
def test_a_process_alone_agrees_with_itself(requested: bool) -> None:
    assert agreed(requested, ALONE) is requested
