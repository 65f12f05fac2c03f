"""The chunks of one discovery round, in event-time order: a split of the S3 source.

A manifest never changes, so its name, which holds a checksum, identifies its content forever.  Position ``i`` is its
i-th chunk.  Chunks are sorted by their least event time, those without any first, so the time index is a bisection,
and every other answer a difference of two running sums.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import Head
from tidegate.errors import CheckpointError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.objects.values import CHUNK_SCHEMA, S3Object

CHECKSUM_DIGITS = 16
CHUNKS_PER_BATCH = 1 << 15
_ORDER = [(name, "ascending") for name in ("min_ms", "key", "start")]
_OF_ROUNDS = pa.schema([f.with_type(pa.large_string()) if f.type == pa.string() else f for f in CHUNK_SCHEMA])
"""The columns while they are sorted: the keys of a whole round may have more than 2 GiB."""
VERSION = [*S3Object._fields]
NEVER = np.iinfo(np.int64).min  # lower than any event time


class Manifest:
    """Chunks in event-time order; immutable.  Made by ``build`` or ``parse``.

    number: the number of the discovery round, from 0.
    id: names it forever: ``00000012-0123456789abcdef``, its number and a checksum of ``data``.
    data: the stored content: an Arrow IPC file, compressed with zstd.

    Positions count from 0 to ``len(manifest)``.  All methods but ``overshoot_ms``, ``chunks`` and ``last_chunks``,
    which look at each chunk of a range, take a time that hardly depends on the length.  The first one that needs a
    column makes an array of it; keys and ETags stay compressed.  Thread-safe.
    """

    def __init__(self, number: int, data: bytes) -> None:
        self.number = number
        self.data = data
        self.id = f"{number:08d}-{_checksum(data)}"
        self._last: tuple[int, pa.RecordBatch] | None = None

    @classmethod
    def build(cls, number: int, chunks: pa.Table) -> Manifest:
        """Return the manifest of chunks, as columns of CHUNK_SCHEMA, in any order.

        Equal chunks in another order give an equal manifest.
        """
        chunks = chunks.cast(_OF_ROUNDS).combine_chunks()
        # Chunks without a time come first.  PyArrow before 25 knows no place of nulls by key, and newer ones no other.
        times = pc.fill_null(chunks["min_ms"], NEVER)
        order = pc.sort_indices(
            chunks.set_column(chunks.schema.get_field_index("min_ms"), "min_ms", times), sort_keys=_ORDER
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, CHUNK_SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            for first in range(0, len(order), CHUNKS_PER_BATCH):
                ordered = chunks.take(order.slice(first, CHUNKS_PER_BATCH))
                writer.write_table(ordered.cast(CHUNK_SCHEMA).combine_chunks())
        return cls(number, sink.getvalue().to_pybytes())

    @classmethod
    def parse(cls, id: str, data: bytes) -> Manifest:  # noqa: A002 - the name of what it becomes
        """Return the manifest with an id from the stored content.

        Raises CheckpointError if the data does not match the id, or is of another version of tidegate.
        """
        number, _, checksum = id.partition("-")
        if not number.isdecimal() or checksum != _checksum(data):
            raise CheckpointError(
                f"the manifest {id!r} in the state location is damaged: the checksum of its {len(data)} bytes "
                f"is {_checksum(data)}"
            )
        try:
            schema = pa.ipc.open_file(data).schema
        except (pa.ArrowInvalid, OSError) as problem:
            raise CheckpointError(f"the manifest {id!r} cannot be read: {problem}") from problem
        if schema != CHUNK_SCHEMA:
            raise CheckpointError(f"the manifest {id!r} is of another version of tidegate: its columns differ")
        return cls(int(number), data)

    def __len__(self) -> int:
        return len(self._min_or_none)

    def head(self, position: int) -> Head | None:
        """Return the first chunk at or after a position that holds an event time."""
        return self._head(max(position, self._without_time))

    def lookup(self, event_time_ms: int) -> Head | None:
        """Return the first chunk with all event times at or after a time."""
        return self._head(self._without_time + int(np.searchsorted(self._min_ms, event_time_ms)))

    def end_before(self, event_time_ms: int) -> int:
        """Return the end of the chunks that begin before a time; those without times come first."""
        head = self.lookup(event_time_ms)
        return len(self) if head is None else head.position

    def latest(self, end: int) -> int | None:
        """Return the greatest event time in the chunks before a position."""
        if end <= self._without_time:
            return None
        return int(self._latest_ms[end - 1])

    def cost(self, start: int, end: int) -> Cost:
        """Return the cost of the chunks from ``start`` to ``end``, exclusive.

        A file counts with its first chunk, so that ranges add up.
        """
        rows, size, files = (int(sums[end] - sums[start]) for sums in self._sums)
        return Cost(rows=rows, bytes=size, files=files)

    def chunks(self, start: int, end: int) -> pa.RecordBatch:
        """Return the chunks from ``start`` to ``end``, exclusive; pickled, it is as small as they are."""
        parts = []
        for index in range(start // CHUNKS_PER_BATCH, -(-end // CHUNKS_PER_BATCH)):
            first = index * CHUNKS_PER_BATCH
            batch = self._batch(index)
            wanted = np.arange(max(start - first, 0), min(end - first, batch.num_rows))
            # A pickled slice would contain its whole array.
            parts.append(batch.take(pa.array(wanted)))
        joined: list[pa.RecordBatch] = pa.Table.from_batches(parts, CHUNK_SCHEMA).combine_chunks().to_batches()
        return joined[0] if joined else pa.RecordBatch.from_pylist([], CHUNK_SCHEMA)

    def last_chunks(self, start: int, end: int) -> pa.RecordBatch:
        """Return the chunks from ``start`` to ``end`` that are the last of their object in this order.

        When the chunks before ``end`` are read, all chunks of these objects in this manifest are.
        """
        return self.chunks(start, end).filter(pa.array(self._is_last[start:end]))

    def overshoot_ms(self, start: int, end: int, bound_ms: int) -> int:
        """Return by how much the greatest event time in a range of chunks passes a bound; at least 0.

        It happens because a chunk is read whole if its least event time is below the bound.
        """
        greatest = self._max_ms[start:end].max(initial=NEVER)
        return max(0, int(greatest) - bound_ms)

    def _head(self, position: int) -> Head | None:
        if position >= len(self):
            return None
        return Head(position, int(self._min_ms[position - self._without_time]))

    @cached_property
    def _without_time(self) -> int:
        return int(self._min_or_none.null_count)

    @cached_property
    def _min_ms(self) -> Any:
        """The least event times, of the chunks that hold any."""
        return self._min_or_none.slice(self._without_time).to_numpy()

    @cached_property
    def _min_or_none(self) -> pa.Array:
        return self._column("min_ms")

    @cached_property
    def _max_ms(self) -> Any:
        return self._column("max_ms").fill_null(NEVER).to_numpy()

    @cached_property
    def _latest_ms(self) -> Any:
        return np.maximum.accumulate(self._max_ms)

    @cached_property
    def _sums(self) -> tuple[Any, Any, Any]:
        """The rows, the bytes and the files before each position."""
        rows, start, end = (self._column(name).to_numpy() for name in ("rows", "start", "end"))
        return _running(rows, np.int64), _running(end - start, np.int64), _running(start == 0, np.int32)

    @cached_property
    def _is_last(self) -> Any:
        """Whether each chunk is the last of its object."""
        is_last = np.ones(len(self), bool)
        parts, first = [], 0
        for batch in compressed_batches(self.data, [*VERSION, "start", "end"]):
            is_part = pc.or_(pc.greater(batch["start"], 0), pc.less(batch["end"], batch["size"]))
            positions = pa.array(np.arange(first, first + batch.num_rows))
            parts.append(batch.select(VERSION).append_column("position", positions).filter(is_part))
            first += batch.num_rows
        if parts:
            cut = pa.Table.from_batches(parts)
            is_last[cut["position"].to_numpy()] = False
            is_last[cut.group_by(VERSION).aggregate([("position", "max")])["position_max"].to_numpy()] = True
        return is_last

    def _column(self, name: str) -> pa.Array:
        columns = [batch.column(name) for batch in compressed_batches(self.data, [name])]
        return pa.concat_arrays(columns or [pa.array([], CHUNK_SCHEMA.field(name).type)])

    def _batch(self, index: int) -> pa.RecordBatch:
        """Return some chunks; consecutive ranges often need the last batch again."""
        last = self._last
        if last is None or last[0] != index:
            # A reader is not thread-safe.
            self._last = last = (index, pa.ipc.open_file(self.data).get_batch(index))
        return last[1]


def compressed_batches(data: bytes, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a manifest's data; names: only these columns are decompressed."""
    fields = None if names is None else [CHUNK_SCHEMA.get_field_index(name) for name in names]
    file = pa.ipc.open_file(data, options=pa.ipc.IpcReadOptions(included_fields=fields))
    for index in range(file.num_record_batches):
        yield file.get_batch(index)


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:CHECKSUM_DIGITS]


def _running(values: Any, kind: type[np.generic]) -> Any:
    sums = np.zeros(len(values) + 1, kind)
    np.cumsum(values, out=sums[1:])
    return sums
