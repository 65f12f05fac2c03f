from __future__ import annotations

from typing import NoReturn

import pytest

from tests.support.logs import Clock
from tidegate.errors import DeadlineError, TransientError
from tidegate.readers.retry import LONGEST_PAUSE_S, Deadline


class Pauses(Clock):
    """A clock that remembers the pauses."""

    def __init__(self) -> None:
        super().__init__(100.0)
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        super().sleep(seconds)


def deadline(seconds: float) -> tuple[Deadline, Pauses]:
    clock = Pauses()
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


@pytest.mark.parametrize(
    ("causes", "told"),
    [
        (["no fuel"], "no fuel"),
        (["no fuel", "no crew", "no fuel", "no moon", "no moon"], "no fuel; at last: no moon"),
        ([], "it does not answer"),
    ],
    ids=["the first one", "the last one besides the first", "the only one"],
)
def test_an_attempt_that_the_deadline_cut_short_tells_its_cause_only_if_there_is_no_other(
    causes: list[str], told: str
) -> None:
    waiting, clock = deadline(20)
    for cause in causes:
        waiting.pause(TransientError(cause))
    clock.now += 30
    with pytest.raises(DeadlineError, match=f"^cannot reach the moon within 20 s: {told}$"):
        waiting.pause(TransientError("it does not answer"))


def test_what_remains_serves_as_a_time_out() -> None:
    waiting, clock = deadline(5)
    assert waiting.remaining_s == 5
    clock.now += 10
    assert 0 < waiting.remaining_s < 0.01
