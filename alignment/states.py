"""The states of a split, and how they follow each other.

A state is never stored: every plan derives it from positions, extents, idle timers and the bound.  ``holders`` says
which states hold back other splits.  A paused split never becomes idle: it has records to read (FLINK-35886,
FLINK-36751).

                       +--------------------------------------+
                       v                                      |
    UNREAD <------> READING <------> CAUGHT_UP ------------> IDLE
       ^               ^                 |    <--------------+
       |               v                 v
       +-----------> PAUSED          FINISHED            (any) <-> REMOVED
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tidegate.alignment.splits import SplitId


class SplitState(Enum):
    """The state of a split after a plan."""

    UNREAD = "unread"
    """Has records before the bound, but none of them fit into the batch."""
    READING = "reading"
    """Contributes records to the batch."""
    PAUSED = "paused"
    """Its next record is at or past the bound: nothing is read until the others have caught up."""
    CAUGHT_UP = "caught up"
    """Nothing to read now; more may come at any moment."""
    IDLE = "idle"
    """Settled, with nothing to read for the idle timeout: it no longer holds back the others."""
    FINISHED = "finished"
    """At its configured end, or complete: no more records will come."""
    REMOVED = "removed"
    """Not discovered.  If it comes back, it continues from its old position."""


# A tuple, because looking up an enum in a set is slow, and there may be 10,000 splits.
_RELEASED = (SplitState.IDLE, SplitState.FINISHED, SplitState.REMOVED)


def holders(states: Mapping[SplitId, SplitState]) -> set[SplitId]:
    """Return the splits that count for the minimum over all."""
    return {split for split, state in states.items() if state not in _RELEASED}
