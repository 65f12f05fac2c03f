"""Peeks through a connector's reader, for connectors without an index of their own.

``ReaderPeek`` looks at records through a SplitReader; the planner bisects with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import pyarrow as pa

from tidegate.alignment.splits import Extents, Head, Horizon, Positions, SplitId, SplitRange
from tidegate.readers.contract import ReadTask, SplitReader

HeadsOf = Callable[[pa.RecordBatch, Horizon], Iterable[Head]]
ExtentsOf = Callable[[Collection[SplitId]], Extents]


class ReaderPeek:
    """Peeks by reading the beginning of a range through the connector's own reader; mixed into an enumerator, first.

    reader: reads lazily; only its first batches are taken.
    heads: yields the positions and event times of the records to align by in a batch, in order.
    extents: the enumerator's method of that name.  Each peek calls it, and reads up to the present ends.
    """

    def __init__(self, reader: SplitReader, heads: HeadsOf, extents: ExtentsOf) -> None:
        self._reader, self._heads, self._extents_of = reader, heads, extents

    def peek(self, positions: Positions, horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Return the first record of each split at or after a position, up to its extent.

        None: there is none, or the split has just vanished.
        """
        extents = self._extents_of(positions.keys())
        return {
            split: next(self._records(SplitRange(split, at, extents[split].end), horizon), None)
            if split in extents
            else None
            for split, at in positions.items()
        }

    def held(self, ranges: Collection[SplitRange], horizon: Horizon) -> Mapping[SplitId, Head | None]:
        """Return the first record of each range at or past the horizon."""
        return {
            r.split_id: next((head for head in self._records(r, horizon) if head.event_time_ms >= horizon.at_ms), None)
            for r in ranges
        }

    def _records(self, unread: SplitRange, horizon: Horizon) -> Iterator[Head]:
        for batch in self._reader.read(ReadTask((unread,), horizon=horizon)):
            yield from self._heads(batch, horizon)
