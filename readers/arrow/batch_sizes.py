"""The sizes of batches: small ones are merged, because each has a fixed cost, and large ones are cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

BATCH_BYTES = 8 << 20
"""The maximum size of a batch, unless a single row is larger."""

MOST_ROWS = 16_384
"""The number of rows that are decoded at once: a dictionary of texts may hide the size of a row."""

ENOUGH_BYTES = 1 << 20
"""From this size on, a batch takes far longer to make than to pass to Spark (0.3 ms)."""


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


def within_bounds(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts of at most BATCH_BYTES each, or of one row."""
    # get_total_buffer_size is faster than nbytes, and never less.
    if batch.num_rows <= 1 or batch.get_total_buffer_size() <= BATCH_BYTES or batch.nbytes <= BATCH_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from within_bounds(batch.slice(0, half))
    yield from within_bounds(batch.slice(half))


def null_bytes(kind: pa.DataType) -> int:
    """Return the size of a null, with a byte for its validity."""
    if pa.types.is_struct(kind):
        return 1 + sum(null_bytes(field.type) for field in kind)
    return 1 + (kind.bit_width // 8 if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) else 4)
