"""Avro objects: object container files, cut into chunks at any byte."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from tidegate.readers.arrow.conform import position_of
from tidegate.readers.avro.container import AvroBlock, AvroHeader, blocks_of, read_header
from tidegate.readers.avro.records import AvroRecords
from tidegate.readers.decompression import DEFAULT_MOST_BYTES, SizeLimit
from tidegate.readers.event_time.seen import TimeTally
from tidegate.readers.formats.byte_surveys import WHOLE_BYTES, surveys
from tidegate.readers.formats.line_ranges import Fetch
from tidegate.readers.formats.row_groups import ESTIMATED_ROW_BYTES
from tidegate.readers.formats.typed_format import TypedFormat
from tidegate.readers.formats.typed_records import fitted
from tidegate.readers.objects.values import Chunk, ChunkSurvey, S3Object, WriteFile
from tidegate.readers.s3.store import SMALL_BYTES

REQUEST_BYTES = 8 << 20
MOST_BYTES_OPTION = "maxDecompressedBytes"


@dataclass(frozen=True, slots=True)
class _Opened:
    """An object whose header was read."""

    fetch: Fetch
    size: int
    header: AvroHeader
    records: AvroRecords
    bound: SizeLimit

    def blocks(self, start: int, end: int) -> Iterator[AvroBlock]:
        return blocks_of(self.fetch, self.size, self.header, start, end, request_bytes=REQUEST_BYTES, bound=self.bound)


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
        with self.decoding(obj):
            opened = self._open(obj, whole=obj.size <= WHOLE_BYTES)
            times, fields = self.seen_times(obj, column), opened.records.fields
            place = self.time_place(column, fields)
            names = [] if place is None else [fields[place].name]

            def look(tally: TimeTally, start: int, end: int) -> None:
                for offset, batch in opened.records.batches(_measured(opened.blocks(start, end), tally), names):
                    times.add(tally, batch, offset)

            return surveys(obj.size, self.chunk_bytes, look, row_bytes=ESTIMATED_ROW_BYTES)

    def read(self, chunk: Chunk, schema: pa.Schema, write: WriteFile | None = None) -> Iterator[pa.RecordBatch]:
        """See ObjectFormat.read.  A batch has about 1 MiB decompressed, unless a single row is larger."""
        with (
            self.bad_records.of_chunk(self.store.address(chunk.key), chunk, schema, write, record="row") as records,
            self.decoding(chunk.source),
        ):
            opened = self._open(chunk.source, whole=chunk.size <= SMALL_BYTES)
            top = [field.name for field in opened.records.fields]
            positions = [position_of(field.name, top) for field in records.data_schema]
            names = top if records.rescues else [top[position] for position in positions if position is not None]
            for offset, batch in opened.records.batches(opened.blocks(chunk.start, chunk.end), names):
                yield fitted(records, batch, offset)

    def schema_of(self, obj: S3Object) -> pa.Schema:
        """See TypedFormat.schema_of."""
        with self.decoding(obj):
            return pa.schema(list(self._open(obj).records.kind))

    def _open(self, obj: S3Object, *, whole: bool = False) -> _Opened:
        """Read the header of an object; ``whole``: also the rest."""
        fetch: Fetch = functools.partial(self.store.fetch, obj)
        if whole:
            fetch = _slices(fetch(0, obj.size))
        header = read_header(fetch, obj.size)
        bound = SizeLimit(self.most_bytes, MOST_BYTES_OPTION)
        return _Opened(fetch, obj.size, header, AvroRecords(header.schema, bound), bound)


def _slices(data: bytes) -> Fetch:
    return lambda start, end: data[start:end]


def _measured(blocks: Iterator[AvroBlock], tally: TimeTally) -> Iterator[AvroBlock]:
    for block in blocks:
        tally.bytes += block.end - block.start
        yield block
