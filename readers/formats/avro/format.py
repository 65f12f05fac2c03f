"""Avro objects: object container files, cut into chunks at any byte."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from tidegate.readers.avro.container import AvroBlock, AvroHeader, blocks_of, read_header
from tidegate.readers.avro.records import AvroRecords
from tidegate.readers.decompression import DEFAULT_MOST_BYTES, SizeLimit
from tidegate.readers.event_time.seen import TimeTally
from tidegate.readers.formats.byte_surveys import WHOLE_BYTES, surveys
from tidegate.readers.formats.line_ranges import Fetch
from tidegate.readers.formats.row_groups import ESTIMATED_ROW_BYTES
from tidegate.readers.formats.typed_format import TypedFormat, TypedObject
from tidegate.readers.objects.values import ChunkSurvey, S3Object

REQUEST_BYTES = 8 << 20
MOST_BYTES_OPTION = "maxDecompressedBytes"


class AvroObject(TypedObject):
    """An object whose header was read."""

    def __init__(self, fetch: Fetch, size: int, header: AvroHeader, records: AvroRecords, bound: SizeLimit) -> None:
        self.fields = records.fields
        self._fetch, self._size, self._header, self._records, self._bound = fetch, size, header, records, bound

    def spark_schema(self) -> pa.Schema:
        """See TypedObject.spark_schema."""
        return pa.schema(list(self._records.kind))

    def rows(self, start: int, end: int, places: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """See TypedObject.rows."""
        return self.tallied_rows(TimeTally(), start, end, places)

    def tallied_rows(self, tally: TimeTally, start: int, end: int, places: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield rows as ``rows`` does, and add the bytes of their blocks to a tally."""

        def blocks() -> Iterator[AvroBlock]:
            for block in blocks_of(
                self._fetch, self._size, self._header, start, end, request_bytes=REQUEST_BYTES, bound=self._bound
            ):
                tally.bytes += block.end - block.start
                yield block

        return self._records.batches(blocks(), [self.fields[place].name for place in places])


@dataclass(frozen=True)
class AvroFormat(TypedFormat):
    """Object container files of Apache Avro.

    most_bytes: the maximum size of a decompressed block, and of a row's values as objects, without the contents of
        texts and lists.

    A chunk may begin at any byte; a block belongs to the chunk that holds its first byte.  Memory holds at most two
    requests of REQUEST_BYTES, a block and a batch of rows.  Codecs are null, deflate, snappy, zstandard, bzip2 and xz.
    """

    named: ClassVar[str] = "Avro"

    most_bytes: int = DEFAULT_MOST_BYTES

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """See ObjectFormat.survey and ``surveys``."""
        if column is None or not obj.size:
            return surveys(obj.size, self.chunk_bytes, None, row_bytes=ESTIMATED_ROW_BYTES)
        with self.decoding(obj), self.opened(obj, whole=obj.size <= WHOLE_BYTES) as opened:
            times, place = self.seen_times(column), self.time_place(column, opened.fields)
            places = [] if place is None else [place]

            def look(tally: TimeTally, start: int, end: int) -> None:
                for batch in opened.tallied_rows(tally, start, end, places):
                    times.add(tally, batch)

            return surveys(obj.size, self.chunk_bytes, look, row_bytes=ESTIMATED_ROW_BYTES)

    @contextmanager
    def opened(self, obj: S3Object, *, whole: bool = False) -> Iterator[AvroObject]:
        """See TypedFormat.opened."""
        fetch: Fetch = functools.partial(self.store.fetch, obj)
        if whole:
            fetch = _slices(fetch(0, obj.size))
        header = read_header(fetch, obj.size)
        bound = SizeLimit(self.most_bytes, MOST_BYTES_OPTION)
        yield AvroObject(fetch, obj.size, header, AvroRecords(header.schema, bound), bound)


def _slices(data: bytes) -> Fetch:
    return lambda start, end: data[start:end]
