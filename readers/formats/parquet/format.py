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
from tidegate.readers.arrow.conform import spark_schema
from tidegate.readers.event_time.columns import check_time_type
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.group_format import GroupedObject, GroupFormat, GroupTimes
from tidegate.readers.formats.line_ranges import Fetch
from tidegate.readers.formats.parquet.footer import (
    column_ranges,
    leaf_of,
    leaf_types,
    row_bytes,
    row_groups,
    schema_as_spark_reads_it,
    statistics_times,
)
from tidegate.readers.formats.row_groups import BATCH_BYTES, HELD_BYTES, MOST_ROWS, RowGroup
from tidegate.readers.formats.signatures import SIGNATURE_BYTES, other_format
from tidegate.readers.objects.file import ObjectFile
from tidegate.readers.objects.values import SMALL_BYTES, TAIL_BYTES, S3Object

# A row group of more than HELD_BYTES is fetched while it is decoded.  Each column then has a buffer within the two
# request sizes, and STREAMED_BYTES is the goal for the buffers of all columns.
STREAMED_BYTES = 64 << 20
LEAST_REQUEST, MOST_REQUEST = 256 << 10, 8 << 20
TRAILER_BYTES = 8  # the footer's length and the magic


class ParquetObject(GroupedObject):
    """An object whose footer was read, and the file if all its bytes were fetched with it."""

    def __init__(self, size: int, fetch: Fetch, metadata: Any, whole: pq.ParquetFile | None) -> None:
        self.fields = list(metadata.schema.to_arrow_schema())
        self.groups = row_groups(metadata, size)
        self._size, self._fetch, self._metadata, self._whole = size, fetch, metadata, whole

    def spark_schema(self) -> pa.Schema:
        """See TypedObject.spark_schema."""
        return spark_schema(schema_as_spark_reads_it(pa.schema(self.fields), self._metadata))

    def known_times(self, column: str, unit: TimeUnit | None) -> dict[RowGroup, GroupTimes]:
        """See GroupedObject.known_times.  They come from statistics, which texts and INT96 do not have."""
        leaf = leaf_of(self._metadata, column)
        if leaf is None:
            return {}
        check_time_type(column, leaf_types(pa.schema(self.fields))[leaf], unit)
        found = {group: statistics_times(self._metadata, group.number, leaf, unit) for group in self.groups}
        return {group: times for group, times in found.items() if times is not None}

    def decoded(self, groups: Sequence[RowGroup], places: Sequence[int]) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """See GroupedObject.decoded."""
        return self._decoded(groups, [self.fields[place].name for place in places])

    def times_decoded(
        self, groups: Sequence[RowGroup], column: str, place: int
    ) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """See GroupedObject.times_decoded.  The other leaves of a struct are not fetched."""
        leaf = leaf_of(self._metadata, column)
        if leaf is None:
            return self.decoded(groups, [place])
        return self._decoded(groups, [self._metadata.schema.column(leaf).path])

    def _decoded(self, groups: Sequence[RowGroup], names: list[str]) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        metadata = self._metadata
        leaves = [] if self._whole else _leaves(metadata, names)
        ranges = [column_ranges(metadata, group.number, leaves) for group in groups] if leaves else []
        streamed = any(sum(end - start for start, end in group_ranges) > HELD_BYTES for group_ranges in ranges)
        request = min(max(STREAMED_BYTES // len(leaves), LEAST_REQUEST), MOST_REQUEST) if streamed else 0
        widest = 1
        with self._file(request) as (file, source):
            for index, group in enumerate(groups):
                if source is not None and not streamed:
                    source.hold(chain.from_iterable(ranges[index : index + 2]))
                widest = max(widest, row_bytes(metadata, group.number, leaves or None))
                rows = min(MOST_ROWS, max(1, BATCH_BYTES // widest))
                for batch in file.iter_batches(rows, row_groups=[group.number], columns=names, use_threads=False):
                    widest = max(widest, batch.nbytes // max(1, batch.num_rows))
                    yield group, batch

    @contextmanager
    def _file(self, request: int) -> Iterator[tuple[pq.ParquetFile, ObjectFile | None]]:
        """Yield the file that Arrow reads, and its source unless it is in memory."""
        if self._whole is not None:
            yield self._whole, None
            return
        with closing(ObjectFile(self._size, self._fetch, SMALL_BYTES)) as source:
            yield _parquet(source, self._metadata, request), source


@dataclass(frozen=True)
class ParquetFormat(GroupFormat):
    """Objects of Apache Parquet.  INT96 is an instant, as in Spark."""

    named: ClassVar[str] = "Parquet"

    @contextmanager
    def opened(self, obj: S3Object, *, whole: bool = False) -> Iterator[ParquetObject]:
        """See TypedFormat.opened.  There is one request, or two if the footer is large."""
        fetch: Fetch = functools.partial(self.store.fetch, obj)
        start = 0 if whole else max(0, obj.size - TAIL_BYTES)
        tail = fetch(start, obj.size)
        trailer = tail[-TRAILER_BYTES:]
        if trailer[4:] == b"PARE":
            raise CorruptDataError("its footer is encrypted")
        if len(trailer) < TRAILER_BYTES or trailer[4:] != b"PAR1":
            head = tail if start == 0 else fetch(0, SIGNATURE_BYTES)
            raise CorruptDataError(f"it does not end as Parquet does{other_format(head)}")
        footer_bytes = int.from_bytes(trailer[:4], "little") + TRAILER_BYTES
        if footer_bytes > obj.size:
            raise CorruptDataError(f"its footer would have {footer_bytes} bytes, and it has {obj.size}")
        if footer_bytes > len(tail):
            tail = fetch(obj.size - footer_bytes, start) + tail
        if len(tail) == obj.size:
            file = _parquet(pa.BufferReader(tail))
            yield ParquetObject(obj.size, fetch, file.metadata, file)
        else:
            metadata = pq.read_metadata(pa.BufferReader(pa.py_buffer(tail)[-footer_bytes:]))
            yield ParquetObject(obj.size, fetch, metadata, None)


def _leaves(metadata: Any, names: Sequence[str]) -> list[int]:
    prefixes = tuple(f"{name}." for name in names)
    paths = [f"{metadata.schema.column(leaf).path}." for leaf in range(metadata.num_columns)]
    return [leaf for leaf, path in enumerate(paths) if path.startswith(prefixes)]


def _parquet(source: Any, metadata: Any = None, request: int = 0) -> pq.ParquetFile:
    # Arrow need not buffer ahead: held ranges are in memory, and the others are fetched while they are decoded.
    return pq.ParquetFile(
        source, metadata=metadata, pre_buffer=False, buffer_size=request, coerce_int96_timestamp_unit="us"
    )
