"""Peeks through a connector's reader, for connectors without an index of their own.

``ReaderPeek`` adapts a SplitReader to SupportsPeek; the planner bisects with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pyarrow as pa

from tidegate.alignment.splits import Extents, Head, Positions, SplitId, SplitRange
from tidegate.readers.contract import ReadTask, SplitReader

__all__ = ["ReaderPeek"]

FirstRecord = Callable[[pa.RecordBatch], Head | None]
ExtentsOf = Callable[[Collection[SplitId]], Extents]


class ReaderPeek:
    """Peeks by reading the beginning of a range through the connector's own reader.

    reader: reads lazily; only its first batches are taken.
    first_record: returns the position and event time of the first record to align by in a batch; None: the batch has
        none.
    extents: the enumerator's method of that name.  Each peek calls it, and reads up to the present ends.
    """

    def __init__(self, reader: SplitReader, first_record: FirstRecord, extents: ExtentsOf) -> None:
        self._reader, self._first_record, self._extents_of = reader, first_record, extents

    def peek(self, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return the first record of each split at or after a position, up to its extent.

        None: there is none, or the split has just vanished.
        """
        extents = self._extents_of(positions.keys())
        return {
            split: self._first(SplitRange(split, position, extents[split].end)) if split in extents else None
            for split, position in positions.items()
        }

    def latest(self, ends: Positions) -> Mapping[SplitId, int | None]:
        """Return nothing: peeks then find the last record before each end."""
        del ends
        return {}

    def _first(self, unread: SplitRange) -> Head | None:
        batches = self._reader.read(ReadTask((unread,)))
        return next((head for batch in batches if (head := self._first_record(batch)) is not None), None)
