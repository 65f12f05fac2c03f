"""The first record of a batch to align by, which planners ask of every split.

Most often that is the batch's very first record.  Python reads this one.  The compiled loops for the others take a
third of a second to load, and a query's first plan would wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.record.util import decode_varint

from tidegate.readers.event_time.units import LARGEST_MS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tidegate.readers.kafka.records.batches import RecordBatch

__all__ = ["first_record"]

EARLIEST_MS, LATEST_MS = -(2**62), 2**62


def first_record(
    batch: RecordBatch, position: int, *, lowest_ms: int | None = None, highest_ms: int | None = None
) -> tuple[int, int] | None:
    """Return offset and timestamp (ms) of the first record of a batch at or after ``position``, if any.

    Records with a timestamp below ``lowest_ms`` or above ``highest_ms`` are passed over.  Raises
    CorruptDataError.
    """
    if batch.last_offset < position:
        return None
    lowest = EARLIEST_MS if lowest_ms is None else lowest_ms
    highest = LATEST_MS if highest_ms is None else highest_ms
    records = batch.records()
    head = _very_first(batch, records)
    if head is not None and head[0] >= position and lowest <= head[1] <= highest:
        return head

    from tidegate.readers.kafka.records.decoder import find_record

    return find_record(batch, records, position, lowest, highest)


def _very_first(batch: RecordBatch, records: npt.NDArray[np.uint8]) -> tuple[int, int] | None:
    """Return offset and timestamp of the first record, or None if anything about it is doubtful."""
    data = records.data
    try:
        length, start = decode_varint(data)
        timestamp_delta, at = decode_varint(data, start + 1)
        offset_delta, at = decode_varint(data, at)
    except (IndexError, ValueError):
        return None
    offset = batch.base_offset + offset_delta
    base_ms = batch.base_timestamp_ms if batch.append_time_ms is None else batch.append_time_ms
    timestamp_ms = base_ms + (timestamp_delta if batch.append_time_ms is None else 0)
    is_sound = (
        at <= start + length <= len(data)
        and batch.base_offset <= offset <= batch.last_offset
        and max(abs(base_ms), abs(timestamp_delta), abs(timestamp_ms)) <= LARGEST_MS
    )
    return (offset, timestamp_ms) if is_sound else None
