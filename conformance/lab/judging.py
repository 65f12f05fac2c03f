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
    "backward",
    "dropped",
    "late",
    "past_the_bound",
    "pauses",
    "split_of",
    "starved",
    "watermark_ms",
    "watermarks",
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
    since: Mapping[str, int] | None = None,
    catch_up: bool = False,
) -> str | None:
    """Complain about the first batch that reads a row too early; None: there is none.

    A batch reads no row ``drift_ms`` or more past the oldest next row of all splits, except up to the bound of an
    earlier batch.  Rows at or before the watermark are late and hold back no split.

    disorder_ms: how much further it may read, if cuts are found by probing.
    since: number of the first batch that can know of a row, for rows that were written during the run.
    catch_up: late rows also hold the bound, so the bound of an earlier batch does not count.
    """
    read: set[str] = set()
    furthest_ms = watermark = None
    for batch in batches:
        heads = list(_next_rows(splits, times, read, batch.number, since or {}))
        overdue = {key for key in heads if watermark is not None and times[key] <= watermark}
        slowest = min((key for key in heads if catch_up or key not in overdue), key=times.__getitem__, default=None)
        low_ms = times[slowest] if slowest is not None else None if watermark is None else watermark + 1
        if low_ms is not None:
            bound_ms = low_ms + drift_ms
            if furthest_ms is not None and not (catch_up and overdue):
                bound_ms = max(bound_ms, furthest_ms)
            furthest_ms = max(bound_ms, furthest_ms or bound_ms)
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
    number: int,
    since: Mapping[str, int],
) -> Iterator[str]:
    for keys in splits.values():
        unread = (key for key in keys if key in times and key not in read and since.get(key, 0) <= number)
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


def starved(
    splits: Mapping[int, Sequence[str]], times: Mapping[str, int], batches: Iterable[Batch], patience: int
) -> str | None:
    """Complain about the first split that gives no rows to ``patience`` batches in a row, although it could.

    It could if its next row is not younger than one that the batch reads.  None: there is none.
    """
    unread = {split: [key for key in keys if key in times] for split, keys in splits.items()}
    waiting = dict.fromkeys(splits, 0)
    for batch in batches:
        read = set(batch.keys)
        youngest_ms = max((times[key] for key in read if key in times), default=None)
        for split, keys in unread.items():
            could = youngest_ms is not None and bool(keys) and times[keys[0]] <= youngest_ms
            waiting[split] = waiting[split] + 1 if could and read.isdisjoint(keys) else 0
            if waiting[split] >= patience:
                return (
                    f"split {split} gives nothing to {patience} batches in a row, up to batch {batch.number}, though "
                    f"its row {keys[0]} is no younger than what they read"
                )
            unread[split] = [key for key in keys if key not in read]
    return None


def late(times: Mapping[str, int], batches: Iterable[Batch]) -> str | None:
    """Complain about the first batch with rows at or before the watermark of an earlier one; None: there is none."""
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
    """Complain about the first batch with rows in order that Spark drops; None: there is none.

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


def backward(batches: Iterable[Batch]) -> str | None:
    """Complain about the first batch at which the watermark goes back, or is lost; None: there is none."""
    before = None
    for batch in batches:
        if before is not None and (batch.watermark_ms is None or batch.watermark_ms < before):
            now = "there is none" if batch.watermark_ms is None else f"it is {before - batch.watermark_ms:,} ms less"
            return f"the watermark goes back: after batch {batch.number} {now}"
        before = batch.watermark_ms
    return None


def watermark_ms(
    splits: Mapping[int, Sequence[str]],
    times: Mapping[str, int],
    read: Collection[str],
    *,
    cut_ms: int | None,
    out_of_orderness_ms: int,
    released: Collection[int] = (),
) -> int | None:
    """Return the watermark after some rows are read; None: there is none.

    The minimum over the splits of min(T, next event time), less the out-of-orderness and 1 ms.  For a split without
    unread rows its greatest event time counts.

    cut_ms: T, at which the last batch was cut; None: at nothing.
    released: splits that no longer hold it once they are read: they are idle, or complete.
    """
    holding: list[int] = []
    others: list[int] = []
    for split, keys in splits.items():
        counted = [key for key in keys if key in times]
        unread = [key for key in counted if key not in read]
        if unread:
            holding.append(min(times[unread[0]], times[unread[0]] if cut_ms is None else cut_ms))
        elif counted:
            (others if split in released else holding).append(max(times[key] for key in counted))
    reached_ms = min(holding) if holding else max(others, default=None)
    return None if reached_ms is None else reached_ms - out_of_orderness_ms - 1


def watermarks(
    splits: Mapping[int, Sequence[str]],
    times: Mapping[str, int],
    batches: Iterable[Batch],
    *,
    out_of_orderness_ms: int,
    released: Collection[int] = (),
) -> Iterator[tuple[Batch, int | None]]:
    """Yield each batch with the watermark that must follow it, for splits that do not grow meanwhile."""
    read: set[str] = set()
    least = None
    for batch in batches:
        read.update(batch.keys)
        watermark = watermark_ms(
            splits,
            times,
            read,
            cut_ms=batch.bound_ms,
            out_of_orderness_ms=out_of_orderness_ms,
            released=released,
        )
        least = watermark if least is None else max(least, least if watermark is None else watermark)
        yield batch, least


def _named(keys: Sequence[str]) -> str:
    return ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
