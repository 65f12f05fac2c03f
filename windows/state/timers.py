"""The timers of one key in event time or in processing time; a timer is a time and a window."""

from __future__ import annotations

from bisect import bisect_left, insort

from tidegate.windows.window import Window


class Timers:
    """Timers in order of time, then of window; a timer that is registered twice fires once."""

    def __init__(self, entries: list[tuple[int, Window]]) -> None:
        self.entries = entries

    def register(self, time: int, window: Window) -> None:
        """Add a timer."""
        if not self._place(time, window)[1]:
            insort(self.entries, (time, window))

    def delete(self, time: int, window: Window) -> None:
        """Remove a timer, if it is there."""
        place, is_there = self._place(time, window)
        if is_there:
            del self.entries[place]

    def next_time(self) -> int | None:
        """Return the time of the first timer."""
        return self.entries[0][0] if self.entries else None

    def pop_due(self, time: int) -> tuple[int, Window] | None:
        """Remove and return the first timer if it is due at ``time``; None: it is not, or there is none."""
        return self.entries.pop(0) if self.entries and self.entries[0][0] <= time else None

    def _place(self, time: int, window: Window) -> tuple[int, bool]:
        place = bisect_left(self.entries, (time, window))
        return place, place < len(self.entries) and self.entries[place] == (time, window)
