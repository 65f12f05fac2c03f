"""Groups of rows that are read as a whole: Parquet's row groups and ORC's stripes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from tidegate.readers.objects.values import ChunkSurvey, TimeRange

BATCH_BYTES = 8 << 20
"""The maximum size of a batch, unless a single row is larger."""

CHUNK_BYTES = 64 << 20
# The number of rows that are decoded at once.  A dictionary of texts may hide the size of a row.
MOST_ROWS = 16_384
# A row group up to this size is fetched before it is decoded, and a larger one while it is decoded.
HELD_BYTES = 64 << 20
ESTIMATED_ROW_BYTES = 64
HOLE_BYTES = 256 << 10  # a smaller gap is fetched with the ranges around it


class RowGroup(NamedTuple):
    """A group that has rows.

    number: its index among all groups of the object.
    """

    number: int
    start: int
    rows: int


def surveys_of(
    groups: Sequence[RowGroup], times: Sequence[tuple[TimeRange | None, int]], size: int, chunk_bytes: int
) -> list[ChunkSurvey]:
    """Merge successive groups of an object into chunks of at most ``chunk_bytes``; a larger group is a chunk.

    times: the range of event times of each group, and the number of its rows without a time.
    """
    ends = [*(group.start for group in groups), size][1:]
    surveys: list[ChunkSurvey] = []
    for group, end, (span, untimed) in zip(groups, ends, times, strict=True):
        last = surveys[-1] if surveys else None
        # Row groups that start at the same byte cannot be in different chunks.
        if last is not None and (end - last.start <= chunk_bytes or group.start == last.start):
            spans = [part for part in (last.times, span) if part is not None]
            merged = (
                TimeRange(min(part.min_ms for part in spans), max(part.max_ms for part in spans)) if spans else None
            )
            surveys[-1] = ChunkSurvey(last.start, end, last.rows + group.rows, merged, last.rows_without_time + untimed)
        else:
            surveys.append(ChunkSurvey(group.start if surveys else 0, end, group.rows, span, untimed))
    return surveys


def merged_ranges(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges of bytes in order, end exclusive; ranges with a gap of at most HOLE_BYTES become one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start - merged[-1][1] <= HOLE_BYTES:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def null_bytes(kind: pa.DataType) -> int:
    """Return the size of a null, with a byte for its validity."""
    if pa.types.is_struct(kind):
        return 1 + sum(null_bytes(field.type) for field in kind)
    return 1 + (kind.bit_width // 8 if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) else 4)


def within_bounds(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts of at most BATCH_BYTES each, or of one row."""
    # get_total_buffer_size is faster than nbytes, and never less.
    if batch.num_rows <= 1 or batch.get_total_buffer_size() <= BATCH_BYTES or batch.nbytes <= BATCH_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from within_bounds(batch.slice(0, half))
    yield from within_bounds(batch.slice(half))
