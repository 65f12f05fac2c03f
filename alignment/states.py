"""The states of a split, as one table.

A state is never stored: every plan derives it from positions, extents, idle timers and the bound.  Only ``STATES`` says
which states hold back other splits.

                       +--------------------------------------+
                       v                                      |
    UNREAD <------> READING <------> CAUGHT_UP ------------> IDLE
       ^               ^                 |    <--------------+
       |               v                 v
       +-----------> PAUSED          FINISHED            (any) <-> REMOVED
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tidegate.alignment.splits import SplitId


class SplitState(Enum):
    """The state of a split after a plan."""

    UNREAD = "unread"
    """Has records before the bound, but none of them fit into the batch."""
    READING = "reading"
    """Contributes records to the batch."""
    PAUSED = "paused"
    """Its next record is at or past the bound, or its generator is: nothing is read until the others have caught up."""
    CAUGHT_UP = "caught up"
    """Nothing to read now; more may come at any moment."""
    IDLE = "idle"
    """Settled, with nothing to read for the idle timeout: it no longer holds back the others."""
    FINISHED = "finished"
    """At its configured end, or complete: no more records will come."""
    REMOVED = "removed"
    """Not discovered.  If it comes back, it continues from its old position."""


@dataclass(frozen=True, slots=True)
class StateRule:
    """A row of the table: whether the state counts for the minimum over all splits, and which states may follow."""

    in_minimum: bool
    next: frozenset[SplitState]


_LIVE = frozenset({SplitState.UNREAD, SplitState.READING, SplitState.PAUSED, SplitState.CAUGHT_UP})
_END = frozenset({SplitState.FINISHED, SplitState.REMOVED})

STATES: dict[SplitState, StateRule] = {
    SplitState.UNREAD: StateRule(in_minimum=True, next=_LIVE | _END),
    SplitState.READING: StateRule(in_minimum=True, next=_LIVE | _END | {SplitState.IDLE}),
    # Never IDLE: a paused split has records to read (FLINK-35886, FLINK-36751).
    SplitState.PAUSED: StateRule(in_minimum=True, next=_LIVE | _END),
    SplitState.CAUGHT_UP: StateRule(in_minimum=True, next=_LIVE | _END | {SplitState.IDLE}),
    SplitState.IDLE: StateRule(in_minimum=False, next=_LIVE | _END | {SplitState.IDLE}),
    SplitState.FINISHED: StateRule(in_minimum=False, next=_END),
    SplitState.REMOVED: StateRule(in_minimum=False, next=frozenset(SplitState)),
}


def holders(states: Mapping[SplitId, SplitState]) -> set[SplitId]:
    """Return the splits that count for the minimum over all."""
    # A list, because looking up an enum in a dict or a set is slow, and there may be 10,000 splits.
    outside = [state for state, rule in STATES.items() if not rule.in_minimum]
    return {split for split, state in states.items() if state not in outside}
