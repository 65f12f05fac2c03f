"""Asks a source for the positions of event times, and remembers the answers.

A connector that knows them has ``lookup`` (SupportsTimeIndex); any other can only look at single records (Peeking).
``TimeIndex`` has one interface for both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from tidegate.alignment.splits import NEVER_MS, Extent, Extents, Head, Horizon, Positions, SplitId, SplitRange
from tidegate.errors import ContractError


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
        """Return where the stretch without a record that reaches to an end begins, or the end itself."""
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


_Answer = TypeVar("_Answer")


class Peeking(ABC):
    """Looks at single records on the driver."""

    @abstractmethod
    def peek(self, positions: Positions, horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Return the first record of each split at or after a position, or None up to the end.

        horizon: the one clock of the plan; ``usable_time_ms`` takes it.

        Called by the planner a few times per batch, for many splits at once.  Skips everything that is not a record to
        align by: holes, control records, aborted records, records whose time is ignored.  Must see exactly what a
        reader would deliver.
        """

    def latest(self, ends: Positions, horizon: Horizon) -> Mapping[SplitId, int | None]:
        """Return the greatest event time in ms among the records of each split before its end.

        Called for splits that are read to their end.  A time may be too small, which holds back the watermark and the
        other splits.  It must never be too great: a record at or after the end must not count.  None means that the
        split has no record before its end.  A split may be left out, and by default all are: peeks then search for the
        last record before the end.
        """
        del ends, horizon
        return {}

    def held(self, ranges: Collection[SplitRange], horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Return the first record of each range at or past the horizon; None: it has none.

        Called with ``futureEventTime`` = ``hold``, for the ranges of a plan that were found by probing, because the
        peeks of that step over what is between them.  The default peeks at each record.
        """
        found: dict[SplitId, Head | None] = {}
        ends, left = {r.split_id: r.end for r in ranges}, {r.split_id: r.start for r in ranges}
        while left:
            heads = self.peek(left, horizon)
            inside = {s: head for s in left if (head := heads[s]) is not None and head.position < ends[s]}
            found.update({s: head for s, head in inside.items() if head.event_time_ms >= horizon.at_ms})
            left = {s: head.position + 1 for s, head in inside.items() if s not in found}
        return found


@runtime_checkable
class SupportsTimeIndex(Protocol):
    """Knows the positions of event times without reading."""

    def lookup(self, event_time_ms: int, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return the first record of each split at or after an event time, or None for now.

        Called by the planner a few times per batch.  The answer is a candidate, whatever it is: an index of all records
        may answer with one before the position, with something that is not a record, with a later record than the
        first, or with none.  The planner peeks at the answer and at the record before it, which must be older.  If it
        is not, peeks bisect the split for this batch, which takes more requests, and ``inexactSplits`` counts it.
        """


class TimeIndex:
    """Asks a source, and remembers its answers.

    The memory only saves requests: without it the answers would be the same.  Records that are left out for the future
    are forgotten when their time has come; those that were read before stay left out.

    horizon_ms: the first event time in the future, before the first plan.
    """

    def __init__(self, source: Peeking, horizon_ms: int = NEVER_MS) -> None:
        self._source = source
        self._lookup = source.lookup if isinstance(source, SupportsTimeIndex) else None
        self._known = KnownHeads()
        self._latest: dict[SplitId, tuple[tuple[int, int], int | None]] = {}  # by the begin and the end
        self._extents: Extents = {}
        self.lookups = 0
        self.peeks = 0
        self.sees = self._lookup is not None
        self._horizon_ms = horizon_ms
        self._unheld: dict[SplitId, tuple[int, int]] = {}  # ranges without a record in the future

    def begin_plan(self, positions: Positions, extents: Extents, horizon_ms: int = NEVER_MS) -> None:
        """Take the extents; forget records that were read, replaced or left out until now, and splits that are gone."""
        self.forget(
            [
                split
                for split, before in self._extents.items()
                if (now := extents.get(split)) is not before
                and now is not None
                and (now.epoch != before.epoch or now.end < before.end)
            ]
        )
        if self._extents and horizon_ms < self._horizon_ms:  # the clock went back: a record may be in the future now
            self._known, self._unheld = KnownHeads(), {}
        self._extents, self._horizon_ms = extents, horizon_ms
        self._known.forget_before(positions)
        self._known.forget_due(positions, horizon_ms)
        for split in self._latest.keys() - positions.keys():
            del self._latest[split]

    def forget(self, splits: Collection[SplitId]) -> None:
        """Drop the answers for splits that hold other records now."""
        for split in splits:
            self._known.forget(split)
            self._latest.pop(split, None)
            self._unheld.pop(split, None)

    def stretches_before(self, positions: Positions, least: int) -> dict[SplitId, int]:
        """Return the begins of long stretches without a record to align by that reach up to a split's position.

        least: the least length of a long stretch in positions.  ``recall`` spares another planner the search.
        """
        begins = self._known.stretches_before(positions)
        return {split: start for split, start in begins.items() if positions[split] - start >= least}

    def recall(self, stretches: Positions, positions: Positions) -> None:
        """Take the result of an earlier planner's ``stretches_before`` for the same positions."""
        for split, start in stretches.items():
            self._known.learn(split, start, None, positions.get(split, start))

    def heads(self, positions: Positions) -> dict[SplitId, Head | None]:
        """Return the first record of each split at or after a position."""
        heads: dict[SplitId, Head | None] = {}
        unknown: dict[SplitId, int] = {}
        find = self._known.find
        for split, position in positions.items():
            answer = find(split, position)
            if isinstance(answer, Head):
                heads[split] = answer
            elif position < answer == self._end(split):
                heads[split] = None
            else:
                unknown[split] = answer
        if unknown:
            self.peeks += 1
            learn, horizon = self._known.learn, Horizon(self._horizon_ms)
            for split, head in _complete("peek", self._source.peek(unknown, horizon), unknown).items():
                heads[split] = head
                learn(split, unknown[split], head, self._end(split) or unknown[split], horizon.next_ms)
        return heads

    def _end(self, split: SplitId) -> int | None:
        extent = self._extents.get(split)
        return None if extent is None else extent.end

    def latest(self, extents: Extents) -> dict[SplitId, int | None]:
        """Return the greatest event time of each split before its end."""
        # Deleted records no longer count, and ignored records never did.
        first_without, known = self._known.first_without, self._latest
        bounds = {s: (e.begin, max(e.begin, first_without(s, e.end))) for s, e in extents.items()}
        stale = {s: bound[1] for s, bound in bounds.items() if s not in known or known[s][0] != bound}
        if stale:
            self.lookups += 1
            answers = dict(self._source.latest(stale, Horizon(self._horizon_ms)))
            last = self.last_before({s: Extent(*bounds[s]) for s in stale if s not in answers})
            answers |= {s: None if head is None else head.event_time_ms for s, head in last.items()}
            known.update({s: (bounds[s], answers[s]) for s in stale})
        return {s: known[s][1] for s in bounds}

    def last_before(self, extents: Extents) -> dict[SplitId, Head | None]:
        """Return the last record before each end; None: no record lies between begin and end.

        Steps back from the end in doubling strides until a peek sees a record before the end.  Then it bisects the
        rest, since other records and holes may follow that record.
        """
        last: dict[SplitId, Head] = {}
        # For each split, a position after which there is no record before its end.
        unseen = {split: extent.end for split, extent in extents.items()}
        stride = 1
        while missing := {
            s: max(e.begin, e.end - stride) for s, e in extents.items() if s not in last and unseen[s] > e.begin
        }:
            for split, head in self.heads(missing).items():
                if head is not None and head.position < extents[split].end:
                    last[split] = head
                else:
                    unseen[split] = missing[split]
            stride *= 2
        while between := {s: (h.position + unseen[s] + 1) // 2 for s, h in last.items() if unseen[s] - h.position > 1}:
            for split, head in self.heads(between).items():
                if head is not None and head.position < unseen[split]:
                    last[split] = head
                else:
                    unseen[split] = between[split]
        return {split: last.get(split) for split in extents}

    def held(self, ranges: Collection[SplitRange]) -> dict[SplitId, Head]:
        """Return the first record in the future of each range that holds one.

        Looks through all records of the ranges, once.
        """
        found: dict[SplitId, Head] = {}
        left = []
        for r in ranges:
            start, end = self._unheld.get(r.split_id, (r.start, r.start))
            start, seen = (start, end) if start <= r.start <= end else (r.start, r.start)
            self._unheld[r.split_id] = start, max(seen, r.end)
            if seen < r.end:
                left.append(SplitRange(r.split_id, seen, r.end))
        for split, head in (self._source.held(left, Horizon(self._horizon_ms)) if left else {}).items():
            if head is not None:
                found[split] = head
                self._unheld[split] = self._unheld[split][0], head.position
        return found

    def lookup(self, event_time_ms: int, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return the source's candidates for the first record at or after an event time."""
        if self._lookup is None or not positions:
            return {}
        self.lookups += 1
        return _complete("lookup", self._lookup(event_time_ms, positions), positions)


def _complete(method: str, answers: Mapping[SplitId, _Answer], asked: Collection[SplitId]) -> Mapping[SplitId, _Answer]:
    """Return the answers, after a check that every split has one."""
    for split in asked:
        if split not in answers:
            raise ContractError(f"{method}() was asked for split {split!r} and answered only for others")
    return answers
