"""JSON lines: objects that hold a JSON object per line, cut into chunks at any byte."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import OptionError
from tidegate.readers.event_time_units import TimeUnit, value_times
from tidegate.readers.json_lines import JsonLines
from tidegate.readers.json_values import Real, Whole, json_object, plain_value
from tidegate.readers.line_ranges import (
    LineBlock,
    compression_of,
    decompressed,
    fetched_ahead,
    lines_of,
    range_blocks,
    stream_blocks,
)
from tidegate.readers.object_store import ObjectStore
from tidegate.readers.objects import Chunk, ChunkSurvey, ObjectFormat, S3Object, TimeRange

__all__ = ["JsonFormat"]

BLOCK_BYTES = 8 << 20
SAMPLE_BYTES = 1 << 20
WHOLE_BYTES = 256 << 10
PROBE_BYTES = 64 << 10
ROW_BYTES = 256  # of a line that nobody has looked at
ROW_BYTES_COMPRESSED = 32
INT64_DIGITS = 19  # from so many on, a number may be too large
LARGEST_DECIMAL = 38  # digits


@dataclass(frozen=True, slots=True)
class JsonFormat(ObjectFormat):
    r"""Reads JSON lines (https://jsonlines.org) in UTF-8, plain or compressed.

    store: where the objects are.
    unit: what event times count; None: they are texts in ISO 8601.
    chunk_bytes: how large a chunk may be; at least 1.

    Plain objects are cut at any byte; a line belongs to the chunk that holds its first byte.
    Compressed ones (by their suffix: .gz, .zst, .bz2, .lz4) are one chunk each.  Lines end with
    ``\n`` or ``\r\n``; blank ones are skipped; every other one must be a whole JSON object.
    """

    store: ObjectStore
    unit: TimeUnit | None = None
    chunk_bytes: int = 64 << 20

    def infer(self, samples: Sequence[S3Object]) -> pa.Schema:
        """Return the columns of the first MiB of every sample, with types that Spark has.

        Integers are int64, greater ones decimals; numbers with a fraction or an exponent are doubles;
        dates and times stay strings, as does what has several types, or is null everywhere.  The
        columns are in alphabetical order, nested ones too, as by Spark.
        """
        shape = _Shape()
        for sample in samples:
            for block in self._blocks(sample, 0, min(SAMPLE_BYTES, sample.size), SAMPLE_BYTES):
                for offset, line in lines_of(block):
                    shape.add(json_object(self.store.address(sample.key), offset, line))
                if block.offset + len(block.data) >= SAMPLE_BYTES:
                    break  # the stream of a compressed one goes on
        return pa.schema(shape.fields())

    def survey(self, found: S3Object, column: str | None) -> list[ChunkSurvey]:
        """Cut an object into even chunks of at most ``chunk_bytes``.

        Objects up to 256 KiB are looked at whole, in one request, and so are compressed ones of any
        size, which takes as long as decompressing them once: rows and times are exact then.  Of
        other chunks the lines that begin in the first and in the last 64 KiB are looked at, or the
        first and the last line where these are longer: the times are right unless a line between is
        earlier or later than all of these, so always when lines are in order of time.  Rows are
        estimated by the mean length of these lines.

        Without a column nothing is requested, and rows are estimated at 256 bytes each, or 32
        compressed.

        Raises OptionError where event times are numbers and there is no unit.
        """
        if found.size == 0:
            return []
        codec = compression_of(self.store.address(found.key))
        count = 1 if codec else -(-found.size // self.chunk_bytes)
        cuts = [found.size * number // count for number in range(count + 1)]
        chunks = [*pairwise(cuts)]
        if column is None:
            row_bytes = ROW_BYTES_COMPRESSED if codec else ROW_BYTES
            return [ChunkSurvey(start, end, max((end - start) // row_bytes, 1), None) for start, end in chunks]
        if codec is None and found.size <= WHOLE_BYTES:
            whole = self.store.fetch(found, 0, found.size)
            return [self._exact(found, column, start, end, whole) for start, end in chunks]
        return [
            self._exact(found, column, start, end)
            if codec or end - start <= 2 * PROBE_BYTES
            else self._probed(found, column, start, end)
            for start, end in chunks
        ]

    def read(self, chunk: Chunk, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk, as Spark's JSON reader takes them into ``schema``.

        Strings are parsed where the schema says timestamp, date, decimal or binary (Base64); a time
        without a zone is UTC, a number is one in seconds.  A string column takes any other JSON as
        its text.  Of keys that come twice, the last one counts.

        A batch holds at most 16 MiB, unless a single row is larger.  Some 16 MiB of text are in
        memory at once, or the longest line if that is longer, which may be 256 MiB at most.

        Raises CorruptDataError, which names the object and where the line begins, for a line that is
        no JSON object or does not fit the schema; OptionError for a type that JSON cannot be read as.
        """
        name, lines = self.store.address(chunk.key), _lines_into(schema)
        blocks = self._blocks(chunk.source, chunk.start, chunk.end, BLOCK_BYTES)
        if chunk.end - chunk.start > BLOCK_BYTES:
            blocks = fetched_ahead(blocks)
        for block in blocks:
            yield from lines.batches(name, block)

    def _exact(self, found: S3Object, column: str, start: int, end: int, whole: bytes | None = None) -> ChunkSurvey:
        probe = _Probe(self.store.address(found.key), column, self.unit)
        for block in self._blocks(found, start, end, BLOCK_BYTES, whole):
            probe.add(block)
        return ChunkSurvey(start, end, probe.rows, probe.times, probe.rows_without_time)

    def _probed(self, found: S3Object, column: str, start: int, end: int) -> ChunkSurvey:
        probe = _Probe(self.store.address(found.key), column, self.unit)

        def saw_lines(begin: int, stop: int) -> bool:
            before = probe.rows
            for block in self._blocks(found, begin, stop, BLOCK_BYTES):
                probe.add(block)
            return probe.rows > before

        # Where a line is longer than what is looked at, look on, each time twice as far.
        looked, head = start, start + PROBE_BYTES
        while not saw_lines(looked, head) and head < end:
            looked, head = head, min(head + 2 * (head - looked), end)
        looked, tail = end, max(end - PROBE_BYTES, head)
        while tail < looked and not saw_lines(tail, looked):
            looked, tail = tail, max(tail - 2 * (looked - tail), head)
        rows = (end - start) * probe.rows // max(probe.bytes, 1)
        return ChunkSurvey(start, end, max(rows, 1) if probe.rows else 0, probe.times, probe.rows_without_time)

    def _blocks(
        self, found: S3Object, start: int, end: int, block_bytes: int, whole: bytes | None = None
    ) -> Iterator[LineBlock]:
        def fetch(first: int, last: int) -> bytes:
            return self.store.fetch(found, first, last) if whole is None else whole[first:last]

        name = self.store.address(found.key)
        codec = compression_of(name)
        if codec is None:
            return range_blocks(name, fetch, found.size, start, end, block_bytes=block_bytes)
        pieces = decompressed(name, fetch, found.size, codec, block_bytes=block_bytes)
        return stream_blocks(name, pieces)


@functools.lru_cache(maxsize=8)
def _lines_into(schema: pa.Schema) -> JsonLines:
    """Return what makes batches of a schema; it is dear next to the lines of a small object."""
    return JsonLines(schema)


class _Probe:
    """What is known of the event times of some lines."""

    def __init__(self, name: str, column: str, unit: TimeUnit | None) -> None:
        self._name = name
        self._column = column
        self._path = column.split(".")
        self._unit = unit
        self.rows = 0
        self.bytes = 0
        self.rows_without_time = 0
        self.times: TimeRange | None = None

    def add(self, block: LineBlock) -> None:
        values = [self._value(offset, line) for offset, line in lines_of(block)]
        if self._unit is None and any(isinstance(value, int | float) for value in values):
            raise OptionError(
                f"the event-time column {self._column!r} of {self._name} holds numbers, so eventTimeUnit must say "
                "what they count: s, ms or us"
            )
        times = _times(values, self._unit or "iso8601")
        self.rows += len(values)
        self.bytes += len(block.data)
        self.rows_without_time += times.null_count
        if times.null_count < len(times):
            seen = pc.min_max(times).as_py()
            known = self.times or TimeRange(seen["min"], seen["max"])
            self.times = TimeRange(min(known.min_ms, seen["min"]), max(known.max_ms, seen["max"]))

    def _value(self, offset: int, line: bytes) -> object:
        node: object
        try:
            node = orjson.loads(line)
        except orjson.JSONDecodeError:  # perhaps only one of NaN, which Spark takes, too
            node = None
        if not isinstance(node, dict):
            node = json_object(self._name, offset, line)
        for name in self._path:
            if not isinstance(node, dict):
                return None
            node = node.get(name)
        return None if isinstance(node, bool) else plain_value(node)


def _times(values: list[object], unit: TimeUnit) -> pa.Int64Array:
    """Return times in milliseconds, rounded down; null for what is no time."""
    if unit == "iso8601":
        try:
            found = pa.array(values, pa.string()).cast(pa.timestamp("ms", "UTC"))
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # no text, no zone, finer than milliseconds ...
            return value_times(values, unit)
        return found.view(pa.int64())
    return value_times(values, unit)


class _Shape:
    """What a value looked like wherever it was seen."""

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
        """Return the columns of an object; those that are empty objects everywhere are left out."""
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
        if self._kinds == {Whole} and self._digits <= LARGEST_DECIMAL:
            return pa.int64() if self._digits < INT64_DIGITS else pa.decimal128(self._digits, 0)
        if self._kinds and self._kinds <= {Whole, Real}:
            return pa.float64()
        return pa.string()


def _digits(number: Whole) -> int:
    """Return how many digits a number has; of one of 19 that fits into an int64, one less."""
    digits = len(number.lstrip("-"))
    return digits - 1 if digits == INT64_DIGITS and -(2**63) <= int(number) < 2**63 else digits
