"""The judge: computes by brute force what batches may hold, from the rows alone.

It shares no code with ``alignment``, or it would repeat a mistake there.  Rows are named by their keys.  ``times``
holds the event time in ms of every row to align by, and of no other.  ``splits`` holds the keys of each split, in the
order of their positions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from tidegate.conformance.lab.query import Batch

__all__ = [
    "dropped",
    "late",
    "past_the_bound",
    "pauses",
    "split_of",
]

_NAMED = 3


def split_of(key: str) -> int:
    """Return the number of the split that a row was given to."""
    return int(key.partition("#")[0])


def past_the_bound(
    splits: Mapping[int, Sequence[str]],
    times: Mapping[str, int],
    batches: Iterable[Batch],
    drift_ms: int,
    *,
    disorder_ms: int = 0,
) -> str | None:
    """Complain about the first batch that reads a row too early.

    A batch reads no row ``drift_ms`` or more past the oldest next row of all splits, except up to the bound of an
    earlier batch.  Rows at or before the watermark are late and hold back no split.

    disorder_ms: how much further it may read, if cuts are found by probing.
    """
    read: set[str] = set()
    furthest_ms = watermark = None
    for batch in batches:
        heads = list(_next_rows(splits, times, read))
        overdue = {key for key in heads if watermark is not None and times[key] <= watermark}
        slowest = min((key for key in heads if key not in overdue), key=times.__getitem__, default=None)
        low_ms = times[slowest] if slowest is not None else None if watermark is None else watermark + 1
        if low_ms is not None:
            bound_ms = furthest_ms = max(low_ms + drift_ms, low_ms + drift_ms if furthest_ms is None else furthest_ms)
            beyond = [key for key in batch.keys if times.get(key, bound_ms - 1) >= bound_ms + disorder_ms]
            if beyond:
                oldest = "all rows to come were late" if slowest is None else f"the oldest row to come was {slowest}"
                return (
                    f"batch {batch.number} reads {_named(beyond)} at or past the bound: {oldest}, and {beyond[0]} is "
                    f"{times[beyond[0]] - low_ms:,} ms past it; allowed are less than {drift_ms + disorder_ms:,} ms"
                )
        read.update(batch.keys)
        watermark = batch.watermark_ms
    return None


def _next_rows(
    splits: Mapping[int, Sequence[str]],
    times: Mapping[str, int],
    read: Collection[str],
) -> Iterator[str]:
    for keys in splits.values():
        unread = (key for key in keys if key in times and key not in read)
        if (first := next(unread, None)) is not None:
            yield first


def pauses(splits: Mapping[int, Sequence[str]], batches: Iterable[Batch]) -> Iterator[tuple[int, int]]:
    """Yield batch number and split for each batch that reads rows, but none of this split, which has unread ones."""
    unread = {split: set(keys) for split, keys in splits.items()}
    for batch in batches:
        for split, keys in unread.items():
            if batch.keys and keys and keys.isdisjoint(batch.keys):
                yield batch.number, split
            keys.difference_update(batch.keys)


def late(times: Mapping[str, int], batches: Iterable[Batch]) -> str | None:
    """Complain about the first batch with rows at or before the watermark of an earlier one."""
    watermark = None
    for batch in batches:
        late_keys = [key for key in batch.keys if watermark is not None and times.get(key, watermark + 1) <= watermark]
        if late_keys:
            return f"batch {batch.number} reads {_named(late_keys)} at or before the watermark of an earlier batch"
        if batch.watermark_ms is not None:
            watermark = max(batch.watermark_ms, batch.watermark_ms if watermark is None else watermark)
    return None


def dropped(
    splits: Mapping[int, Sequence[str]], times: Mapping[str, int], batches: Iterable[Batch], out_of_orderness_ms: int
) -> str | None:
    """Complain about the first batch with rows in order that Spark drops.

    Spark's watermark is the greatest event time that was delivered, less a delay, here the out-of-orderness.  A batch
    loses rows at or before the watermark of the previous batch (Spark's default), or at or before its own, with
    ``spark.sql.streaming.statefulOperator.allowMultiple=false``.  Both depend on earlier batches alone.
    """
    in_order = set(_in_order(splits, times, out_of_orderness_ms))
    own_ms: int | None = None
    before_ms: int | None = None
    for batch in batches:
        for whose, watermark in (("of the batch before", before_ms), ("of the batch itself", own_ms)):
            dropped_keys = [
                key for key in batch.keys if watermark is not None and times.get(key, watermark + 1) <= watermark
            ]
            lost = [key for key in dropped_keys if key in in_order]
            if lost and watermark is not None:
                return (
                    f"Spark drops {_named(lost)} of batch {batch.number}: by the watermark {whose}, {lost[0]} is "
                    f"late by {watermark - times[lost[0]]:,} ms; that is the greatest earlier time less "
                    f"{out_of_orderness_ms:,} ms"
                )
        greatest_ms = max((times[key] - out_of_orderness_ms for key in batch.keys if key in times), default=own_ms)
        before_ms, own_ms = own_ms, greatest_ms if own_ms is None or greatest_ms is None else max(own_ms, greatest_ms)
    return None


def _in_order(splits: Mapping[int, Sequence[str]], times: Mapping[str, int], out_of_orderness_ms: int) -> Iterator[str]:
    for keys in splits.values():
        counted = [key for key in keys if key in times]
        greatest = accumulate((times[key] for key in counted), max)
        yield from (
            key for key, most_ms in zip(counted, greatest, strict=True) if times[key] >= most_ms - out_of_orderness_ms
        )


def _named(keys: Sequence[str]) -> str:
    return ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
