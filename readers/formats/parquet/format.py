"""Parquet objects, cut at row groups.  Times come from statistics, and columns are read by ranges of bytes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.conform import position_of, spark_schema
from tidegate.readers.event_time.columns import check_time_type
from tidegate.readers.event_time.seen import TimeTally
from tidegate.readers.formats.parquet.footer import (
    column_ranges,
    leaf_of,
    leaf_types,
    row_bytes,
    row_groups,
    schema_as_spark_reads_it,
    statistics_times,
)
from tidegate.readers.formats.row_groups import (
    BATCH_BYTES,
    HELD_BYTES,
    MOST_ROWS,
    RowGroup,
    surveys_of,
    within_bounds,
)
from tidegate.readers.formats.signatures import SIGNATURE_BYTES, other_format
from tidegate.readers.formats.typed_format import TypedFormat
from tidegate.readers.formats.typed_records import fitted
from tidegate.readers.objects.file import ObjectFile
from tidegate.readers.objects.values import Chunk, ChunkSurvey, S3Object, TimeRange, WriteFile
from tidegate.readers.s3.store import SMALL_BYTES, TAIL_BYTES

# A row group of more than HELD_BYTES is fetched while it is decoded.  Each column then has a buffer within the two
# request sizes, and STREAMED_BYTES is the goal for the buffers of all columns.
STREAMED_BYTES = 64 << 20
LEAST_REQUEST, MOST_REQUEST = 256 << 10, 8 << 20
TRAILER_BYTES = 8  # the footer's length and the magic


@dataclass(frozen=True, slots=True)
class _Opened:
    """An object whose footer was read, and the file if all its bytes were fetched with it."""

    obj: S3Object
    metadata: Any
    whole: pq.ParquetFile | None


@dataclass(frozen=True)
class ParquetFormat(TypedFormat):
    """Objects of Apache Parquet.

    A chunk has successive row groups with at most ``chunk_bytes`` together; a larger row group is a chunk of its own.

    An object of up to SMALL_BYTES is read by one request.  From a larger one, only the requested columns are fetched.
    Memory holds at most HELD_BYTES of a row group and as much of the next one, and at most MOST_ROWS decoded rows.
    INT96 is an instant, as in Spark.
    """

    named: ClassVar[str] = "Parquet"

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """See ObjectFormat.survey.

        The times come from the statistics of the row groups.  The column is read if it has no usable statistics, as for
        texts and INT96, or if reading changes its values.
        """
        with self.decoding(obj):
            opened = self._open(obj)
            groups = row_groups(opened.metadata, obj.size)
            times = [(None, 0)] * len(groups) if column is None else self._times(opened, groups, column)
            return surveys_of(groups, times, obj.size, self.chunk_bytes)

    def read(self, chunk: Chunk, schema: pa.Schema, write: WriteFile | None = None) -> Iterator[pa.RecordBatch]:
        """See ObjectFormat.read.  A batch holds at most BATCH_BYTES, unless a single row is larger."""
        with self.decoding(chunk.source):
            opened = self._open(chunk.source, whole=chunk.size <= SMALL_BYTES)
            groups = row_groups(opened.metadata, chunk.size)
            mine = [group for group in groups if chunk.start <= group.start < chunk.end]
            address = self.store.address(chunk.key)
            with self.bad_records.of_chunk(address, chunk, schema, write, record="row") as records:
                names = _names(opened.metadata, None if records.rescues else records.data_schema)
                for group, batch in self._decoded(opened, mine, names):
                    yield from within_bounds(fitted(records, batch, group.start))

    def schema_of(self, obj: S3Object) -> pa.Schema:
        """See TypedFormat.schema_of."""
        with self.decoding(obj):
            opened = self._open(obj)
            with self._file(opened) as (file, _):
                return spark_schema(schema_as_spark_reads_it(file.schema_arrow, opened.metadata))

    def _decoded(
        self, opened: _Opened, groups: Sequence[RowGroup], names: Sequence[str]
    ) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """Yield the rows of some groups in the types of the object."""
        if not groups:
            return
        metadata = opened.metadata
        if not names:
            for group in groups:
                for start in range(0, group.rows, MOST_ROWS):
                    yield group, pa.record_batch([pa.nulls(min(MOST_ROWS, group.rows - start))], [""])
            return
        leaves = [] if opened.whole else _leaves(metadata, names)
        ranges = [column_ranges(metadata, group.number, leaves) for group in groups] if leaves else []
        streamed = any(sum(end - start for start, end in group_ranges) > HELD_BYTES for group_ranges in ranges)
        request = min(max(STREAMED_BYTES // len(leaves), LEAST_REQUEST), MOST_REQUEST) if streamed else 0
        widest = 1
        with self._file(opened, request) as (file, source):
            for index, group in enumerate(groups):
                if source is not None and not streamed:
                    source.hold(chain.from_iterable(ranges[index : index + 2]))
                widest = max(widest, row_bytes(metadata, group.number, leaves or None))
                rows = min(MOST_ROWS, max(1, BATCH_BYTES // widest))
                for batch in file.iter_batches(rows, row_groups=[group.number], columns=names, use_threads=False):
                    widest = max(widest, batch.nbytes // max(1, batch.num_rows))
                    yield group, batch

    def _times(self, opened: _Opened, groups: Sequence[RowGroup], column: str) -> list[tuple[TimeRange | None, int]]:
        """Return for each row group the range of its times, and the number of its rows without one."""
        metadata = opened.metadata
        with self._file(opened) as (file, _):
            schema = file.schema_arrow
        place = self.time_place(column, list(schema))
        if place is not None and self.may_misfit(schema.field(place).type):
            return [self._probed(opened, group, column, schema.names[place]) for group in groups]
        leaf = leaf_of(metadata, column)
        if leaf is None:
            return [(None, group.rows) for group in groups]
        check_time_type(column, leaf_types(schema)[leaf], self.time_unit)
        path, times = metadata.schema.column(leaf).path, []
        for group in groups:
            by_statistics = statistics_times(metadata, group.number, leaf, self.time_unit)
            times.append(self._probed(opened, group, column, path) if by_statistics is None else by_statistics)
        return times

    def _probed(self, opened: _Opened, group: RowGroup, column: str, path: str) -> tuple[TimeRange | None, int]:
        times, tally = self.seen_times(opened.obj, column), TimeTally()
        for _, batch in self._decoded(opened, [group], [path]):
            times.add(tally, batch, group.start)
        return tally.times, tally.rows_without_time

    def _open(self, obj: S3Object, *, whole: bool = False) -> _Opened:
        """Read the footer of an object, by one request, or by two if it is large; ``whole``: also read the rest."""
        start = 0 if whole else max(0, obj.size - TAIL_BYTES)
        tail = self.store.fetch(obj, start, obj.size)
        trailer = tail[-TRAILER_BYTES:]
        if trailer[4:] == b"PARE":
            raise CorruptDataError("its footer is encrypted")
        if len(trailer) < TRAILER_BYTES or trailer[4:] != b"PAR1":
            head = tail if start == 0 else self.store.fetch(obj, 0, SIGNATURE_BYTES)
            raise CorruptDataError(f"it does not end as Parquet does{other_format(head)}")
        footer_bytes = int.from_bytes(trailer[:4], "little") + TRAILER_BYTES
        if footer_bytes > obj.size:
            raise CorruptDataError(f"its footer would have {footer_bytes} bytes, and it has {obj.size}")
        if footer_bytes > len(tail):
            tail = self.store.fetch(obj, obj.size - footer_bytes, start) + tail
        if len(tail) == obj.size:
            file = _parquet(pa.BufferReader(tail))
            return _Opened(obj, file.metadata, file)
        return _Opened(obj, pq.read_metadata(pa.BufferReader(pa.py_buffer(tail)[-footer_bytes:])), None)

    @contextmanager
    def _file(self, opened: _Opened, request: int = 0) -> Iterator[tuple[pq.ParquetFile, ObjectFile | None]]:
        """Yield the file that Arrow reads, and its source unless it is in memory."""
        if opened.whole is not None:
            yield opened.whole, None
            return
        fetch = functools.partial(self.store.fetch, opened.obj)
        with closing(ObjectFile(opened.obj.size, fetch, SMALL_BYTES)) as source:
            yield _parquet(source, opened.metadata, request), source


def _names(metadata: Any, schema: pa.Schema | None) -> list[str]:
    """Return the names in the object of the columns that a schema names; None: the names of all columns."""
    top: list[str] = metadata.schema.to_arrow_schema().names
    if schema is None or schema.names == top:
        return top
    positions = {at for field in schema if (at := position_of(field.name, top)) is not None}
    return [top[position] for position in sorted(positions)]


def _leaves(metadata: Any, names: Sequence[str]) -> list[int]:
    prefixes = tuple(f"{name}." for name in names)
    paths = [f"{metadata.schema.column(leaf).path}." for leaf in range(metadata.num_columns)]
    return [leaf for leaf, path in enumerate(paths) if path.startswith(prefixes)]


def _parquet(source: Any, metadata: Any = None, request: int = 0) -> pq.ParquetFile:
    # Arrow need not buffer ahead: held ranges are in memory, and the others are fetched while they are decoded.
    return pq.ParquetFile(
        source, metadata=metadata, pre_buffer=False, buffer_size=request, coerce_int96_timestamp_unit="us"
    )
