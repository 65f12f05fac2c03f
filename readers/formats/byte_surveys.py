"""Surveys objects that are cut at any byte: those that consist of lines, and those of Avro."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

from tidegate.readers.event_time.seen import TimeTally
from tidegate.readers.objects.values import ChunkSurvey

WHOLE_BYTES = 256 << 10  # chunks up to this size are read as a whole
PROBE_BYTES = 64 << 10

Look: TypeAlias = Callable[[TimeTally, int, int], None]
"""Adds the rows that begin in a range of an object to a tally, with their bytes."""


def surveys(
    size: int, chunk_bytes: int, look: Look | None, *, row_bytes: int, splits: bool = True
) -> list[ChunkSurvey]:
    """Cut an object into even chunks of at most ``chunk_bytes``, or into one chunk.

    A chunk up to 256 KiB is read whole, and so is an object that is not cut.  Rows and times are exact then.  In other
    chunks, only rows that begin in the first or in the last 64 KiB are read.  If they are longer, these are the first
    and the last row.  The times are right unless a row between is earlier or later than all of these.  So they are
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
