"""Finds where a run will begin and end, in positions and in event time, before it starts."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

from tidegate.alignment.index import SupportsPeek, TimeIndex
from tidegate.alignment.splits import Extent, Extents, Positions, SplitId
from tidegate.enumerators.contract import Json, SplitEnumerator, SupportsCommit, SupportsValidation
from tidegate.errors import ContractError, DataLossError
from tidegate.sources.source import Source

__all__ = ["RunExtent", "Stretch", "run_extent"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of one split that a run reads.

    start, end: positions, the end exclusive.
    begin_ms, end_ms: the event time of its first record, and the greatest event time.
    """

    start: int
    end: int
    begin_ms: int | None
    end_ms: int | None

    @property
    def rows(self) -> int:
        """The number of positions to read."""
        return max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class RunExtent:
    """The stretch of every split that a run reads, and the enumerator's snapshot."""

    stretches: dict[SplitId, Stretch]
    state: Json | None = None

    @property
    def begin_ms(self) -> int | None:
        """The event time of the first record."""
        return min((s.begin_ms for s in self.stretches.values() if s.begin_ms is not None), default=None)

    @property
    def end_ms(self) -> int | None:
        """The greatest event time."""
        return max((s.end_ms for s in self.stretches.values() if s.end_ms is not None), default=None)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return self.begin_ms is None


def run_extent(source: Source, positions: Positions | None = None, state: Json | None = None) -> RunExtent:
    """Return the extent of a run that starts now.

    positions: where an earlier run of the same query ended.

    Raises ConnectorError if the other side cannot be reached, or something named does not exist.  Raises
    CheckpointError if the state belongs to another system.  Raises DataLossError if a position is no longer within its
    split.
    """
    known: Positions = positions or {}
    with closing(source.enumerator(state)) as enumerator:
        if not isinstance(enumerator, SupportsPeek):
            raise ContractError(f"{type(enumerator).__name__} has no peek(), so nothing is known of event times")
        if isinstance(enumerator, SupportsCommit):
            enumerator.commit(known)
        splits = sorted(enumerator.discover())
        forgotten = set(enumerator.forget({s: position for s, position in known.items() if s not in splits}))
        known = {s: position for s, position in known.items() if s not in forgotten}
        new = [split for split in splits if split not in known]
        starts = {**enumerator.starts(new, first=not known), **{s: known[s] for s in splits if s in known}}
        stops = enumerator.stops(splits)
        extents = enumerator.extents(splits)
        _check(known, extents, enumerator)
        ends = {s: min(e.end, stop) if (stop := stops[s]) is not None else e.end for s, e in extents.items()}
        unread = {s: starts[s] for s in ends if starts[s] < ends[s]}
        index = TimeIndex(enumerator, source.event_time_policy.horizon(time.time_ns() // 1_000_000).at_ms)
        heads = index.heads(unread)
        latest = index.latest({s: Extent(extents[s].begin, ends[s]) for s in unread})
        noted = enumerator.snapshot()
    return RunExtent(
        {
            s: Stretch(
                starts[s],
                ends[s],
                head.event_time_ms if (head := heads.get(s)) is not None else None,
                latest.get(s),
            )
            for s in ends
        },
        noted,
    )


def _check(known: Positions, extents: Extents, enumerator: SplitEnumerator) -> None:
    """Raise DataLossError for a position out of its split, or after other records than those that were read."""
    for split, position in sorted(known.items()):
        if split not in extents:
            raise DataLossError(f"split {split!r}, read up to position {position}, is no longer found")
    if isinstance(enumerator, SupportsValidation) and (divergences := enumerator.validate(known)):
        split = min(divergences)
        raise DataLossError(
            f"split {split!r} was read up to position {known[split]}, but {divergences[split].reason}; "
            "begin a new output"
        )
    for split, position in sorted(known.items()):
        extent = extents[split]
        if not extent.begin <= position <= extent.end:
            raise DataLossError(
                f"split {split!r} was read up to position {position}, but it reaches from {extent.begin} to "
                f"{extent.end} by now: records are gone, or it was recreated"
            )
