from __future__ import annotations

from typing import NoReturn

import pytest

from tidegate.errors import DeadlineError, TransientError
from tidegate.readers.retry import LONGEST_PAUSE_S, Deadline


class Clock:
    """A clock whose time passes only during sleep."""

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


def test_the_first_cause_is_reported_and_not_that_of_an_attempt_which_the_deadline_cut_short() -> None:
    waiting, clock = deadline(20)
    waiting.pause(TransientError("no fuel"))
    clock.now += 30
    with pytest.raises(DeadlineError, match=r"^cannot reach the moon within 20 s: no fuel$"):
        waiting.pause(TransientError("it does not answer"))


def test_the_last_cause_is_reported_besides_the_first_if_it_had_its_time() -> None:
    waiting, clock = deadline(20)
    for cause in "no fuel", "no crew", "no fuel", "no moon", "no moon":
        waiting.pause(TransientError(cause))
    clock.now += 30
    with pytest.raises(DeadlineError, match=r"^cannot reach the moon within 20 s: no fuel; at last: no moon$"):
        waiting.pause(TransientError("it does not answer"))


def test_the_only_cause_is_reported_however_short_its_time() -> None:
    waiting, clock = deadline(20)
    clock.now += 30
    with pytest.raises(DeadlineError, match=r"^cannot reach the moon within 20 s: it does not answer$"):
        waiting.pause(TransientError("it does not answer"))


def test_what_remains_serves_as_a_time_out() -> None:
    waiting, clock = deadline(5)
    assert waiting.remaining_s == 5
    clock.now += 10
    assert 0 < waiting.remaining_s < 0.01
