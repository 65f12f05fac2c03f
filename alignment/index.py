"""Asking a source where event times stand.

A connector that knows where event times stand offers ``SupportsTimeIndex``; any other offers
``SupportsPeek`` alone.  ``TimeIndex`` makes one thing of both and remembers what it has seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, TypeVar, runtime_checkable

from tidegate.alignment.splits import Extent, Extents, Head, Positions, SplitId
from tidegate.errors import ContractError

__all__ = ["SupportsPeek", "SupportsTimeIndex", "TimeIndex"]

_Answer = TypeVar("_Answer")


@runtime_checkable
class SupportsPeek(Protocol):
    """Can look at single records on the driver."""

    def peek(self, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return for each split its first record at or after the position; None: none up to the end.

        Called by the planner a few times per batch, for many splits at once.  Everything that is
        not a record to align by is stepped over: holes, control records, aborted records, records
        whose time is to be ignored.  Must see what a reader would deliver, no more and no less.
        """

    def latest(self, ends: Positions) -> Mapping[SplitId, int | None]:
        """Return for each split the greatest event time in ms among the records before its end.

        Called for splits that are read to their end.  May be too small but never too great: a
        record at or after the end must not count.  None: the split holds no record before it.
        """


@runtime_checkable
class SupportsTimeIndex(SupportsPeek, Protocol):
    """Knows where event times stand without reading."""

    def lookup(self, event_time_ms: int, splits: Collection[SplitId]) -> Mapping[SplitId, Head | None]:
        """Return for each split its first record, of all it holds, at or after an event time.

        Called by the planner a few times per batch.  None: no such record now.  The answer is a
        candidate: it may lie before what is still unread, and it may be no record at all.
        """


class TimeIndex:
    """Asks a source, and remembers what it said of records.

    Memory saves requests and decides nothing: one that has forgotten everything answers the same.
    """

    def __init__(self, source: SupportsPeek) -> None:
        self._source = source
        self._lookup = source.lookup if isinstance(source, SupportsTimeIndex) else None
        self._heads: dict[SplitId, dict[int, Head]] = {}
        self._latest: dict[SplitId, tuple[Extent, int | None]] = {}
        self.lookups = 0
        self.peeks = 0

    @property
    def sees(self) -> bool:
        """Whether the source can look up times at all."""
        return self._lookup is not None

    def forget_before(self, positions: Positions) -> None:
        """Drop what is known of records that are read by now, and of splits that are gone."""
        for split in self._heads.keys() - positions.keys():
            del self._heads[split]
        for split in self._latest.keys() - positions.keys():
            del self._latest[split]
        for split, heads in self._heads.items():
            position = positions[split]
            for asked in [asked for asked in heads if asked < position]:
                del heads[asked]

    def heads(self, positions: Positions) -> dict[SplitId, Head | None]:
        """Return for each split its first record at or after the position; None: none yet."""
        known: dict[SplitId, Head | None] = {}
        unknown: dict[SplitId, int] = {}
        for split, position in positions.items():
            heads = self._heads.get(split)
            head = None if heads is None else heads.get(position)
            if head is None:
                unknown[split] = position
            else:
                known[split] = head
        if unknown:
            self.peeks += 1
            for split, head in _complete("peek", self._source.peek(unknown), unknown).items():
                known[split] = head
                if head is not None:
                    heads = self._heads.setdefault(split, {})
                    heads[unknown[split]] = heads[head.position] = head
        return known

    def latest(self, extents: Extents) -> dict[SplitId, int | None]:
        """Return for each split the greatest event time before its end; None: it holds no record."""
        # Not by the end alone: records that were deleted since do not count any more.
        stale = {s: extent.end for s, extent in extents.items() if self._latest.get(s, (None,))[0] != extent}
        if stale:
            self.lookups += 1
            answers = _complete("latest", self._source.latest(stale), stale)
            self._latest.update({s: (extents[s], answers[s]) for s in stale})
        return {s: self._latest[s][1] for s in extents}

    def lookup(self, event_time_ms: int, splits: Collection[SplitId]) -> Mapping[SplitId, Head | None]:
        """Return the source's candidates for the first record at or after an event time."""
        if self._lookup is None or not splits:
            return {}
        self.lookups += 1
        return _complete("lookup", self._lookup(event_time_ms, splits), splits)


def _complete(method: str, answers: Mapping[SplitId, _Answer], asked: Collection[SplitId]) -> Mapping[SplitId, _Answer]:
    """Return the answers, having checked that there is one for every split that was asked for."""
    for split in asked:
        if split not in answers:
            raise ContractError(f"{method}() was asked for split {split!r} and answered only for others")
    return answers
