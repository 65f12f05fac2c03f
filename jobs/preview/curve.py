"""Learns from a time index how the event times of a split grow over its positions.  Pure logic.

The index answers with the first record at or after a time.  So it knows the greatest event time up to each position,
and nothing of the rows that are older than one before them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from tidegate.alignment.splits import Head

_LOOKS = 200
_LEAST_SHARE = 1000  # of the rows: a smaller gap is not worth a look
_FLAT_MS = 1000


class Gap(NamedTuple):
    """Rows between two known records.

    start, start_ms: the record at its begin, which is older than all the next ones that are known.
    end: the position after its last row.
    before_ms: all its rows are older; exclusive.
    blind: the index cannot tell more: it answers with a marker, or with an entry of before.
    """

    start: int
    start_ms: int
    end: int
    before_ms: int
    blind: bool = False

    @property
    def is_unsure(self) -> bool:
        """Whether the rows may be of any time before: no look can tell."""
        return self.blind or self.before_ms - self.start_ms <= _FLAT_MS

    @property
    def rows(self) -> int:
        """The number of positions."""
        return self.end - self.start


class Curve:
    """The greatest event time up to each position of a split.

    start, end: its positions, the end exclusive.
    first_ms, latest_ms: the event time of its first record, and the greatest one.
    """

    def __init__(self, start: int, end: int, first_ms: int, latest_ms: int) -> None:
        self.latest_ms = latest_ms
        self.gaps = [Gap(start, first_ms, end, max(latest_ms, first_ms) + 1)]
        self.looks = 0
        self._least_rows = max(2, (end - start) // _LEAST_SHARE)
        self.question = self._next()

    def wants(self, time_ms: int) -> bool:
        """Return whether the answer to a time would tell something."""
        gap = self.gaps[self._place(time_ms)]
        return self.question is not None and gap.start_ms < time_ms < gap.before_ms and self._is_worth(gap)

    def learn(self, time_ms: int, head: Head | None) -> None:
        """Take the index's answer to a time that the curve wants; ``question`` is the next time to look for."""
        self.looks += 1
        place = self._place(time_ms)
        gap = self.gaps[place]
        if head is None or head.position >= gap.end:
            found = [gap._replace(before_ms=time_ms)]
        elif head.position <= gap.start or head.event_time_ms > self.latest_ms:
            found = [gap._replace(blind=True)]
        else:
            later_ms = max(gap.before_ms, head.event_time_ms + 1)
            found = [
                gap._replace(end=head.position, before_ms=time_ms),
                Gap(head.position, head.event_time_ms, gap.end, later_ms),
            ]
        self.gaps[place : place + 1] = found
        self.question = self._next()

    def _place(self, time_ms: int) -> int:
        return max(0, bisect_left(self.gaps, time_ms, key=lambda gap: gap.start_ms) - 1)

    def _is_worth(self, gap: Gap) -> bool:
        return gap.rows >= self._least_rows and not gap.is_unsure

    def _next(self) -> int | None:
        """Return a time in the gap that is the least known: a round one, so that similar splits ask together."""
        worth = [gap for gap in self.gaps if self._is_worth(gap)] if self.looks < _LOOKS else []
        if not worth:
            return None
        gap = max(worth, key=lambda gap: gap.rows * (gap.before_ms - gap.start_ms))
        span_ms = gap.before_ms - gap.start_ms
        places = (span_ms // 4).bit_length() - 1
        return (gap.start_ms + span_ms // 2) >> places << places
