"""Rounds beside the plans: one at a time, and no round is lost."""

import threading

import pytest

from tests.support.waiting import await_that
from tidegate.enumerators.s3.discovery import background
from tidegate.enumerators.s3.discovery.background import BackgroundRounds


class Rounds(BackgroundRounds):
    """Counts its rounds; a round lasts until the test lets it end."""

    def __init__(self):
        super().__init__(self._one)
        self.begun, self.may_end, self.fault = 0, threading.Event(), None

    def _one(self):
        self.begun += 1
        number = self.begun
        assert self.may_end.wait(60)
        if self.fault is not None:
            raise self.fault
        return number


@pytest.fixture
def rounds(monkeypatch):
    monkeypatch.setattr(background, "_PATIENCE_S", 0.01)
    made = Rounds()
    yield made
    made.may_end.set()
    made.close()


def test_the_first_round_is_waited_for_and_a_later_one_goes_on_beside_the_calls(rounds):
    threading.Timer(0.1, rounds.may_end.set).start()
    assert rounds.found() == 1
    rounds.may_end.clear()
    assert [rounds.found() for _ in range(3)] == [None] * 3
    assert rounds.begun == 2
    rounds.may_end.set()
    await_that(lambda: rounds.found() == 2)


def test_a_round_that_fails_says_so_once_and_another_one_begins(rounds):
    rounds.may_end.set()
    rounds.fault = OSError("the endpoint is away")
    with pytest.raises(OSError, match="away"):
        rounds.found()
    rounds.fault = None
    await_that(lambda: rounds.found() == 2)
