"""The table itself.  Every plan of every simulated run is checked against it (``model.World``)."""

from __future__ import annotations

import pytest

from tidegate.alignment.states import STATES, SplitState

LEAVING = {SplitState.IDLE, SplitState.FINISHED, SplitState.REMOVED}


def test_the_table_is_complete() -> None:
    assert set(STATES) == set(SplitState)


@pytest.mark.parametrize("state", SplitState)
def test_only_idle_finished_and_removed_leave_the_minimum(state: SplitState) -> None:
    assert STATES[state].in_minimum is (state not in LEAVING)


@pytest.mark.parametrize("state", [SplitState.PAUSED, SplitState.UNREAD])
def test_flink_35886_and_36751_a_split_with_something_to_read_cannot_become_idle(state: SplitState) -> None:
    assert SplitState.IDLE not in STATES[state].next


@pytest.mark.parametrize("state", SplitState)
def test_every_split_can_be_removed_and_can_come_back(state: SplitState) -> None:
    assert SplitState.REMOVED in STATES[state].next
    assert state in STATES[SplitState.REMOVED].next


def test_who_is_finished_stays_so() -> None:
    assert STATES[SplitState.FINISHED].next == {SplitState.FINISHED, SplitState.REMOVED}


def test_an_idle_split_can_wake() -> None:
    assert STATES[SplitState.IDLE].next >= {SplitState.READING, SplitState.CAUGHT_UP}
