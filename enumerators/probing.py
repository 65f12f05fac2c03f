"""Peeks through a connector's reader, for connectors without an index of their own.

``ReaderPeek`` adapts a SplitReader to SupportsPeek; the planner bisects with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from tidegate.alignment.splits import Extent, Extents, Head, Positions, SplitId, SplitRange
from tidegate.errors import ContractError
from tidegate.readers.contract import ReadTask, SplitReader

__all__ = ["ReaderPeek"]

FirstRecord = Callable[[pa.RecordBatch], Head | None]


class ReaderPeek:
    """Peeks by reading the beginning of a range through the connector's own reader.

    reader: reads lazily; only its first batches are taken.
    first_record: returns the position and event time of the first record to align by in a batch; None: the batch has
        none.

    The enumerator's ``extents`` must set ``known_extents`` to its last answer, because peeks read up to these ends.
    """

    def __init__(self, reader: SplitReader, first_record: FirstRecord) -> None:
        self._reader, self._first_record = reader, first_record
        self.known_extents: Extents = {}

    def peek(self, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return the first record of each split at or after a position, up to its extent."""
        return {split: self._first(split, at, self._extent(split).end) for split, at in positions.items()}

    def latest(self, ends: Positions) -> Mapping[SplitId, int | None]:
        """Return nothing: peeks then find the last record before each end."""
        del ends
        return {}

    def _extent(self, split: SplitId) -> Extent:
        if split not in self.known_extents:
            raise ContractError(f"extents() must set known_extents, or peeks do not know where {split!r} ends")
        return self.known_extents[split]

    def _first(self, split: SplitId, position: int, end: int) -> Head | None:
        batches = self._reader.read(ReadTask((SplitRange(split, position, end),)))
        return next((head for batch in batches if (head := self._first_record(batch)) is not None), None)
