"""What any connector can have without an index of its own: peeks through its reader.

``ReaderPeek`` makes SupportsPeek of a SplitReader; the planner bisects with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from tidegate.alignment.splits import Extent, Extents, Head, Positions, SplitId, SplitRange
from tidegate.errors import ContractError
from tidegate.readers.contract import ReadTask, SplitReader

__all__ = ["ReaderPeek", "last_before"]

Peek = Callable[[Positions], Mapping[SplitId, Head | None]]
FirstRecord = Callable[[pa.RecordBatch], Head | None]


class ReaderPeek:
    """Peeks by reading the beginning of a range through the connector's own reader.

    reader: reads lazily; only its first batches are taken.
    first_record: the position and event time of the first record in a batch to align by; None: it
        holds none.

    ``known_extents`` is what the enumerator's ``extents`` last returned, and is set by it: peeks read
    up to there.
    """

    def __init__(self, reader: SplitReader, first_record: FirstRecord) -> None:
        self._reader, self._first_record = reader, first_record
        self.known_extents: Extents = {}

    def peek(self, positions: Positions) -> Mapping[SplitId, Head | None]:
        """Return for each split its first record at or after the position, up to its extent."""
        return {split: self._first(split, at, self._extent(split).end) for split, at in positions.items()}

    def latest(self, ends: Positions) -> Mapping[SplitId, int | None]:
        """Return the event time of the last record before each end."""
        return last_before(self.peek, ends, {split: self._extent(split).begin for split in ends})

    def _extent(self, split: SplitId) -> Extent:
        if split not in self.known_extents:
            raise ContractError(f"extents() must set known_extents, or peeks do not know where {split!r} ends")
        return self.known_extents[split]

    def _first(self, split: SplitId, position: int, end: int) -> Head | None:
        batches = self._reader.read(ReadTask((SplitRange(split, position, end),)))
        return next((head for batch in batches if (head := self._first_record(batch)) is not None), None)


def last_before(peek: Peek, ends: Positions, begins: Positions) -> dict[SplitId, int | None]:
    """Return the event time of the last record before each end; None: there is no record.

    Steps back from the end in doubling strides until a peek sees a record before the end, and then
    bisects what lies between: behind that record there may be others, and holes.
    """
    last: dict[SplitId, Head] = {}
    unseen = dict(ends)  # for each split, a position at and after which there is no record before its end
    stride = 1
    while missing := {
        s: max(begins[s], end - stride) for s, end in ends.items() if s not in last and unseen[s] > begins[s]
    }:
        for split, head in peek(missing).items():
            if head is not None and head.position < ends[split]:
                last[split] = head
            else:
                unseen[split] = missing[split]
        stride *= 2
    while between := {s: (h.position + unseen[s] + 1) // 2 for s, h in last.items() if unseen[s] - h.position > 1}:
        for split, head in peek(between).items():
            if head is not None and head.position < unseen[split]:
                last[split] = head
            else:
                unseen[split] = between[split]
    return {split: last[split].event_time_ms if split in last else None for split in ends}
