"""Merges small batches, because each batch has a fixed cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

ENOUGH_BYTES = 1 << 20  # from this size on, a batch takes far longer to make than to pass to Spark (0.3 ms)


def merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order; small batches are merged until they have ENOUGH_BYTES."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= ENOUGH_BYTES:
            yield from _joined(waiting)
            waiting, size = [], 0
    yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    whole: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole
