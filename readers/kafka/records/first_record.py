"""Finds the first record to align by in a batch; planners need it for every split.

Compiled loops are faster, but take a third of a second to load, and a query's first plan would wait for them.  So
Python does the work until it has spent about as much time, which most queries never do.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.alignment.horizon import Horizon
from tidegate.alignment.splits import Head
from tidegate.kafka_private import decode_varint
from tidegate.readers.event_time.units import LARGEST_MS
from tidegate.readers.kafka.records.batches import RecordBatch

EARLIEST_MS = -(2**62)
_steps_left = 200_000  # records for which Python takes about as long as the loops take to load


def first_record(
    batch: RecordBatch, position: int, *, lowest_ms: int = EARLIEST_MS, horizon: Horizon | None = None
) -> Head | None:
    """Return position and timestamp of the first record of a batch at or after ``position``, if any.

    Records with a timestamp below ``lowest_ms`` are skipped, and those at or past the horizon, which it notes.  Raises
    CorruptDataError.
    """
    if batch.last_offset < position:
        return None
    horizon = horizon or Horizon()
    records = batch.records()
    record = _walk(batch, records, position, lowest_ms, horizon)
    if record is not None:
        return record

    from tidegate.readers.kafka.records.decoder import find_record

    return find_record(batch, records, position, lowest_ms, horizon)


def _walk(
    batch: RecordBatch, records: npt.NDArray[np.uint8], position: int, lowest_ms: int, horizon: Horizon
) -> Head | None:
    """Return the record; None: none was found, or something on the way is doubtful."""
    global _steps_left  # noqa: PLW0603 - the loops are loaded once per process
    data = records.data
    end, last = 0, batch.base_offset - 1
    base_ms = batch.base_timestamp_ms if batch.append_time_ms is None else batch.append_time_ms
    while _steps_left > 0:
        _steps_left -= 1
        try:
            length, start = decode_varint(data, end)
            timestamp_delta, at = decode_varint(data, start + 1)
            offset_delta, at = decode_varint(data, at)
        except (IndexError, ValueError):
            return None
        end = start + length
        offset = batch.base_offset + offset_delta
        timestamp_ms = base_ms + (timestamp_delta if batch.append_time_ms is None else 0)
        is_sound = (
            at <= end <= len(data)
            and last < offset <= batch.last_offset
            and max(abs(base_ms), abs(timestamp_delta), abs(timestamp_ms)) <= LARGEST_MS
        )
        if not is_sound:
            return None
        if offset >= position and timestamp_ms >= horizon.at_ms:
            horizon.note(timestamp_ms)
        elif offset >= position and timestamp_ms >= lowest_ms:
            return Head(offset, timestamp_ms)
        last = offset
    return None
