"""Cuts objects into chunks, with the event times of their rows: at groups of rows, or at any byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from tidegate.readers.event_time.columns import TimeTally
from tidegate.readers.objects.values import ChunkSurvey, TimeRange

CHUNK_BYTES = 64 << 20
WHOLE_BYTES = 256 << 10  # chunks up to this size are read as a whole
PROBE_BYTES = 64 << 10

Look: TypeAlias = Callable[[TimeTally, int, int], None]
"""Adds the rows that begin in a range of an object to a tally, with their bytes."""

GroupTimes: TypeAlias = tuple[TimeRange | None, int]
"""The range of event times of a group of rows, and the number of its rows without a time."""


class RowGroup(NamedTuple):
    """A group of rows that is read as a whole: Parquet's row group, or ORC's stripe.

    number: its index among all groups of the object, also those without rows.
    """

    number: int
    start: int
    rows: int


def group_surveys(
    groups: Sequence[RowGroup], times: Sequence[GroupTimes], size: int, chunk_bytes: int
) -> list[ChunkSurvey]:
    """Merge successive groups of an object into chunks of at most ``chunk_bytes``; a larger group is a chunk."""
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


def byte_surveys(
    size: int, chunk_bytes: int, look: Look | None, *, row_bytes: int, splits: bool = True
) -> list[ChunkSurvey]:
    """Cut an object into even chunks of at most ``chunk_bytes``, or into one chunk.

    A chunk up to 256 KiB is read whole, and so is an object that is not cut.  Rows and times are exact then.  In other
    chunks, only rows that begin in the first or in the last 64 KiB are read.  If they are longer, these are the first
    and the last row.  The times are right unless a row between is earlier or later than all of these, so they are
    right if rows are in order of time.  Rows are estimated by the mean length of the rows that were read.

    look: reads event times.  None: times are not needed.  Nothing is requested then, and rows are estimated at
        ``row_bytes`` each.
    """
    if not size:
        return []
    count = -(-size // chunk_bytes) if splits else 1
    chunks = pairwise(size * number // count for number in range(count + 1))
    if look is None:
        return [ChunkSurvey(start, end, max((end - start) // row_bytes, 1), None) for start, end in chunks]
    return [_surveyed(look, start, end, whole=not splits) for start, end in chunks]


def _surveyed(look: Look, start: int, end: int, *, whole: bool) -> ChunkSurvey:
    tally = TimeTally()

    def saw(begin: int, stop: int) -> bool:
        before = tally.rows
        look(tally, begin, stop)
        return tally.rows > before

    if whole or end - start <= WHOLE_BYTES:
        saw(start, end)
    elif not _look_at_ends(start, end, saw):
        return tally.survey(start, end, max((end - start) * tally.rows // max(tally.bytes, 1), tally.rows))
    return tally.survey(start, end)


def _look_at_ends(start: int, end: int, saw: Callable[[int, int], bool]) -> bool:
    """Read the first and the last bytes of a range, and more of them until rows begin there.

    saw: reads the rows that begin in a range of bytes, and returns whether there are any.  The ranges of its calls do
        not overlap.

    Returns whether the whole range was read.
    """
    looked, head = start, min(start + PROBE_BYTES, end)
    while not saw(looked, head) and head < end:
        looked, head = head, min(head + 2 * (head - looked), end)
    looked, tail = end, max(end - PROBE_BYTES, head)
    while tail < looked and not saw(tail, looked):
        looked, tail = tail, max(tail - 2 * (looked - tail), head)
    return tail == head
