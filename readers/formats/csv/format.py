"""CSV objects, cut into chunks at any byte unless values may hold line ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.event_time.seen import TimeTally
from tidegate.readers.formats.bad_records import BadRecordPolicy, ChunkRecords
from tidegate.readers.formats.csv.batches import CsvBatches
from tidegate.readers.formats.csv.columns import GivenColumns, column_name, header_names
from tidegate.readers.formats.csv.options import COMMAS, CsvDialect
from tidegate.readers.formats.csv.records import CsvRecords, multi_line_blocks, single_line_block
from tidegate.readers.formats.csv.values import inferred_type
from tidegate.readers.formats.line_objects import LineObject, RecordFormat, line_times, survey_lines
from tidegate.readers.formats.line_ranges import fetched_ahead
from tidegate.readers.objects.values import Chunk, ChunkSurvey, S3Object, SetAside

BLOCK_BYTES = 8 << 20
SAMPLE_BYTES = 1 << 20
HEADER_BYTES = 64 << 10  # the size of a request for a header


class _Header(NamedTuple):
    """The names in the first line of an object, and its offset."""

    offset: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CsvFormat(RecordFormat):
    r"""Reads CSV as Spark does, plain or compressed.

    columns: the columns of the user's schema, which name the values of a record without a header.  None: values are
        named ``_c0``, ``_c1`` and so on.
    enforce_schema: the schema names the values even if there is a header (Spark's default).
    infer_schema: infer types, too; False: all inferred columns are strings.

    Objects whose values may hold line ends are one chunk each.  Lines end with ``\n``, ``\r\n`` or ``\r``; blank lines
    are skipped.
    """

    dialect: CsvDialect = COMMAS
    columns: GivenColumns | None = None
    enforce_schema: bool = False
    infer_schema: bool = False

    def infer(self, samples: Sequence[S3Object]) -> pa.Schema:
        """Return the columns of the first MiB of every sample, in the order in which they occur.

        They are strings, unless types are inferred: bigint, decimal without a fraction, double, date, timestamp,
        boolean, or string.  Spark infers an int if all values fit into one.  Here that is a bigint, because samples do
        not show all values.

        Raises OptionError if no sample has a line.
        """
        by_name: dict[str, list[pa.StringArray]] = {}
        names: dict[str, str] = {}  # the first spelling of each, since Spark ignores case
        for sample in samples:
            for name, column in self._sampled(sample):
                names.setdefault(name.lower(), name)
                by_name.setdefault(name.lower(), []).append(column)
        if not by_name:
            raise OptionError(f"no object of s3://{self.store.bucket} has a line to infer columns from; give a schema")
        return pa.schema(
            [
                (names[name], inferred_type(texts) if self.infer_schema else pa.string())
                for name, texts in by_name.items()
            ]
        )

    def _sampled(self, sample: S3Object) -> Iterator[tuple[str, pa.StringArray]]:
        """Yield columns of the first MiB of an object; a column may come several times."""
        item = LineObject(self.store, sample)
        for header, csv_records in self._records(item, 0, min(SAMPLE_BYTES, sample.size), SAMPLE_BYTES):
            rows = len(csv_records)
            names = (
                header.names if header else tuple(map(column_name, range(len(csv_records.values(0)) if rows else 0)))
            )
            yield from ((name, pa.nulls(0, pa.string())) for name in names)
            for texts in csv_records.texts(range(len(names)), 0, rows) if rows else ():
                yield from zip(names, texts.columns, strict=True)
            if csv_records.block.offset + len(csv_records.block.data) >= SAMPLE_BYTES:
                break  # a compressed object is streamed beyond the sample

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """See ObjectFormat.survey and survey_lines; also raises OptionError for numbers as times without a unit."""
        headers: list[_Header | None] = []

        def look(tally: TimeTally, start: int, end: int) -> None:
            if start and not headers:
                headers.append(self._header(item))
            for header, csv_records in self._records(item, start, end, BLOCK_BYTES, *headers):
                if len(csv_records):
                    tally.bytes += len(csv_records.block.data)
                    tally.add_times(*self._seen(csv_records, str(column), self._names(obj.key, header)))

        item = LineObject(self.store, obj)
        splits = not self.dialect.multi_line
        return survey_lines(item, None if column is None else look, self.chunk_bytes, splits=splits)

    def read(self, chunk: Chunk, schema: pa.Schema, set_aside: SetAside | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk as Spark's CSV reader reads them into ``schema``.

        Columns match by the names in the header, or else by position.  A time without a zone is UTC.

        Raises BadRecordError, which names the object and the offset of the record, if a bad record ends the query.  A
        record is bad if it has more or fewer values than columns, or does not fit the schema.  Raises
        CorruptDataError for a header with none of the columns, and OptionError for a type that CSV cannot be read as.
        """
        item = LineObject(self.store, chunk.source)
        header = self._header(item) if chunk.start else None
        blocks = self._records(item, chunk.start, chunk.end, BLOCK_BYTES, header)
        if chunk.end - chunk.start > BLOCK_BYTES:
            blocks = fetched_ahead(blocks)
        batches: CsvBatches | None = None
        records = self._chunk_records(self.bad_records, item.name, schema, set_aside)
        for header, csv_records in blocks:
            if batches is None:
                batches = CsvBatches(records, self._names(chunk.key, header))
                if header and batches.finds_none:
                    raise CorruptDataError(
                        f"{item.name}: its header has none of the columns; with enforceSchema they go by position"
                    )
            if len(csv_records):
                yield from batches.of(csv_records)

    def _records(
        self, item: LineObject, start: int, end: int, block_bytes: int, header: _Header | None = None
    ) -> Iterator[tuple[_Header | None, CsvRecords]]:
        """Yield the header, unless the range begins later, and its records block by block."""
        blocks = (
            multi_line_blocks(item.name, item.pieces(block_bytes), self.dialect)
            if self.dialect.multi_line
            else map(single_line_block, item.blocks(start, end, block_bytes))
        )
        for block in blocks:
            csv_records = CsvRecords.of(item.name, block, self.dialect)
            if self.dialect.header and len(csv_records):
                if header is None and start == 0:
                    header = _Header(csv_records.place(0), header_names(csv_records.values(0)))
                if header and 0 <= header.offset - block.offset < len(block.data):
                    csv_records = csv_records.without_first()
            if header or not self.dialect.header:
                yield header, csv_records

    def _header(self, item: LineObject) -> _Header | None:
        if not self.dialect.header:
            return None
        first = next(self._records(item, 0, item.obj.size, HEADER_BYTES), None)
        return first and first[0]

    def _names(self, key: str, header: _Header | None) -> Sequence[str] | None:
        names = None if self.columns is None else self.columns.of(key)
        return names if header is None or (self.enforce_schema and names is not None) else header.names

    def _seen(self, csv_records: CsvRecords, column: str, names: Sequence[str] | None) -> tuple[pa.Int64Array, int]:
        """Return the event times of records that become rows, and the number of the others."""
        read = self.read_times
        kind = pa.string() if read is None else read.type
        records = self._chunk_records(self.bad_records.of_survey, csv_records.name, pa.schema([(column, kind)]))
        batches = [*CsvBatches(records, names).of(csv_records)]
        values = pa.chunked_array([batch.column(0) for batch in batches], kind).combine_chunks()
        times = line_times(values, self.unit, column, csv_records.name) if read is None else read.times(values)
        return times, records.dropped

    def _chunk_records(
        self, policy: BadRecordPolicy, address: str, schema: pa.Schema, set_aside: SetAside | None = None
    ) -> ChunkRecords:
        noun = "record" if self.dialect.multi_line else "line"
        return ChunkRecords(policy, address, schema, set_aside, record=noun)
