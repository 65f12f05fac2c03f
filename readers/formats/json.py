"""Objects of JSON lines, cut into chunks at any byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.conform import MOST_DIGITS
from tidegate.readers.event_time.columns import TimeColumn, TimeTally
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.bad_records import CORRUPT_COLUMN, FAIL, BadRecordPolicy, ChunkRecords, Mode, refused
from tidegate.readers.formats.json_lines import JsonLines, lines_into
from tidegate.readers.formats.json_values import MalformedError, Real, Whole, json_object
from tidegate.readers.formats.lines import (
    BLOCK_BYTES,
    LineBlock,
    LineObject,
    hold_numbers,
    line_times,
    lines_of,
    survey_lines,
)
from tidegate.readers.objects.values import Bucket, Chunk, ChunkSurvey, ObjectFormat, S3Object, SetAside

INT64_DIGITS = 19  # a number with so many digits may be larger than an int64
LARGEST_EXACT = 2**53  # a double holds every integer up to it
_RESCUED = pa.field("\0rest", pa.string())


@dataclass(frozen=True, slots=True)
class JsonFormat(ObjectFormat):
    r"""Reads JSON lines (https://jsonlines.org) in UTF-8, plain or compressed.

    unit: the unit of event times; None: they are texts in ISO 8601.
    chunk_bytes: the maximum size of a chunk, at least 1.
    bad_records: the policy for lines that cannot be read, or whose values do not fit.
    read_times: the event-time column as it is read, if rows are selected by it; None: rows are not selected.  A survey
        then has the times of the rows that ``read`` yields.

    Lines end with ``\n`` or ``\r\n``.  Blank lines are skipped, and every other line should be a whole JSON object.
    Memory holds some 16 MiB of text, or the longest line if that is longer; it has at most 256 MiB.
    """

    store: Bucket
    unit: TimeUnit | None = None
    chunk_bytes: int = 64 << 20
    bad_records: BadRecordPolicy = FAIL
    read_times: TimeColumn | None = None

    def infer(self, samples: Sequence[S3Object]) -> pa.Schema:
        """Return the columns of the first MiB of every sample, with types that Spark has.

        Integers are int64, and larger ones decimals.  Numbers with a fraction or an exponent are doubles.  Dates and
        times stay strings.  Columns of several types are strings, and so are columns of nulls.  The columns are in
        alphabetical order, also nested ones, as in Spark.  If malformed lines are kept, the column of corrupt records
        is among them.
        """
        shape = _Shape()
        policy = self.bad_records
        for sample in samples:
            item = LineObject(self.store, sample)
            for block in item.sampled_blocks():
                for offset, line in lines_of(block):
                    try:
                        shape.add(json_object(line))
                    except MalformedError as problem:  # noqa: PERF203 - parsing takes far longer
                        if policy.fails:
                            raise refused(f"{item.name}: the line at byte {offset} {problem}") from None
                        if policy.keeps_corrupt:
                            shape.add({CORRUPT_COLUMN: ""})
        return pa.schema(shape.fields())

    def survey(self, obj: S3Object, column: str | None) -> list[ChunkSurvey]:
        """See ObjectFormat.survey and survey_lines.

        Malformed lines that do not end the query need no time.  Also raises OptionError if event times are numbers and
        it has no unit.
        """
        item = LineObject(self.store, obj)

        def look(tally: TimeTally, start: int, end: int) -> None:
            for block in item.blocks(start, end, BLOCK_BYTES):
                tally.bytes += len(block.data)
                tally.add_times(*self._seen(obj, str(column), block))

        return survey_lines(item, None if column is None else look, self.chunk_bytes)

    def _seen(self, obj: S3Object, column: str, block: LineBlock) -> tuple[pa.Int64Array, int]:
        """Return the event times of the lines that become rows, and the number of the others."""
        read, address = self.read_times, self.store.address(obj.key)
        if read is not None:
            values, dropped = self._values(address, read.field, read.names, block)
            return read.times(values), dropped
        path, unit = column.split("."), self.unit
        for kind in _kinds(unit):
            plain = self._plain_values(address, _field(path, kind), path, block)
            if plain is not None and not _is_rounded(plain):
                # Arrow takes only texts of JSON as texts.
                return line_times(plain, unit or "iso8601", column, address), 0
        values, dropped = self._values(address, _field(path, pa.string()), path, block)
        if unit is None and hold_numbers(values):
            numbers, _ = self._values(address, _field(path, pa.float64()), path, block)
            if not pc.any(pc.is_finite(numbers)).as_py():
                unit = "iso8601"
        return line_times(values, unit, column, address), dropped

    def _values(self, address: str, field: pa.Field, path: Sequence[str], block: LineBlock) -> tuple[pa.Array, int]:
        """Return the values at a path in the lines that become rows, and the number of the others."""
        records, lines = self._survey_lines(address, field)
        return _at(path, field, [*lines.batches(records, block)]), records.dropped

    def _plain_values(self, address: str, field: pa.Field, path: Sequence[str], block: LineBlock) -> pa.Array | None:
        """Return the values at a path; None: some lines have to be read one by one."""
        records, lines = self._survey_lines(address, field)
        batches = lines.plain_batches(records, block.data)
        return None if batches is None else _at(path, field, batches)

    def _survey_lines(self, address: str, field: pa.Field) -> tuple[ChunkRecords, JsonLines]:
        # Malformed lines are never kept here.  With a rescued-data column, no other line is bad.
        keeps_misfits = self.read_times is None or self.bad_records.keeps_misfits
        mode: Mode = "FAILFAST" if self.bad_records.fails else "DROPMALFORMED"
        policy = BadRecordPolicy(mode, _RESCUED.name if keeps_misfits else None)
        records = ChunkRecords(policy, address, pa.schema([field, _RESCUED] if keeps_misfits else [field]))
        return records, lines_into(records.data_schema, surplus=False)

    def read(self, chunk: Chunk, schema: pa.Schema, set_aside: SetAside | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk as Spark's JSON reader reads them into ``schema``.

        Columns of timestamps, dates, decimals and binary (Base64) parse strings.  A time without a zone is UTC, and a
        number counts seconds.  A string column takes any other JSON as its text.  If a key comes twice, the last value
        counts.

        Raises BadRecordError if a bad line ends the query: it is not a JSON object, or does not fit the schema.  The
        error names the object and the offset of the line.  Raises OptionError for a type that JSON cannot be read as.
        """
        records = ChunkRecords(self.bad_records, self.store.address(chunk.key), schema, set_aside)
        lines = lines_into(records.data_schema, surplus=records.rescues)
        for block in LineObject(self.store, chunk.source).chunk_blocks(chunk, BLOCK_BYTES):
            yield from lines.batches(records, block)

    def read_together(self, chunks: Sequence[Chunk], schema: pa.Schema) -> list[pa.RecordBatch] | None:
        """See ObjectFormat.read_together: all lines are read as one text, unless some have to be read one by one.

        For an object of 10 KB, the start of a read takes four times as long as the read itself.
        """
        texts: list[bytes] = []
        size = 0
        for chunk in chunks:
            for block in LineObject(self.store, chunk.source).blocks(chunk.start, chunk.end, BLOCK_BYTES):
                texts.append(block.data)
                size += len(block.data)
                if size > BLOCK_BYTES:
                    return None
        records = ChunkRecords(self.bad_records, self.store.address(chunks[0].key), schema)
        lines = lines_into(records.data_schema, surplus=records.rescues)
        return lines.plain_batches(records, b"".join(map(_ended, texts)))


def _ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") else text + b"\n"


def _field(path: Sequence[str], kind: pa.DataType) -> pa.Field:
    """Return the column that has a type at a path."""
    for name in reversed(path[1:]):
        kind = pa.struct([(name, kind)])
    return pa.field(path[0], kind)


def _kinds(unit: TimeUnit | None) -> list[pa.DataType]:
    """Return the types as which Arrow may read event times, the most exact first."""
    return [pa.string()] if unit in {None, "iso8601"} else [pa.int64(), pa.float64(), pa.string()]


def _is_rounded(values: pa.Array) -> bool:
    """Return whether doubles may differ from the integers that were written."""
    if not pa.types.is_float64(values.type):
        return False
    return bool(pc.any(pc.greater_equal(pc.abs(values), float(LARGEST_EXACT))).as_py())


def _at(path: Sequence[str], field: pa.Field, batches: Sequence[pa.RecordBatch]) -> pa.Array:
    """Return the values at a path whose first column is ``field``."""
    column = pa.chunked_array([batch.column(0) for batch in batches], field.type).combine_chunks()
    return pc.struct_field(column, path[1:]) if path[1:] else column


class _Shape:
    """The types that the values of a column have had so far."""

    def __init__(self) -> None:
        self._kinds: set[type] = set()
        self._digits = 0
        self._columns: dict[str, _Shape] = {}
        self._item: _Shape | None = None

    def add(self, node: object) -> None:
        """Take a value of json_object into account."""
        if node is None:
            return
        self._kinds.add(type(node))
        if isinstance(node, Whole):
            self._digits = max(self._digits, _digits(node))
        elif isinstance(node, dict):
            for name, value in node.items():
                if name not in self._columns:
                    self._columns[name] = _Shape()
                self._columns[name].add(value)
        elif isinstance(node, list):
            if self._item is None:
                self._item = _Shape()
            for value in node:
                self._item.add(value)

    def fields(self) -> list[pa.Field]:
        """Return the columns of an object; columns that hold only empty objects are left out."""
        types = [(name, shape._type()) for name, shape in sorted(self._columns.items())]  # noqa: SLF001 - its own class
        return [pa.field(name, kind) for name, kind in types if kind is not None]

    def _type(self) -> pa.DataType | None:
        if self._kinds == {dict}:
            fields = self.fields()
            return pa.struct(fields) if fields else None
        if self._kinds == {list} and self._item is not None:
            item = self._item._type()  # noqa: SLF001 - its own class
            return item and pa.list_(pa.field("element", item))
        if self._kinds == {bool}:
            return pa.bool_()
        if self._kinds == {Whole} and self._digits <= MOST_DIGITS:
            return pa.int64() if self._digits < INT64_DIGITS else pa.decimal128(self._digits, 0)
        if self._kinds and self._kinds <= {Whole, Real}:
            return pa.float64()
        return pa.string()


def _digits(number: Whole) -> int:
    """Return the number of digits; 18 for 19 digits that fit into an int64."""
    digits = len(number.lstrip("-"))
    return digits - 1 if digits == INT64_DIGITS and -(2**63) <= int(number) < 2**63 else digits
