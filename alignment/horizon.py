"""Where the future begins: one clock for a batch, for its plan and its readers, however often they run."""

from __future__ import annotations

from dataclasses import dataclass, field

NEVER_MS = 2**63 - 1
"""No event time is at or past it."""


@dataclass(slots=True, unsafe_hash=True)
class Horizon:
    """The event time from which on rows are in the future, and what was found there.

    ``EventTimePolicy.horizon`` makes it from the clock, once for each plan.  The offset keeps it for readers.

    at_ms: the first event time in the future; never changes.
    next_ms: the least event time of a row that was left out because it is in the future.
    """

    at_ms: int = NEVER_MS
    next_ms: int = field(default=NEVER_MS, init=False, compare=False)

    def note(self, event_time_ms: int) -> None:
        """Learn the time of a row that is left out now, and will count later."""
        self.next_ms = min(self.next_ms, event_time_ms)
