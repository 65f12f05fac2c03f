"""Avro objects: object container files, cut into chunks at any byte.

A block belongs to the chunk that holds its first byte.  Memory holds at most two requests of REQUEST_BYTES, a block and
a batch of rows.  Codecs are null, deflate, snappy, zstandard, bzip2 and xz.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from tidegate.readers.arrow.calendars import legacy_times
from tidegate.readers.avro.container import AvroBlock, AvroHeader, blocks_of, read_header
from tidegate.readers.avro.records import AvroRecords
from tidegate.readers.decompression import SizeLimit
from tidegate.readers.event_time.columns import TimeTally
from tidegate.readers.formats.surveys import WHOLE_BYTES, byte_surveys
from tidegate.readers.formats.typed import ESTIMATED_ROW_BYTES, SurveyedColumn, TypedObject
from tidegate.readers.objects.file import Fetch
from tidegate.readers.objects.values import Bucket, ChunkSurvey, S3Object

REQUEST_BYTES = 8 << 20
MOST_BYTES_OPTION = "maxDecompressedBytes"


class AvroObject(TypedObject):
    """An object whose header was read."""

    def __init__(self, fetch: Fetch, size: int, header: AvroHeader, bound: SizeLimit) -> None:
        self._records = AvroRecords(header.schema)
        self.fields = self._records.fields
        self._fetch, self._size, self._header, self._bound = fetch, size, header, bound
        self._legacy = legacy_times(header.keys)

    def spark_schema(self) -> pa.Schema:
        """See TypedObject.spark_schema."""
        return pa.schema(list(self._records.kind))

    def surveys(self, column: SurveyedColumn | None, chunk_bytes: int) -> list[ChunkSurvey]:
        """See TypedObject.surveys and ``byte_surveys``."""
        if column is None:
            return byte_surveys(self._size, chunk_bytes, None, row_bytes=ESTIMATED_ROW_BYTES)
        times, place = column.seen(), column.place(self.fields)

        def look(tally: TimeTally, start: int, end: int) -> None:
            for batch in self._rows(tally, start, end, [] if place is None else [place]):
                times.add(tally, batch)

        return byte_surveys(self._size, chunk_bytes, look, row_bytes=ESTIMATED_ROW_BYTES)

    def rows(self, start: int, end: int, places: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """See TypedObject.rows."""
        return self._rows(TimeTally(), start, end, places)

    def _rows(self, tally: TimeTally, start: int, end: int, places: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield rows as ``rows`` does, and add the bytes of their blocks to a tally."""

        def blocks() -> Iterator[AvroBlock]:
            for block in blocks_of(
                self._fetch, self._size, self._header, start, end, request_bytes=REQUEST_BYTES, bound=self._bound
            ):
                tally.bytes += block.end - block.start
                yield block

        batches = self._records.batches(blocks(), [self.fields[place].name for place in places])
        return batches if self._legacy is None else map(self._legacy.modern, batches)


@contextmanager
def opened_avro(store: Bucket, obj: S3Object, *, whole: bool = False, most_bytes: int) -> Iterator[AvroObject]:
    """Open an object; see OpenObject.

    most_bytes: the maximum size of a decompressed block.
    """
    fetch: Fetch = functools.partial(store.fetch, obj)
    if whole or obj.size <= WHOLE_BYTES:
        fetch = _slices(fetch(0, obj.size))
    header = read_header(fetch, obj.size)
    yield AvroObject(fetch, obj.size, header, SizeLimit(most_bytes, MOST_BYTES_OPTION))


def _slices(data: bytes) -> Fetch:
    return lambda start, end: data[start:end]
