"""Decodes Kafka's records at memory speed from batches into the columns of Spark's Kafka source.

Compiled loops walk the bytes of the records and write keys, values and headers straight into Arrow
buffers.  They never trust a length: every read is checked against the end of its record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.alignment.splits import NEVER_MS, Head, Horizon
from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.arrays import integers, repeated, repeated_text
from tidegate.readers.compiled import compiled
from tidegate.readers.event_time.units import LARGEST_MS
from tidegate.readers.kafka.batches import TOO_LARGE_TIMESTAMP, RecordBatch
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.rows import HEADER_LIST, MICROSECONDS, arrow_schema
from tidegate.readers.plain_text import java_text

Bytes: TypeAlias = "npt.NDArray[np.uint8]"
Ends: TypeAlias = "npt.NDArray[np.int32]"
Longs: TypeAlias = "npt.NDArray[np.int64]"
Texts: TypeAlias = "tuple[Ends, Bytes, Bytes]"
"""The buffers of values of variable length: the end of each, a bit if it exists, and all bytes.

Buffers are passed in plain tuples: named tuples cost Numba 0.3 ms per call.
"""
Cursor: TypeAlias = Longs
"""The state of a loop over a batch: one array, which is cheaper for Numba than single numbers.

0 to 2: the progress: in bytes, in records, and the offset delta of the last record. 3 to 4: how many records there are,
and the greatest offset delta. 5 to 6: the first offset delta that is wanted, and the first one that is not. 7 to 12:
base offset, timestamp type, base timestamp, 1 where a record's timestamp delta counts (else 0), the least and the
greatest timestamp delta.
"""

NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1

# The size of a row in the buffers without its topic, key, value and headers.  It has three bits, four int32 ends,
# offset and timestamp, partition and timestamp type.
ROW_BYTES = 1 + 4 * 4 + 2 * 8 + 2 * 4
HEADER_BYTES = 1 + 2 * 4  # the size of a header without its texts

# The status of a loop: at the end; buffers full, or found; broken; a timestamp that is too large.
DONE, FULL, CORRUPT, MISCOUNTED, BEYOND = 0, 1, 2, 3, 4
ROWS, HEADERS, SIZE, WANTED = range(4)  # the counters of a batch that is being filled
VARINT_BITS = 64
BROKEN = 2**62  # a position past every end


def find_record(batch: RecordBatch, records: Bytes, position: int, lowest_ms: int, horizon: Horizon) -> Head | None:
    """Return what ``first_record`` does.  Raises CorruptDataError."""
    cursor = _cursor(batch, position, batch.last_offset)
    status, delta, timestamp_ms, ahead_ms = _find(records, cursor, lowest_ms, horizon.at_ms)
    _require_sound(status, batch)
    horizon.note(ahead_ms)
    return None if status == DONE else Head(batch.base_offset + delta, timestamp_ms)


def _cursor(batch: RecordBatch, start: int, end: int) -> Cursor:
    """Return the initial state of a loop that takes the offsets ``start <= offset < end`` of a batch."""
    base, last = batch.base_offset, batch.last_offset - batch.base_offset
    base_ms = batch.base_timestamp_ms if batch.append_time_ms is None else batch.append_time_ms
    if abs(base_ms) > LARGEST_MS:
        raise _beyond(batch)
    if batch.append_time_ms is not None:
        times = (LOG_APPEND_TIME, base_ms, 0, -BROKEN, BROKEN)
    else:
        kind = CREATE_TIME if batch.has_timestamps else NO_TIMESTAMP_TYPE
        times = (kind, base_ms, 1, -LARGEST_MS - base_ms, LARGEST_MS - base_ms)
    wanted = max(start - base, 0), min(end - base, last + 1)
    return np.array((0, 0, -1, batch.count, last, *wanted, base, *times), np.int64)


def _require_sound(status: int, batch: RecordBatch) -> None:
    if status == CORRUPT:
        raise _impossible(batch)
    if status == BEYOND:
        raise _beyond(batch)
    if status == MISCOUNTED:
        raise CorruptDataError(f"the record batch at offset {batch.base_offset} does not hold {batch.count} records")


def _impossible(batch: RecordBatch) -> CorruptDataError:
    return CorruptDataError(f"the record batch at offset {batch.base_offset} holds a record with an impossible field")


def _beyond(batch: RecordBatch) -> CorruptDataError:
    return CorruptDataError(f"the record batch at offset {batch.base_offset} holds a record with {TOO_LARGE_TIMESTAMP}")


class RecordDecoder:
    """Gathers the records of one partition into Arrow batches of at most ``max_batch_bytes``.

    A larger record becomes a batch of its own.  Small batches of Kafka are merged, and large ones are cut.
    """

    def __init__(self, partition: TopicPartition, *, include_headers: bool, max_batch_bytes: int) -> None:
        self._partition = partition
        self._schema = arrow_schema(include_headers=include_headers)
        self._include_headers = include_headers
        self._max_batch_bytes = max_batch_bytes
        self._columns: _Columns | None = None

    def add(self, batch: RecordBatch, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Decode the records of ``batch`` with ``start <= offset < end``; yield the Arrow batches that became full.

        Raises CorruptDataError if the checksum, a length or a count in the batch is wrong.
        """
        if batch.base_offset >= end or batch.last_offset < start:
            return
        records = batch.records()
        cursor = _cursor(batch, start, end)
        while True:
            columns = self._columns = self._columns or self._new_columns(self._max_batch_bytes)
            status = columns.fill(records, cursor)
            _require_sound(status, batch)
            if status == DONE:
                return
            if columns.is_empty:
                self._columns = self._new_columns(columns.wanted_bytes)
            else:
                yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the records that no batch has delivered yet, if any."""
        columns, self._columns = self._columns, None
        if columns is not None and not columns.is_empty:
            yield columns.to_arrow(self._partition, self._schema)

    def _new_columns(self, capacity: int) -> _Columns:
        return _Columns(capacity, ROW_BYTES + 4 + len(self._partition.topic), include_headers=self._include_headers)


class _Columns:
    """One Arrow batch that is being filled.

    Each buffer has room for ``capacity`` bytes, so that only the sum needs checking; the system allocates memory only
    for the parts that are written.
    """

    def __init__(self, capacity: int, row_bytes: int, *, include_headers: bool) -> None:
        self._capacity = capacity
        self._row_bytes = row_bytes
        self._include_headers = include_headers
        rows = capacity // row_bytes + 1
        headers, header_bytes = (capacity // HEADER_BYTES + 1, capacity) if include_headers else (0, 0)
        self._used = np.zeros(4, np.int64)
        self._offsets = np.empty(rows, np.int64)
        self._timestamps = np.empty(rows, np.int64)
        self._timestamp_types = np.empty(rows, np.int32)
        self._keys = _allocate(rows, capacity)
        self._values = _allocate(rows, capacity)
        self._headers = _allocate(rows if include_headers else 0, 0)
        self._header_keys = _allocate(headers, header_bytes)
        self._header_values = _allocate(headers, header_bytes)

    @property
    def is_empty(self) -> bool:
        return not self._used[ROWS]

    @property
    def wanted_bytes(self) -> int:
        """The capacity that the next record needs; it did not fit."""
        return int(self._used[WANTED])

    def fill(self, records: Bytes, cursor: Cursor) -> int:
        """Add records from the present state of the loop, and advance it; return a status."""
        return _fill(
            records,
            cursor,
            self._used,
            (self._offsets, self._timestamps, self._timestamp_types),
            self._keys,
            self._values,
            (self._headers, self._header_keys, self._header_values),
            self._capacity,
            self._row_bytes,
            self._include_headers,
        )

    def to_arrow(self, partition: TopicPartition, schema: pa.Schema) -> pa.RecordBatch:
        rows = int(self._used[ROWS])
        columns = [
            _to_arrow(self._keys, pa.binary(), rows),
            _to_arrow(self._values, pa.binary(), rows),
            repeated_text(partition.topic, rows),
            repeated(partition.partition, pa.int32(), rows),
            integers(self._offsets[:rows], pa.int64()),
            integers(self._timestamps[:rows], pa.timestamp("us", "UTC")),
            integers(self._timestamp_types[:rows], pa.int32()),
        ]
        if self._include_headers:
            headers = int(self._used[HEADERS])
            texts = [
                _as_texts(_to_arrow(self._header_keys, pa.string(), headers)),
                _to_arrow(self._header_values, pa.binary(), headers),
            ]
            pairs = pa.StructArray.from_arrays(texts, fields=list(HEADER_LIST.value_type))
            ends, present, _ = self._headers
            buffers = [pa.py_buffer(present), pa.py_buffer(ends[: rows + 1])]
            columns.append(pa.Array.from_buffers(HEADER_LIST, rows, buffers, children=[pairs]))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _allocate(count: int, size: int) -> Texts:
    ends = np.empty(count + 1, np.int32)
    ends[0] = 0
    return ends, np.zeros(count // 8 + 1, np.uint8), np.empty(size, np.uint8)


def _to_arrow(texts: Texts, kind: pa.DataType, count: int) -> pa.Array:
    ends, present, data = texts
    parts = (present, ends[: count + 1], data[: ends[count]])
    return pa.Array.from_buffers(kind, count, [pa.py_buffer(part) for part in parts])


def _as_texts(names: pa.StringArray) -> pa.StringArray:
    """Decode texts as Kafka's Java client does, even if they are not UTF-8."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([java_text(name) for name in names.view(pa.binary()).to_pylist()], pa.string())
    return names


