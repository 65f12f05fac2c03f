"""CSV objects, cut into chunks at any byte unless values may hold line ends.

Columns of texts are cast to types as Spark's CSV reader does (Spark: UnivocityParser, CSVInferSchema).  A whole column
is cast at once.  If Arrow and Spark may read a value differently, each value is cast by itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.errors import CorruptDataError, OptionError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import BATCH_BYTES, null_bytes, within_bounds
from tidegate.readers.arrow.conform import MOST_DIGITS, batch_of, position_of
from tidegate.readers.arrow.ddl import ddl_of
from tidegate.readers.arrow.text_values import caster_of, decimals, timestamps
from tidegate.readers.event_time.columns import TimeColumn, TimeTally
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.bad_records import FAIL, BadRecordPolicy, ChunkRecords, OddRecord, text_in_json
from tidegate.readers.formats.csv_records import ODD_QUOTES, CsvRecords, multi_line_records
from tidegate.readers.formats.lines import BLOCK_BYTES, SAMPLE_BYTES, LineObject, line_times, survey_lines
from tidegate.readers.formats.options import COMMAS, CsvDialect
from tidegate.readers.objects.file import fetched_ahead
from tidegate.readers.objects.partitions import GivenColumns
from tidegate.readers.objects.values import Bucket, Chunk, ChunkSurvey, ObjectFormat, S3Object, SetAside

Converter: TypeAlias = Callable[[pa.StringArray], tuple[pa.Array, npt.NDArray[np.bool_] | None]]
"""Casts texts; returns the values, with null for misfits, and whether each row is a misfit (None: no row is)."""

_INFINITE = {"Inf": float("inf"), "-Inf": float("-inf")}  # Spark: positiveInf, negativeInf
_INT64_DIGITS = 18  # any number with so many digits fits


def converter_of(name: str, kind: pa.DataType) -> Converter:
    """Return the function that casts the texts of a column to a type.

    Raises OptionError for a type that CSV cannot be read as.
    """
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        return lambda texts: (texts.cast(kind), None)
    careful = caster_of(kind)
    if careful is None:
        raise OptionError(f"the column {name!r} cannot be read from CSV as {ddl_of(kind)}")
    if types.is_decimal(kind):
        return partial(_converted, kind, partial(_cast, kind, b"xX"), lambda text: careful(text.replace(",", "")))
    if types.is_timestamp(kind):
        return partial(_converted, kind, lambda texts: timestamps(texts, kind), careful)
    if types.is_floating(kind):
        return partial(_converted, kind, partial(_cast, kind, b"nN"), lambda text: _INFINITE.get(text, careful(text)))
    differing = b"xX" if types.is_integer(kind) else b"01" if types.is_boolean(kind) else b""
    return partial(_converted, kind, partial(_cast, kind, differing), careful)


def _converted(
    kind: pa.DataType, quick: Callable[[pa.StringArray], pa.Array], careful: Callable[[str], Any], texts: pa.StringArray
) -> tuple[pa.Array, npt.NDArray[np.bool_] | None]:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind), None
    try:
        return quick(texts), None
    except pa.ArrowInvalid:
        values = [None if text is None else careful(text) for text in texts.to_pylist()]
    missed = np.array([value is None for value in values]) & np.asarray(texts.is_valid())
    return pa.array(values, kind), missed if missed.any() else None


def _cast(kind: pa.DataType, differing: bytes, texts: pa.StringArray) -> pa.Array:
    """Cast a whole column; raises ArrowInvalid for texts that Arrow refuses, and for ``differing`` characters."""
    held = texts.buffers()[2].to_pybytes()
    if any(bytes([character]) in held for character in differing):
        raise pa.ArrowInvalid("Spark might read another value")
    return decimals(texts, kind) if pa.types.is_decimal(kind) else texts.cast(kind)


def inferred_type(columns: Sequence[pa.StringArray]) -> pa.DataType:
    """Return the first type that all values of a column fit.

    The types are bigint, decimal without a fraction, double, date, timestamp, boolean and string, in this order.
    Dates mixed with times are strings, as in Spark.
    """
    texts = pa.chunked_array(columns, pa.string()).drop_null().combine_chunks()
    texts = texts.filter(pc.not_equal(texts, ""))
    if not len(texts):
        return pa.string()
    digits = pc.max(pc.utf8_length(texts)).as_py()
    candidates = [pa.int64()]
    if digits > _INT64_DIGITS and pc.all(pc.match_substring_regex(texts, "^[+-]?[0-9]{1,38}$")).as_py():
        longest = pc.max(pc.utf8_length(pc.utf8_ltrim(texts, "+-"))).as_py()
        candidates.append(pa.decimal128(min(longest, MOST_DIGITS), 0))
    candidates.append(pa.float64())
    are_dates = pc.match_substring_regex(texts, "^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    if pc.all(are_dates).as_py():
        candidates.append(pa.date32())
    elif not pc.any(are_dates).as_py():
        candidates.append(pa.timestamp("us", "UTC"))
    candidates.append(pa.bool_())
    return next((kind for kind in candidates if converter_of("", kind)(texts)[1] is None), pa.string())


HEADER_BYTES = 64 << 10  # the size of a request for a header

_UNNAMED = re.compile("_c([0-9]{1,9})", re.IGNORECASE)


class _Header(NamedTuple):
    """The names in the first line of an object, and its offset."""

    offset: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CsvFormat(ObjectFormat):
    r"""Reads CSV as Spark does, plain or compressed.

    unit: the unit of event times; None: they are texts in ISO 8601.
    chunk_bytes: the maximum size of a chunk, at least 1.
    bad_records: the policy for records that cannot be read, or whose values do not fit.
    read_times: the event-time column as it is read, if rows are selected by it; None: rows are not selected.  A survey
        then has the times of the rows that ``read`` yields.
    columns: the columns of the user's schema, which name the values of a record without a header.  None: values are
        named ``_c0``, ``_c1`` and so on.
    enforce_schema: the schema names the values even if there is a header (Spark's default).
    infer_schema: also infer types; False: all inferred columns are strings.

    Objects whose values may hold line ends are one chunk each.  Lines end with ``\n``, ``\r\n`` or ``\r``; blank lines
    are skipped.  Memory holds some 16 MiB of text, or the longest record if that is longer; it has at most 256 MiB.
    """

    store: Bucket
    unit: TimeUnit | None = None
    chunk_bytes: int = 64 << 20
    bad_records: BadRecordPolicy = FAIL
    read_times: TimeColumn | None = None
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
        kind_of = inferred_type if self.infer_schema else lambda _: pa.string()
        return pa.schema([(names[name], kind_of(texts)) for name, texts in by_name.items()])

    def _sampled(self, sample: S3Object) -> Iterator[tuple[str, pa.StringArray]]:
        """Yield columns of the first MiB of an object; a column may come several times."""
        item = LineObject(self.store, sample)
        for header, records in self._records(item, 0, min(SAMPLE_BYTES, sample.size), SAMPLE_BYTES):
            names = header.names if header else [*map(column_name, range(len(records.first_values() or ())))]
            columns = records.texts(range(len(names)), len(names) or None).columns
            yield from zip(names, columns, strict=True)
            if records.block.offset + len(records.block.data) >= SAMPLE_BYTES:
                break  # a compressed object is streamed beyond the sample

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """See ObjectFormat.survey and survey_lines; also raises OptionError for numbers as times without a unit."""
        headers: list[_Header | None] = []

        def look(tally: TimeTally, start: int, end: int) -> None:
            if start and not headers:
                headers.append(self._header(item))
            for header, records in self._records(item, start, end, BLOCK_BYTES, *headers):
                tally.bytes += len(records.block.data)
                tally.add_times(*self._seen(records, str(column), self._names(obj.key, header)))

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
        batches: _Batches | None = None
        chunk_records = self._chunk_records(self.bad_records, item.name, schema, set_aside)
        for header, records in blocks:
            if batches is None:
                batches = _Batches(chunk_records, self._names(chunk.key, header))
                if header and batches.finds_none:
                    raise CorruptDataError(
                        f"{item.name}: its header has none of the columns; with enforceSchema they go by position"
                    )
            yield from batches.of(records)

    def _records(
        self, item: LineObject, start: int, end: int, block_bytes: int, header: _Header | None = None
    ) -> Iterator[tuple[_Header | None, CsvRecords]]:
        """Yield the header, unless the range begins later, and its records block by block."""
        dialect = self.dialect
        blocks = (
            multi_line_records(item.name, item.pieces(block_bytes), dialect)
            if dialect.multi_line
            else (CsvRecords(item.name, block, dialect) for block in item.blocks(start, end, block_bytes))
        )
        for records in blocks:
            records_left = records
            if dialect.header and start == 0 and header is None:
                values = records.first_values()
                if values is None:
                    continue
                offset, records_left = records.split_first()
                header = _Header(offset, header_names(values))
            elif header and 0 <= header.offset - records.block.offset < len(records.block.data):
                _, records_left = records.split_first()
            if header or not dialect.header:
                yield header, records_left

    def _header(self, item: LineObject) -> _Header | None:
        if not self.dialect.header:
            return None
        first = next(self._records(item, 0, item.obj.size, HEADER_BYTES), None)
        return first and first[0]

    def _names(self, key: str, header: _Header | None) -> Sequence[str] | None:
        names = None if self.columns is None else self.columns.of(key)
        names = None if names is None or all(map(_UNNAMED.fullmatch, names)) else names
        return names if header is None or (self.enforce_schema and names is not None) else header.names

    def _seen(self, records: CsvRecords, column: str, names: Sequence[str] | None) -> tuple[pa.Int64Array, int]:
        """Return the event times of records that become rows, and the number of the others."""
        read = self.read_times
        kind = pa.string() if read is None else read.type
        chunk_records = self._chunk_records(self.bad_records.of_survey, records.name, pa.schema([(column, kind)]))
        batches = [*_Batches(chunk_records, names).of(records)]
        values = pa.chunked_array([batch.column(0) for batch in batches], kind).combine_chunks()
        times = line_times(values, self.unit, column, records.name) if read is None else read.times(values)
        return times, chunk_records.dropped

    def _chunk_records(
        self, policy: BadRecordPolicy, address: str, schema: pa.Schema, set_aside: SetAside | None = None
    ) -> ChunkRecords:
        noun = "record" if self.dialect.multi_line else "line"
        return ChunkRecords(policy, address, schema, set_aside, record=noun)


def column_name(position: int) -> str:
    """Return the name of the column at a position that has no name, as in Spark: ``_c0``, ``_c1`` and so on."""
    return f"_c{position}"


def _column_position(name: str, names: Sequence[str] | None) -> int | None:
    """Return the index of a column among all; without names, they are those of column_name."""
    if names is not None:
        return position_of(name, names)
    number = _UNNAMED.fullmatch(name)
    return None if number is None else int(number[1])


def header_names(values: Sequence[str | None]) -> tuple[str, ...]:
    """Return the names in a header; an empty or repeated name gets a number (Spark: CSVUtils)."""
    often = Counter(value.lower() for value in values if value)
    names = []
    for at, value in enumerate(values):
        if not value:
            names.append(column_name(at))
        else:
            names.append(f"{value}{at}" if often[value.lower()] > 1 else value)
    return tuple(names)


class _Batches:
    """Makes batches from the records of a chunk.

    names: the names of a record's values, in their order; None: values have no names, and a record may have any number.

    Raises OptionError for a type that CSV cannot be read as.
    """

    def __init__(self, records: ChunkRecords, names: Sequence[str] | None) -> None:
        self._records = records
        self._names = names
        # Fields are nullable here, because ChunkRecords checks for nulls once the batch is complete.
        self._fields = [pa.field(field.name, field.type) for field in records.data_schema]
        self._converters = [converter_of(field.name, field.type) for field in self._fields]
        positions = [_column_position(field.name, names) for field in self._fields]
        self._surplus = [p for p in range(len(names or ())) if p not in positions] if records.rescues else []
        self._read = sorted({position for position in positions if position is not None} | {*self._surplus})
        self._places = [None if position is None else self._read.index(position) for position in positions]
        self._row_bytes = sum(null_bytes(field.type) for field in self._fields)

    @property
    def finds_none(self) -> bool:
        """Whether there are columns, and none of them is among the names."""
        return bool(self._fields) and all(place is None for place in self._places)

    def of(self, records: CsvRecords) -> Iterator[pa.RecordBatch]:
        """Yield the records as batches, in order; no batch is larger than 8 MiB unless it has a single row.

        Raises BadRecordError for the first bad record that ends the query.
        """
        if not records.block.data:
            return
        rows, columns, widths = records.texts(self._read, None if self._names is None else len(self._names))
        count = min(1 + (rows * self._row_bytes + len(records.block.data)) // BATCH_BYTES, rows)
        for number in range(count):
            first, last = rows * number // count, rows * (number + 1) // count
            texts = [column.slice(first, last - first) for column in columns]
            odd_widths = {row: width for row, width in widths.items() if first <= row < last}
            batch = self._batch(records, first, last - first, texts, odd_widths)
            if batch.num_rows:
                yield from within_bounds(batch)

    def _batch(
        self, records: CsvRecords, first: int, rows: int, texts: Sequence[pa.StringArray], widths: dict[int, int]
    ) -> pa.RecordBatch:
        reasons, rescued = self._odd_records(records, widths)
        arrays = []
        for field, place, convert in zip(self._fields, self._places, self._converters, strict=True):
            if place is None:
                arrays.append(pa.nulls(rows, field.type))
                continue
            array, missed = convert(texts[place])
            arrays.append(array)
            for row in () if missed is None else np.flatnonzero(missed).tolist():
                reasons.setdefault(first + row, f"has no {ddl_of(field.type)} in {field.name!r}")
                rescued.setdefault(first + row, {})[field.name] = text_in_json(texts[place][row].as_py())
        for position in self._surplus:
            column = texts[self._read.index(position)]
            for row in np.flatnonzero(np.asarray(column.is_valid())).tolist():
                rescued.setdefault(first + row, {})[(self._names or ())[position]] = text_in_json(column[row].as_py())
        odd = {
            row - first: OddRecord(
                records.place(row),
                records.raw(row),
                reasons.get(row),
                rescued.get(row),
                malformed=widths.get(row) == 0,
            )
            for row in sorted({*reasons, *rescued})
        }
        return self._records.batch(batch_of(arrays, pa.schema(self._fields), rows), odd)

    def _odd_records(
        self, records: CsvRecords, widths: dict[int, int]
    ) -> tuple[dict[int, str], dict[int, dict[str, str]]]:
        """Return by row the reasons and surplus values of records with odd quotes, or not as many values as names."""
        reasons = {row: ODD_QUOTES for row, width in widths.items() if width == 0}
        rescued: dict[int, dict[str, str]] = {}
        if self._names is None:
            return reasons, rescued
        wanted = len(self._names)
        for row, width in widths.items():
            if not width:
                continue
            reasons[row] = f"does not have {wanted} values, but {width}"
            if self._records.rescues and width > wanted:
                values = enumerate(records.values(row))
                rescued[row] = {column_name(at): text_in_json(value) for at, value in values if at >= wanted and value}
        return reasons, rescued
