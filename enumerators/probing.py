"""What any connector can have without an index of its own: peeks through its reader.

``ReaderPeek`` makes SupportsPeek of a SplitReader; the planner bisects with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from tidegate.alignment.splits import Extents, Head, Positions, SplitId, SplitRange
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
        return {
            split: self._first(split, position, self.known_extents[split].end) for split, position in positions.items()
        }

    def latest(self, ends: Positions) -> Mapping[SplitId, int | None]:
        """Return the event time of the last record before each end."""
        return last_before(self.peek, ends, {split: self.known_extents[split].begin for split in ends})

    def _first(self, split: SplitId, position: int, end: int) -> Head | None:
        batches = self._reader.read(ReadTask((SplitRange(split, position, end),)))
        return next((head for batch in batches if (head := self._first_record(batch)) is not None), None)


def last_before(peek: Peek, ends: Positions, begins: Positions) -> dict[SplitId, int | None]:
    """Return the event time of a record near each end: of the last one, but for what lies behind holes.

    Steps back from the end in doubling strides until a peek sees a record before the end.  None:
    there is no record.
    """
    found: dict[SplitId, int | None] = {split: None for split, end in ends.items() if end <= begins[split]}
    stride = 1
    while missing := {s: max(begins[s], end - stride) for s, end in ends.items() if s not in found}:
        for split, head in peek(missing).items():
            if head is not None and head.position < ends[split]:
                found[split] = head.event_time_ms
            elif missing[split] == begins[split]:
                found[split] = None
        stride *= 2
    return found
