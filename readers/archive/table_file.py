"""The records of a partition in a file of an archive, which may hold others, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.readers.archive.archive import Group, Partition, in_order
from tidegate.readers.archive.columns import leaves_of, value_at
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import BATCH_BYTES, MOST_ROWS, int64_values, integers, repeated, repeated_text
from tidegate.readers.formats.parquet import column_ranges, row_bytes, statistics_times
from tidegate.readers.objects.file import ObjectFile
from tidegate.readers.objects.values import SMALL_BYTES

_EVER = 2**63 - 1
_NO_TIME_US = -1000  # a record without a timestamp has -1 ms in Kafka
_WHERE = ("topic", "partition", "offset")


class TableFile(NamedTuple):
    """A file of an archive, as far as it is about one partition.

    path: its address.
    fixed: the values of columns that are the same in all its rows, and perhaps not in the file.
    paths: where its columns are, see ``TableArchive.paths_in``; a column that it lacks is null.
    deleted: what the table's library says of deleted rows, see ``TableArchive.deleted_rows``.
    """

    path: str
    size: int
    topic: str
    partition: int
    first: int
    next: int
    fixed: tuple[tuple[str, Any], ...]
    paths: Any
    deleted: Any = None


class OpenTable:
    """An open data file.  source: where ranges are held ahead of their use; None: it would not be faster."""

    def __init__(
        self,
        parquet: pq.ParquetFile,
        source: ObjectFile | None,
        file: TableFile,
        paths: Mapping[str, str],
        deleted: npt.NDArray[np.int64],
    ) -> None:
        self._parquet, self._source, self._file = parquet, source, file
        metadata = parquet.metadata
        self._leaves = {metadata.schema.column(leaf).path: leaf for leaf in range(metadata.num_columns)}
        self._deleted = deleted
        there = {path.split(".")[0] for path in self._leaves}
        self._paths = {name: path for name, path in paths.items() if path.split(".")[0] in there}
        self._fixed = {name: value for name, value in file.fixed if name not in self._paths}
        if "timestamp" not in self._paths:
            raise pa.ArrowInvalid("it has no column of the record's timestamp")
        if lacking := [name for name in _WHERE if name not in self._paths and self._fixed.get(name) is None]:
            raise pa.ArrowInvalid(f"it has rows without the {lacking[0]} of the record")
        rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        self._begins = np.cumsum([0, *rows])
        self.groups = [group for number, count in enumerate(rows) if count and (group := self._group(number))]

    def _group(self, number: int) -> Group | None:
        least, most = self._bounds(number, "partition")
        if not least <= self._file.partition <= most and self._file.topic:
            return None
        first, last = self._bounds(number, "offset")
        times = statistics_times(self._parquet.metadata, number, self._leaf("timestamp"), None)
        max_ms = times[0].max_ms if times is not None and times[0] is not None else _EVER
        return Group(number, max(first, self._file.first), min(last, self._file.next - 1), max_ms)

    def _leaf(self, name: str) -> int:
        return self._leaves[self._paths[name]]

    def _bounds(self, number: int, name: str) -> tuple[int, int]:
        if name not in self._paths:
            return self._fixed[name], self._fixed[name]
        statistics: Any = self._parquet.metadata.row_group(number).column(self._leaf(name)).statistics
        if statistics is None or not statistics.has_min_max:
            return 0, _EVER
        return statistics.min_raw, statistics.max_raw

    def read(
        self, number: int, start: int, end: int, schema: pa.Schema, ahead: Iterable[int] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of a row group that are of the partition."""
        payload = [name for name in schema.names if name in self._paths and name not in _WHERE]
        if self._source is not None:
            paths = [path for name, path in self._paths.items() if name in payload or name in _WHERE]
            wanted = leaves_of(iter(paths), self._leaves)
            self._source.hold(_ranges_ahead(self._parquet.metadata, [*ahead] or [number], wanted))
        rows, offsets = self._rows(number, start, end)
        if len(rows):
            batches = self._picked(number, rows, offsets, schema, payload)
            yield from batches if (offsets[1:] > offsets[:-1]).all() else in_order(batches)

    def _rows(self, number: int, start: int, end: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return which rows of a group are wanted, and their offsets."""
        keys = self._keys(number, ["offset"] if self._is_of_one(number) else _WHERE)
        offsets = _int64(keys["offset"])
        wanted = (offsets >= start) & (offsets < end) & self._kept(number)
        if "partition" in keys.schema.names:
            wanted &= _int64(keys["partition"]) == self._file.partition
        if "topic" in keys.schema.names:
            wanted &= where(pc.equal(keys["topic"].cast(pa.string()), self._file.topic))
        rows = np.flatnonzero(wanted)
        return rows, offsets[rows]

    def _is_of_one(self, number: int) -> bool:
        """Return whether a group has only records of the partition, by its statistics."""
        return self._is_only(number, "partition", self._file.partition) and self._is_only(
            number, "topic", self._file.topic
        )

    def _is_only(self, number: int, name: str, value: int | str) -> bool:
        if name not in self._paths:
            return bool(self._fixed[name] == value)
        statistics: Any = self._parquet.metadata.row_group(number).column(self._leaf(name)).statistics
        known = statistics is not None and statistics.has_min_max and statistics.has_null_count
        return known and not statistics.null_count and statistics.min == statistics.max == value

    def _kept(self, number: int) -> npt.NDArray[np.bool_]:
        begin, end = self._begins[number : number + 2]
        kept = np.ones(end - begin, np.bool_)
        low, high = self._deleted.searchsorted([begin, end])
        kept[self._deleted[low:high] - begin] = False
        return kept

    def _keys(self, number: int, names: Iterable[str]) -> pa.Table:
        paths = {name: self._paths[name] for name in names if name in self._paths}
        table = self._parquet.read_row_group(number, columns=[*paths.values()], use_threads=False)
        for name in set(paths) & set(_WHERE):
            if value_at(table, paths[name]).null_count:
                raise pa.ArrowInvalid(f"it has rows without the {name} of the record")
        return pa.table({name: value_at(table, path) for name, path in paths.items()})

    def _picked(
        self,
        number: int,
        rows: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        schema: pa.Schema,
        payload: list[str],
    ) -> Iterator[pa.RecordBatch]:
        metadata, paths = self._parquet.metadata, [self._paths[name] for name in payload]
        size = row_bytes(metadata, number, leaves_of(iter(paths), self._leaves)) if paths else 8
        most = min(MOST_ROWS, max(1, BATCH_BYTES // max(1, size)))
        if not paths:
            yield self._conformed(None, rows, offsets, schema)
            return
        end = 0
        for raw in self._parquet.iter_batches(most, row_groups=[number], columns=paths, use_threads=False):
            begin, end = end, end + raw.num_rows
            low, high = rows.searchsorted([begin, end])
            if low < high:
                yield self._conformed(raw, rows[low:high] - begin, offsets[low:high], schema)
            if high == len(rows):
                return

    def _conformed(
        self, raw: pa.RecordBatch | None, rows: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], schema: pa.Schema
    ) -> pa.RecordBatch:
        count, file = len(rows), self._file
        is_slice = rows[-1] - rows[0] == count - 1
        picked = None if is_slice else integers(rows, pa.int64())
        columns = []
        for field in schema:
            if field.name == "offset":
                columns.append(integers(offsets, pa.int64()))
            elif field.name == "topic":
                columns.append(repeated_text(file.topic, count))
            elif field.name == "partition":
                columns.append(repeated(file.partition, field.type, count))
            elif raw is None or field.name not in self._paths:
                columns.append(pa.nulls(count, field.type))
            else:
                column = value_at(raw, self._paths[field.name])
                column = _as_kafka(column.slice(rows[0], count) if is_slice else column, field)
                columns.append(column if picked is None else column.take(picked))
        return pa.record_batch(columns, schema=schema)

    def survey(self) -> dict[Partition, tuple[int, int, int]]:
        """Return first, next and greatest time in ms of each partition, by the rows that are not deleted."""
        parts = []
        for group in self.groups:
            keys = self._keys(group.number, [*_WHERE, "timestamp"])
            for name in set(_WHERE) - set(keys.column_names):
                keys = keys.append_column(name, pa.array([self._fixed[name]] * keys.num_rows))
            columns = [
                keys["topic"].cast(pa.string()),
                keys["partition"].cast(pa.int64()),
                keys["offset"].cast(pa.int64()),
                _as_kafka(keys["timestamp"], pa.field("timestamp", pa.timestamp("us", "UTC"))).cast(pa.int64()),
            ]
            rows = np.flatnonzero(self._kept(group.number))
            parts.append(pa.table(columns, [*_WHERE, "us"]).take(integers(rows, pa.int64())))
        if not parts:
            return {}
        found = pa.concat_tables(parts).group_by(["topic", "partition"])
        bounds = found.aggregate([("offset", "min"), ("offset", "max"), ("us", "max")]).to_pylist()
        return {
            (row["topic"], row["partition"]): (row["offset_min"], row["offset_max"] + 1, row["us_max"] // 1000)
            for row in bounds
        }


def _int64(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return int64_values(column.cast(pa.int64()).combine_chunks())


def _as_kafka(column: Any, field: pa.Field) -> Any:
    """Return a column of a table with the type of Kafka's."""
    if field.name == "timestamp":
        if column.type.tz is None:
            column = column.cast(pa.timestamp(column.type.unit, "UTC"))
        column = column.cast(field.type, safe=False)
        return (
            pc.fill_null(column, pa.scalar(_NO_TIME_US, pa.int64()).cast(field.type)) if column.null_count else column
        )
    return column if column.type == field.type else column.cast(field.type)


def where(mask: pa.Array) -> npt.NDArray[np.bool_]:
    """Return where a mask is true; a null is not."""
    return np.asarray(pc.fill_null(mask, fill_value=False).cast(pa.uint8())).astype(np.bool_)


def _ranges_ahead(metadata: Any, numbers: list[int], leaves: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the spans of the next two row groups, and of more if they are small."""
    size = 0
    for count, number in enumerate(numbers):
        if count > 1 and size > SMALL_BYTES:
            return
        for start, end in column_ranges(metadata, number, leaves):
            size += end - start
            yield start, end
