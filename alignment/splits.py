"""The value types that every layer shares: splits, heads, extents, ranges, and where the future begins.

A *split* is the unit of discovery and of order (Flink: SourceSplit): a Kafka partition, a manifest
of S3 chunks, a shard of a table.  A *position* is an int that grows along the split; it names the
next record that is unread.  Positions may have holes: compare them, never count with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

SplitId: TypeAlias = str
"""The permanent name of a split.  A reader can find the split by this string alone."""

Positions: TypeAlias = Mapping[SplitId, int]
"""The position of the next unread record of each split."""


class Head(NamedTuple):
    """A record that alignment can see: its position and its event time.

    position: the record's position; a read from here yields it first.
    event_time_ms: milliseconds since the epoch, UTC; may be negative.
    """

    position: int
    event_time_ms: int


@dataclass(frozen=True, slots=True)
class Extent:
    """The readable positions of a split.

    begin: the first position that still exists.
    end: exclusive; reading stops here until a later extent is greater.
    settled: False while records at or past ``end`` exist but may not be read yet (a Kafka transaction that is still
        open), and while nobody has looked for more.  An unsettled split never becomes idle.
    complete: nothing will ever be added at ``end``.  Once that is read, the split is finished and holds back no other
        split, even if the source continues.  A source that has read all it found, and will find more, holds back the
        others of its group only by a split that is not complete.
    more: records at or past ``end`` exist that are for a later run: ``end`` is the target of a bounded run.
    available: False while the split cannot be reached.  ``begin`` and ``end`` are then its position, and it holds back
        the others.
    epoch: changes when unread records may differ from those that were seen (KIP-320: leader epoch).  Extents are equal
        whatever their epochs.
    """

    begin: int
    end: int
    settled: bool = True
    complete: bool = False
    more: bool = False
    available: bool = True
    epoch: int | None = field(default=None, compare=False)


Extents: TypeAlias = Mapping[SplitId, Extent]


@dataclass(frozen=True, slots=True)
class SplitRange:
    """The records of one split from ``start`` (inclusive) to ``end`` (exclusive)."""

    split_id: SplitId
    start: int
    end: int


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
