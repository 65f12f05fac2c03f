"""Sorts the chunks of a manifest in a bounded amount of memory, however many a round finds.

A million chunks are some 170 MB as Arrow arrays and 35 MB compressed, so the added, the sorted and the resulting chunks
stay compressed.  Only the columns that the order depends on are decompressed as a whole, during the sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.readers.arrow import compute as pc
from tidegate.readers.objects.values import CHUNK_SCHEMA

CHUNKS_PER_BATCH = 1 << 15
"""The number of chunks in each batch of sorted ones, but the last."""

ROWS_AT_ONCE = 4 * CHUNKS_PER_BATCH  # each such part of the result takes a pass over all added chunks
ORDER = [("min_ms", "ascending"), ("key", "ascending"), ("start", "ascending")]


class ChunkSorter:
    """Collects chunks, and sorts them by their earliest event time (none comes first), then by key and start."""

    def __init__(self) -> None:
        self._files: list[bytes] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, chunks: pa.Table | pa.RecordBatch) -> None:
        """Take chunks, as columns of CHUNK_SCHEMA, best some thousand at a time: each call compresses its own."""
        if chunks.num_rows:
            self._files.append(_compressed(chunks.to_batches() if isinstance(chunks, pa.Table) else [chunks]))
            self._length += chunks.num_rows

    def sorted(self) -> bytes:
        """Return all chunks in order: an Arrow IPC file in batches of CHUNKS_PER_BATCH, compressed with zstd.

        Equal chunks that were added in another order give equal bytes.
        """
        order = self._order()
        return _compressed(
            part.slice(first, CHUNKS_PER_BATCH)
            for at in range(0, len(order), ROWS_AT_ONCE)
            for part in [self._gathered(order[at : at + ROWS_AT_ONCE])]
            for first in range(0, part.num_rows, CHUNKS_PER_BATCH)
        )

    def _order(self) -> Any:
        names = [name for name, _ in ORDER]
        schema = pa.schema([CHUNK_SCHEMA.field(name) for name in names])
        columns = pa.Table.from_batches([batch.select(names) for batch in self._batches(names)], schema)
        order = pc.sort_indices(columns, sort_keys=ORDER).to_numpy().astype(np.int64)
        # Arrow puts chunks without a time last.
        order = np.roll(order, columns.column("min_ms").null_count)
        del columns
        # They used most of the memory, which Arrow would keep for a while.
        pa.default_memory_pool().release_unused()
        return order

    def _batches(self, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        for data in self._files:
            yield from compressed_batches(data, names)

    def _gathered(self, rows: Any) -> pa.RecordBatch:
        """Return rows, which count on from one batch to the next."""
        by_place = np.argsort(rows)
        ascending = rows[by_place]
        parts = []
        begin = 0
        for batch in self._batches():
            first, last = np.searchsorted(ascending, (begin, begin + batch.num_rows))
            parts.append(batch.take(pa.array(ascending[first:last] - begin)))
            begin += batch.num_rows
        back = np.empty(len(rows), np.int64)
        back[by_place] = np.arange(len(rows))
        return pa.concat_batches(parts).take(pa.array(back))


def compressed_batches(data: bytes, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow IPC file of chunks; names: only these columns are decompressed."""
    fields = None if names is None else [CHUNK_SCHEMA.get_field_index(name) for name in names]
    file = pa.ipc.open_file(data, options=pa.ipc.IpcReadOptions(included_fields=fields))
    for index in range(file.num_record_batches):
        yield file.get_batch(index)


def _compressed(batches: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, CHUNK_SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data
