from __future__ import annotations

from typing import NoReturn

import pytest

from tidegate.errors import ConnectorError, DeadlineError
from tidegate.readers.retry import LONGEST_PAUSE_S, Deadline, TransientError


class Clock:
    """Time that passes only while someone sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def deadline(seconds: float) -> tuple[Deadline, Clock]:
    clock = Clock()
    return Deadline("reach the moon", seconds, clock=clock, sleep=clock.sleep), clock


def wait_for_ever(waiting: Deadline, cause: TransientError) -> NoReturn:
    while True:
        waiting.pause(cause)


def test_pauses_grow_up_to_a_limit_and_end_at_the_deadline() -> None:
    waiting, clock = deadline(20)
    with pytest.raises(DeadlineError) as raised:
        wait_for_ever(waiting, TransientError("no fuel"))
    assert str(raised.value) == "cannot reach the moon within 20 s: no fuel"
    assert clock.now == pytest.approx(120)
    assert clock.pauses[0] < 0.1
    assert clock.pauses[:5] == sorted(clock.pauses[:5])
    assert max(clock.pauses) <= LONGEST_PAUSE_S * 1.2


def test_a_cause_that_had_its_grace_ends_the_waiting() -> None:
    waiting, clock = deadline(20)
    with pytest.raises(ConnectorError, match=r"^cannot reach the moon: no moon$") as raised:
        wait_for_ever(waiting, TransientError("no moon", grace_s=3))
    assert not isinstance(raised.value, DeadlineError)
    assert 103 <= clock.now < 106


def test_what_remains_serves_as_a_time_out() -> None:
    waiting, clock = deadline(5)
    assert waiting.remaining_s == 5
    clock.now += 10
    assert 0 < waiting.remaining_s < 0.01
