import time

import pytest

from benchmarks.processes import Worker, apart, take_turns


def adder(more):
    return lambda number: number + more


def failing_at(last):
    def answer(number):
        if number == last:
            raise ValueError("out of luck")
        return number

    return answer


def sleeper():
    return time.sleep


def squared(number):
    if number < 0:
        raise ValueError("out of luck")
    return number**2


def test_orders_are_answered_one_after_the_other_and_the_process_ends():
    worker = Worker.begin("adder", adder, 10)
    assert [worker.ask(number) for number in (1, 2)] == [11, 12]
    worker.end()
    assert worker.process.exitcode == 0
    with pytest.raises(RuntimeError, match="'adder' ended"):
        worker.ask(3)


def test_one_that_fails_is_left_out_and_the_others_take_their_turns():
    before = []
    workers = {
        "adder": Worker.begin("adder", adder, 10),
        "failing": Worker.begin("failing", failing_at, 2),
    }
    answers, left_out = take_turns(
        workers, [1, 2, 3], before_each=lambda: before.append(len(before))
    )
    assert answers == {"adder": [11, 12, 13]}
    assert list(left_out) == ["failing"]
    assert before == [0, 1, 2]
    assert not any(worker.process.is_alive() for worker in workers.values())


def test_one_that_is_too_slow_is_ended():
    worker = Worker.begin("sleeper", sleeper)
    assert worker.ask(0.0) is None
    with pytest.raises(RuntimeError, match="'sleeper' did not answer within 0 s"):
        worker.ask(60.0, 0.2)
    worker.end()
    assert not worker.process.is_alive()


def test_one_call_has_a_process_of_its_own():
    assert apart(squared, 7) == 49
    with pytest.raises(RuntimeError, match="'squared' ended"):
        apart(squared, -1)
