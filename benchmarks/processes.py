"""Work in processes of their own: each takes order after order, in turn; or one call.

A process that waits feels nothing of what the others do; its memory, kernels and settings are its
own. This file does not know what is measured.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

Order = TypeVar("Order")
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Worker(Generic[Order, Answer]):
    """A process that answers one order after the other."""

    name: str
    process: BaseProcess
    pipe: Connection

    @staticmethod
    def begin(
        name: str, make: Callable[..., Callable[[Order], Answer]], *arguments: object
    ) -> Worker[Order, Answer]:
        """Starts one that calls `make(*arguments)`, and with every order what that gives."""
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, make, arguments), daemon=True)
        process.start()
        there.close()
        return Worker(name=name, process=process, pipe=here)

    def ask(self, order: Order, seconds: float | None = None) -> Answer:
        """Has an order answered.

        Raises RuntimeError when the process has ended, or did not answer in time and was ended.
        """
        try:
            self.pipe.send(order)
            if not self.pipe.poll(seconds):
                self.process.kill()
                raise RuntimeError(f"{self.name!r} did not answer within {seconds:.0f} s")
            answer: Answer = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise RuntimeError(
                f"the process of {self.name!r} ended: if no error of its own stands above, the "
                f"memory did not suffice; measure fewer at a time, or less"
            ) from error
        return answer

    def end(self) -> None:
        """Closes the pipe, with which the process ends, and waits for that."""
        self.pipe.close()
        self.process.join()


def take_turns(
    workers: Mapping[str, Worker[Order, Answer]],
    orders: Iterable[Order],
    *,
    before_each: Callable[[], None],
    limit: float | None = None,
) -> tuple[dict[str, list[Answer]], dict[str, str]]:
    """Gives every order to one worker after the other, and ends them all.

    Returns the answers of those that answered every order, and why the others were left out: one
    that fails, or needs more than `limit` seconds for an order, is asked no more.
    """
    answers: dict[str, list[Answer]] = {name: [] for name in workers}
    left_out: dict[str, str] = {}
    for order in orders:
        before_each()
        for name in list(answers):
            try:
                answers[name].append(workers[name].ask(order, limit))
            except RuntimeError as error:
                left_out[name] = str(error)
                del answers[name]
    for worker in workers.values():
        worker.end()
    return answers, left_out


def apart(work: Callable[[Order], Answer], order: Order) -> Answer:
    """`work(order)`, in a process that ends with it. Raises RuntimeError where it fails."""
    worker: Worker[Order, Answer] = Worker.begin(work.__name__, _itself, work)
    try:
        return worker.ask(order)
    finally:
        worker.end()


def _itself(work: Callable[[Order], Answer]) -> Callable[[Order], Answer]:
    return work


def _serve(
    pipe: Connection,
    make: Callable[..., Callable[[Order], Answer]],
    arguments: tuple[object, ...],
) -> None:
    answer = make(*arguments)
    while True:
        try:
            order: Order = pipe.recv()
        except EOFError:
            return
        pipe.send(answer(order))
