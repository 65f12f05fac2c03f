"""Remembers the answers of peeks: where the next record to align by is, and where there is none."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from operator import itemgetter
from typing import NamedTuple

from tidegate.alignment.horizon import NEVER_MS
from tidegate.alignment.splits import Head, Positions, SplitId


class _Stretch(NamedTuple):
    """Positions without a record to align by, and the record after them.

    start: inclusive.
    end: exclusive; the position of the record, if there is one.
    due_ms: the least event time among records that are left out because they are in the future.
    """

    start: int
    end: int
    time_ms: int | None
    due_ms: int = NEVER_MS


_start, _end = itemgetter(0), itemgetter(1)


class KnownHeads:
    """Remembers first records to align by, so a long stretch of ignored records is searched once."""

    def __init__(self) -> None:
        self._splits: dict[SplitId, list[_Stretch]] = {}  # at least one each, in order
        self._due_ms = NEVER_MS  # the least of all

    def find(self, split: SplitId, position: int) -> Head | int:
        """Return the first record at or after a position, or the first position about which nothing is known."""
        stretches = self._splits.get(split)
        if stretches is None or position > stretches[-1][1]:  # usually, because a plan continues after the last one
            return position
        while (place := bisect_right(stretches, position, key=_start) - 1) >= 0:
            _, end, time_ms, _ = stretches[place]
            if position > end:
                break
            if time_ms is not None:
                return Head(end, time_ms)
            if position == end:
                break
            position = end
        return position

    def learn(self, split: SplitId, position: int, head: Head | None, end: int, due_ms: int = NEVER_MS) -> None:
        """Take the answer of a peek at a position.

        end: exclusive; where no record was found, the split was searched up to there.
        due_ms: the least event time among the records before it that were left out because they are in the future.
        """
        if head is not None:
            end = head.position
        elif end <= position:
            return
        self._due_ms = min(self._due_ms, due_ms)
        time_ms = None if head is None else head.event_time_ms
        stretches = self._splits.setdefault(split, [])
        if not stretches or position > stretches[-1][1]:
            stretches.append(_Stretch(position, end, time_ms, due_ms))
            return
        first = bisect_left(stretches, position, key=_start)
        if first and (before := stretches[first - 1]).time_ms is None and before.end >= position:
            first -= 1
            position = before.start
            due_ms = min(due_ms, before.due_ms)
        last = bisect_left(stretches, max(end, position + 1), first, key=_start)
        stretches[first:last] = [_Stretch(position, end, time_ms, due_ms)]

    def first_without(self, split: SplitId, end: int) -> int:
        """Return the begin of the stretch without a record that reaches to an end; the end if there is none."""
        stretches = self._splits.get(split)
        if stretches is None or end > stretches[-1][1]:
            return end
        while (place := bisect_left(stretches, end, key=_start) - 1) >= 0 and stretches[place].end >= end:
            end = stretches[place].start
        return end

    def forget(self, split: SplitId) -> None:
        """Drop all that is known of a split."""
        self._splits.pop(split, None)

    def forget_before(self, positions: Positions) -> None:
        """Drop what ends before the positions, and the splits that have no position."""
        known: dict[SplitId, list[_Stretch]] = {}
        for split, stretches in self._splits.items():
            position = positions.get(split)
            if position is not None and stretches[-1].end >= position:
                known[split] = stretches
                if stretches[0].end < position:
                    del stretches[: bisect_left(stretches, position, key=_end)]
        self._splits = known

    def forget_due(self, positions: Positions, horizon_ms: int) -> None:
        """Drop stretches with a record that was in the future, and is not any more.

        What is before the positions was read without that record's time, and stays so.
        """
        if self._due_ms >= horizon_ms:
            return
        known = {
            split: [
                stretch if stretch.due_ms >= horizon_ms else _Stretch(stretch.start, positions[split], None)
                for stretch in stretches
                if stretch.due_ms >= horizon_ms or stretch.start < positions[split]
            ]
            for split, stretches in self._splits.items()
        }
        self._splits = {split: stretches for split, stretches in known.items() if stretches}
        self._due_ms = min((stretch.due_ms for left in known.values() for stretch in left), default=NEVER_MS)

    def stretches_before(self, positions: Positions) -> Mapping[SplitId, int]:
        """Return the begins of the stretches without a record that reach to the positions of splits."""
        begins = {
            split: self.first_without(split, positions[split])
            for split, stretches in self._splits.items()
            if split in positions and stretches[0].start < positions[split]
        }
        return {split: start for split, start in begins.items() if start < positions[split]}
