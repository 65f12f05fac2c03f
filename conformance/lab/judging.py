"""Computes by brute force what Spark's own watermark drops, from the rows alone.

It shares no code with ``alignment``, or it would repeat a mistake there.  Rows are named by their keys.  ``times``
holds the event time in ms of every row to align by, and of no other.  ``splits`` holds the keys of each split, in the
order of their positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from tidegate.conformance.lab.query import Batch

_NAMED = 3


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
