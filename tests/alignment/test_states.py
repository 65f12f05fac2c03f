"""The table itself.  Every plan of every simulated run is checked against it (``model.World``)."""

from __future__ import annotations

import pytest

from tidegate.alignment.states import STATES, SplitState, may_follow

LEAVING = {SplitState.IDLE, SplitState.FINISHED, SplitState.REMOVED}


def test_the_table_is_complete() -> None:
    assert set(STATES) == set(SplitState)


@pytest.mark.parametrize("state", SplitState)
def test_only_idle_finished_and_removed_leave_the_minimum(state: SplitState) -> None:
    assert STATES[state].in_minimum is (state not in LEAVING)


@pytest.mark.parametrize("state", [SplitState.PAUSED, SplitState.UNREAD])
def test_flink_35886_and_36751_a_split_with_something_to_read_cannot_become_idle(state: SplitState) -> None:
    assert not may_follow(state, SplitState.IDLE)


@pytest.mark.parametrize("state", SplitState)
def test_every_split_can_be_removed_and_can_come_back(state: SplitState) -> None:
    assert may_follow(state, SplitState.REMOVED)
    assert may_follow(SplitState.REMOVED, state)


@pytest.mark.parametrize("state", SplitState)
def test_who_is_finished_stays_so(state: SplitState) -> None:
    assert may_follow(SplitState.FINISHED, state) is (state in {SplitState.FINISHED, SplitState.REMOVED})


def test_an_idle_split_can_wake() -> None:
    assert may_follow(SplitState.IDLE, SplitState.READING)
    assert may_follow(SplitState.IDLE, SplitState.CAUGHT_UP)
