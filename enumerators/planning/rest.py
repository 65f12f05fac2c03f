"""The rest after a plan that changed nothing: the next plan waits for news, or for the time of the next change."""

from __future__ import annotations

from tidegate.enumerators.clocks import Clocks
from tidegate.enumerators.contract import Json, SplitEnumerator, SupportsWaiting
from tidegate.enumerators.planning.splits import Splits

_LONGEST_S = 5.0  # between two looks at the extents
_POLL_INTERVAL_S = 0.1  # Spark itself asks about 90 times a second while nothing comes


class Rest:
    """Says before each plan whether it can differ from the last one."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._is_resting = False
        self._start: Json | None = None  # the start of the last plan; None: it failed
        self._until_s = float("-inf")

    def begin(self, start: Json, until_s: float) -> None:
        """Rest after a plan from ``start`` that changed nothing, and that may until then change only with an extent."""
        self._is_resting, self._start, self._until_s = True, start, until_s

    def end(self) -> None:
        """Rest no longer, because the last plan changed something."""
        self._is_resting = False

    def wait(self, start: Json, enumerator: SplitEnumerator, splits: Splits, *, bounded: bool) -> bool | None:
        """Wait a little, unless the last plan changed something or all ends are fixed.  Called before each plan.

        Returns whether extents may have changed; None: nothing can have changed, not even by the clock.
        """
        is_known = (
            self._is_resting
            and start == self._start
            and not bounded
            and self._clocks.are_real
            and self._clocks.monotonic() < min(splits.due_s, splits.looked_at_s + _LONGEST_S)
        )
        if is_known and isinstance(enumerator, SupportsWaiting) and not enumerator.wait(_POLL_INTERVAL_S):
            if self._clocks.monotonic() < self._until_s:
                return None
            may_differ = False
        else:
            may_differ = True
            if self._is_resting:
                self._clocks.sleep(max(0.0, splits.looked_at_s + _POLL_INTERVAL_S - self._clocks.monotonic()))
        self._start = None  # a plan that fails looks again
        return may_differ
