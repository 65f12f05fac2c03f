"""Learns from a time index how the event times of a split grow over its positions.  Pure logic.

The index answers with the first record at or after a time.  So it knows the greatest event time up to each position,
and nothing of the rows that are older than one before them.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from tidegate.alignment.splits import Head

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
    looks: the most questions.
    """

    def __init__(self, start: int, end: int, first_ms: int, latest_ms: int, looks: int = 200) -> None:
        self.start, self.end = start, end
        self.latest_ms = latest_ms
        self._looks_left = looks
        self._least_rows = max(2, (end - start) // _LEAST_SHARE)
        self._known: list[Gap] = []
        self._waiting: list[tuple[int, Gap]] = []  # the least known one first
        self._add(Gap(start, first_ms, end, max(latest_ms, first_ms) + 1))

    @property
    def gaps(self) -> list[Gap]:
        """All gaps, in the order of positions."""
        return sorted([*self._known, *(gap for _, gap in self._waiting)])

    @property
    def question(self) -> int | None:
        """The time to look for next; None: no look is worth it."""
        if not self._waiting or not self._looks_left:
            return None
        _, gap = self._waiting[0]
        return (gap.start_ms + gap.before_ms) // 2

    def learn(self, head: Head | None) -> None:
        """Take the index's answer to the question."""
        _, gap = heappop(self._waiting)
        time_ms = (gap.start_ms + gap.before_ms) // 2
        self._looks_left -= 1
        if head is None or head.position >= gap.end:
            self._add(gap._replace(before_ms=time_ms))
        elif head.position <= gap.start or head.event_time_ms > self.latest_ms:
            self._add(gap._replace(blind=True))
        else:
            later_ms = max(gap.before_ms, head.event_time_ms + 1)
            self._add(gap._replace(end=head.position, before_ms=time_ms))
            self._add(Gap(head.position, head.event_time_ms, gap.end, later_ms))

    def _add(self, gap: Gap) -> None:
        if gap.rows >= self._least_rows and not gap.is_unsure:
            heappush(self._waiting, (-gap.rows * (gap.before_ms - gap.start_ms), gap))
        else:
            self._known.append(gap)
