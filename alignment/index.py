"""Asks a source for the positions of event times.

A connector that knows them implements ``SupportsTimeIndex``; any other implements only ``SupportsPeek``.  ``TimeIndex``
has one interface for both, and remembers the answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, TypeVar, runtime_checkable

from tidegate.alignment.known_heads import KnownHeads
from tidegate.alignment.splits import Extent, Extents, Head, Positions, SplitId
from tidegate.errors import ContractError

__all__ = ["SupportsPeek", "SupportsTimeIndex", "TimeIndex"]

_Answer = TypeVar("_Answer")


@runtime_checkable
class SupportsPeek(Protocol):
    """Can look at single records on the driver."""

    def peek(self, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return the first record of each split at or after a position; None: there is none up to the end.

        Called by the planner a few times per batch, for many splits at once.  Skips everything that is not a record to
        align by: holes, control records, aborted records, records whose time is ignored.  Must see exactly what a
        reader would deliver.
        """

    def latest(self, ends: Positions) -> Mapping[SplitId, int | None]:
        """Return the greatest event time in ms among the records of each split before its end.

        Called for splits that are read to their end.  A time may be too small, which holds back the watermark and the
        other splits.  It must never be too great: a record at or after the end must not count.  None means that the
        split has no record before its end.  A split may be left out: peeks then search for its last record before the
        end.
        """


@runtime_checkable
class SupportsTimeIndex(SupportsPeek, Protocol):
    """Knows the positions of event times without reading."""

    def lookup(self, event_time_ms: int, splits: Collection[SplitId]) -> Mapping[SplitId, Head | None]:
        """Return the first of all records of each split at or after an event time; None: there is none now.

        Called by the planner a few times per batch.  The answer is a
        candidate: it may have been read already, and it need not be a record.
        """


class TimeIndex:
    """Asks a source, and remembers its answers.

    The memory only saves requests: without it the answers would be the same.
    """

    def __init__(self, source: SupportsPeek) -> None:
        self._source = source
        self._lookup = source.lookup if isinstance(source, SupportsTimeIndex) else None
        self._known = KnownHeads()
        self._latest: dict[SplitId, tuple[tuple[int, int], int | None]] = {}  # by the begin and the end
        self._extents: Extents = {}
        self.lookups = 0
        self.peeks = 0
        self.sees = self._lookup is not None

    def begin_plan(self, positions: Positions, extents: Extents) -> None:
        """Take the extents; forget records that were read or replaced, and splits that are gone."""
        self.forget(
            [
                split
                for split, before in self._extents.items()
                if (now := extents.get(split)) is not before
                and now is not None
                and (now.epoch != before.epoch or now.end < before.end)
            ]
        )
        self._extents = extents
        self._known.forget_before(positions)
        for split in self._latest.keys() - positions.keys():
            del self._latest[split]

    def forget(self, splits: Collection[SplitId]) -> None:
        """Drop the answers for splits that hold other records now."""
        for split in splits:
            self._known.forget(split)
            self._latest.pop(split, None)

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
        """Return the first record of each split at or after a position; None: there is none yet."""
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
            learn = self._known.learn
            for split, head in _complete("peek", self._source.peek(unknown), unknown).items():
                heads[split] = head
                learn(split, unknown[split], head, self._end(split) or unknown[split])
        return heads

    def _end(self, split: SplitId) -> int | None:
        extent = self._extents.get(split)
        return None if extent is None else extent.end

    def latest(self, extents: Extents) -> dict[SplitId, int | None]:
        """Return the greatest event time of each split before its end; None: it has no record."""
        # Deleted records no longer count, and ignored records never did.
        first_without, known = self._known.first_without, self._latest
        bounds = {s: (e.begin, max(e.begin, first_without(s, e.end))) for s, e in extents.items()}
        stale = {s: bound[1] for s, bound in bounds.items() if s not in known or known[s][0] != bound}
        if stale:
            self.lookups += 1
            answers = dict(self._source.latest(stale))
            answers |= self._last({s: Extent(*bounds[s]) for s in stale if s not in answers})
            known.update({s: (bounds[s], answers[s]) for s in stale})
        return {s: known[s][1] for s in bounds}

    def _last(self, extents: Extents) -> dict[SplitId, int | None]:
        """Return the event time of the last record before each end; None: there is no record.

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
        return {split: last[split].event_time_ms if split in last else None for split in extents}

    def lookup(self, event_time_ms: int, splits: Collection[SplitId]) -> Mapping[SplitId, Head | None]:
        """Return the source's candidates for the first record at or after an event time."""
        if self._lookup is None or not splits:
            return {}
        self.lookups += 1
        return _complete("lookup", self._lookup(event_time_ms, splits), splits)


def _complete(method: str, answers: Mapping[SplitId, _Answer], asked: Collection[SplitId]) -> Mapping[SplitId, _Answer]:
    """Return the answers, after a check that every split has one."""
    for split in asked:
        if split not in answers:
            raise ContractError(f"{method}() was asked for split {split!r} and answered only for others")
    return answers