@compiled
def _varint(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Read a zigzag number; return it and its end, which is past ``stop`` if it is broken.

    Starting past ``stop`` is allowed, so that a caller may read several and check once.
    """
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < stop and shift < VARINT_BITS:
        byte = data[at]
        at += 1
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return 0, BROKEN


@compiled
def _record(data: Bytes, at: int) -> tuple[int, int, int, int]:
    """Read a record's first fields; return timestamp delta, offset delta, the begin of its key, its end.

    The end is -1 if it is broken.
    """
    stop = len(data)
    length, at = _varint(data, at, stop)
    if at > stop or length < 1 or length > stop - at:
        return 0, 0, 0, -1
    stop = at + length
    timestamp_delta, at = _varint(data, at + 1, stop)
    offset_delta, at = _varint(data, at, stop)
    if at > stop:
        return 0, 0, 0, -1
    return timestamp_delta, offset_delta, at, stop


@compiled
def _text(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Read a length and skip the bytes it counts; return it (-1: null), their start, and their end.

    The end is past ``stop`` if it is broken.
    """
    length, at = _varint(data, at, stop)
    if at > stop or length < -1 or length > stop - at:
        return 0, 0, BROKEN
    return length, at, at + max(length, 0)


@compiled
def _copy(data: Bytes, start: int, length: int, texts: Texts, index: int) -> None:
    ends, present, target = texts
    size = max(length, 0)
    # The index is unsigned: it cannot count from the end, which lets the compiler copy sixteen bytes at a time.
    source, at = np.uintp(start), np.uintp(ends[index])
    for i in range(np.uintp(size)):
        target[at + i] = data[source + i]
    ends[index + 1] = ends[index] + size
    if length >= 0:
        present[index >> 3] |= np.uint8(1 << (index & 7))


@compiled
def _headers_size(data: Bytes, at: int, stop: int, count: int) -> int:
    """Return the bytes that the headers of a record take in the buffers, or -1 if they are broken."""
    size = 0
    for _ in range(count):
        key_length, _, at = _text(data, at, stop)
        value_length, _, at = _text(data, at, stop)
        if at > stop or key_length < 0:
            return -1
        size += HEADER_BYTES + key_length + max(value_length, 0)
    return size if at == stop else -1


@compiled
def _copy_headers(  # noqa: PLR0917 - Numba takes positions only
    data: Bytes, at: int, stop: int, count: int, headers: tuple[Texts, Texts, Texts], first: int, row: int
) -> None:
    (ends, present, _), keys, values = headers
    for header in range(first, first + count):
        length, text, at = _text(data, at, stop)
        _copy(data, text, length, keys, header)
        length, text, at = _text(data, at, stop)
        _copy(data, text, length, values, header)
    ends[row + 1] = first + count
    if count:
        present[row >> 3] |= np.uint8(1 << (row & 7))


@compiled
def _find(data: Bytes, cursor: Cursor, lowest_ms: int, horizon_ms: int) -> tuple[int, int, int, int]:
    """Return FULL, offset delta and time of the first record from the start on within limits, or another status.

    Also the least time at or past the horizon of the records before it.
    """
    ahead_ms = NEVER_MS
    at, seen, last, count, last_delta, first_delta = cursor[0], cursor[1], cursor[2], cursor[3], cursor[4], cursor[5]
    base_ms, scale, least_ms, greatest_ms = cursor[9], cursor[10], cursor[11], cursor[12]
    while at < len(data):
        timestamp_delta, offset_delta, _, at = _record(data, at)
        if at < 0 or not last < offset_delta <= last_delta:
            return CORRUPT, 0, 0, ahead_ms
        if not least_ms <= timestamp_delta <= greatest_ms:
            return BEYOND, 0, 0, ahead_ms
        timestamp_ms = base_ms + scale * timestamp_delta
        if offset_delta >= first_delta and timestamp_ms >= horizon_ms:
            ahead_ms = min(ahead_ms, timestamp_ms)
        elif offset_delta >= first_delta and timestamp_ms >= lowest_ms:
            return FULL, offset_delta, timestamp_ms, ahead_ms
        seen += 1
        last = offset_delta
    return DONE if seen == count else MISCOUNTED, 0, 0, ahead_ms


@compiled
def _fill(  # noqa: PLR0913, PLR0917 - one loop over bytes; Numba takes no objects
    data: Bytes,
    cursor: Cursor,
    used: Longs,
    numbers: tuple[Longs, Longs, Ends],
    keys: Texts,
    values: Texts,
    headers: tuple[Texts, Texts, Texts],
    capacity: int,
    row_bytes: int,
    include_headers: bool,
) -> int:
    """Add the wanted records from the state of the loop on, and advance it; return a status."""
    offsets, timestamps, timestamp_types = numbers
    at, seen, last, count, last_delta, start, end = (
        cursor[0], cursor[1], cursor[2], cursor[3], cursor[4], cursor[5], cursor[6]
    )  # fmt: skip
    base_offset, timestamp_type, base_ms, scale = cursor[7], cursor[8], cursor[9], cursor[10]
    least_ms, greatest_ms = cursor[11], cursor[12]
    while at < len(data):
        timestamp_delta, offset_delta, field, stop = _record(data, at)
        if stop < 0 or not last < offset_delta <= last_delta:
            return CORRUPT
        if not least_ms <= timestamp_delta <= greatest_ms:
            return BEYOND
        if offset_delta >= end:
            return DONE
        if offset_delta >= start:
            key_length, key, field = _text(data, field, stop)
            value_length, value, field = _text(data, field, stop)
            header_count, field = _varint(data, field, stop)
            headers_size = _headers_size(data, field, stop, header_count) if include_headers else 0
            if field > stop or header_count < 0 or headers_size < 0:
                return CORRUPT
            size = row_bytes + max(key_length, 0) + max(value_length, 0) + headers_size
            if used[SIZE] + size > capacity:
                used[WANTED] = size
                cursor[0], cursor[1], cursor[2] = at, seen, last
                return FULL
            row = used[ROWS]
            offsets[row] = base_offset + offset_delta
            timestamps[row] = (base_ms + scale * timestamp_delta) * MICROSECONDS
            timestamp_types[row] = timestamp_type
            _copy(data, key, key_length, keys, row)
            _copy(data, value, value_length, values, row)
            if include_headers:
                _copy_headers(data, field, stop, header_count, headers, used[HEADERS], row)
                used[HEADERS] += header_count
            used[ROWS] += 1
            used[SIZE] += size
        at = stop
        seen += 1
        last = offset_delta
    return DONE if seen == count else MISCOUNTED
