"""The formats under test: how each writes rows into an object, and which abilities it has.

A new format of the registry needs a case here.  All tests of the contract then run for it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any
from unittest import mock

import orjson
import pyarrow as pa
from hypothesis import strategies as st

from tests.readers.formats.files import ORC_CODECS, avro, logical, orc_file, parquet
from tests.support.objects import lab as arrow_tables
from tests.support.objects.lab import InMemory
from tidegate.readers.formats.options import FormatOptions
from tidegate.readers.formats.plain import BINARY_FILE_SCHEMA
from tidegate.readers.formats.registry import FORMATS, INFERRED

TO_CONTINUE = "; to continue, set mode to PERMISSIVE or DROPMALFORMED, or set badRecordsPath"
"""The end of the sentence about a record that the default policy refuses."""

NOON_US = 1_767_268_800_000_000  # 2026-01-01T12:00:00Z
UTC_US = pa.timestamp("us", "UTC")
ROWS = pa.schema([("n", pa.int64()), ("at", UTC_US), ("s", pa.string())])

Write = Callable[..., bytes]
Way = Mapping[str, Mapping[str, int]]
"""Sizes in modules below ``tidegate.readers.formats``: made small, they send small objects where large ones go."""


def rows_of(count: int) -> pa.Table:
    """Return rows in the order of their times; every fifth row has none."""
    times = [None if n % 5 == 4 else NOON_US + n * 1_000_000 for n in range(count)]
    texts = [f"text {n}" for n in range(count)]
    return pa.table(
        {"n": pa.array(range(count), pa.int64()), "at": pa.array(times, UTC_US), "s": pa.array(texts, pa.string())}
    )


@dataclass(frozen=True)
class Case:
    """A format, and the abilities that its tests need.

    write: makes an object from a table, with options; if the format has groups of rows, in groups of a given size.
    rows: makes a given number of rows; default: rows_of.
    inferred: the columns that are inferred from ``rows``; None: the columns that were written.
    event_time: a column with times; None: the format has none.
    options: the options of the reader.
    ways: further ways of reading an object, besides the format's own.
    one_chunk: an object is never cut.
    looked_at: inferring columns and surveying times fetch an object.
    columns_chosen: a schema may leave columns out, and name columns that an object lacks.
    any_case: names of columns match in any case.
    lone_columns: a schema may have only columns that an object lacks.
    typed: objects declare the types of their columns.
    nested: a table may have structs.
    dotted_names: names of columns may have dots.
    lines: an object consists of lines, and may be compressed.
    sealed: a truncated object is always refused.  False: its last rows may be lost, or its last row may be shorter.
    written: options of ``write``.
    kinds: the types that a table's columns may have.
    times: the types that a column of event times may have, and the unit of each.
    times_before_1970: timestamps before 1970 are read as they were written.  False: the writer's language changes them.
    bad: an object with a column ``c`` that has 1 and a value that is no number; None: no record can be bad.
    corrupt: contents that are not of the format, by their keys.
    """

    name: str
    write: Write
    rows: Callable[[int], pa.Table] = rows_of
    inferred: pa.Schema | None = None
    event_time: str | None = "at"
    options: Mapping[str, Any] = field(default_factory=dict)
    ways: Sequence[Way] = ()
    one_chunk: bool = False
    looked_at: bool = True
    columns_chosen: bool = True
    any_case: bool = True
    lone_columns: bool = True
    typed: bool = False
    nested: bool = False
    dotted_names: bool = False
    lines: bool = False
    sealed: bool = False
    written: st.SearchStrategy[Mapping[str, Any]] = st.just({})  # noqa: RUF009 - a strategy never changes
    kinds: st.SearchStrategy[pa.DataType] | None = None
    times: Sequence[tuple[pa.DataType, str | None]] = ()
    times_before_1970: bool = True
    bad: bytes | None = None
    corrupt: Mapping[str, bytes] = field(default_factory=dict)

    def made(self, store: InMemory, *, chunk_bytes: int | None = None, **options: Any) -> Any:
        """Return the format as the source makes it."""
        made: Any = FORMATS[self.name].create(FormatOptions(**self.options, **options), store, INFERRED)
        return made if self.one_chunk or chunk_bytes is None else replace(made, chunk_bytes=chunk_bytes)

    @contextmanager
    def on(self, way: Way) -> Iterator[None]:
        """Read objects in one of the ways while the context lasts."""
        with ExitStack() as stack:
            for module, sizes in way.items():
                stack.enter_context(mock.patch.multiple(f"tidegate.readers.formats.{module}", **sizes))
            yield

    @property
    def all_ways(self) -> Sequence[Way]:
        """All ways of reading, the format's own first."""
        return ({}, *self.ways)


def _avro(table: pa.Table, group: int) -> bytes:
    kinds = {column.name: ["null", _avro_type(column.name, column.type)] for column in table.schema}
    rows = table.to_pylist()
    return avro(rows, sync_interval=max(1, group * 12), **kinds)


def _avro_type(name: str, kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        fields = [{"name": member.name, "type": ["null", _avro_type(member.name, member.type)]} for member in kind]
        return {"type": "record", "name": f"of_{name}", "fields": fields}
    if pa.types.is_decimal(kind):
        return logical("bytes", "decimal", precision=kind.precision, scale=kind.scale)
    return {UTC_US: logical("long", "timestamp-micros"), pa.int64(): "long", pa.int32(): "int"}.get(kind, "string")


def _as_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _json(table: pa.Table, _: int) -> bytes:
    return b"".join(orjson.dumps(row, default=str) + b"\n" for row in table.to_pylist())


def _csv(table: pa.Table, _: int) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows([_as_text(value) for value in row.values()] for row in table.to_pylist())
    return stream.getvalue().encode()


def _lines(table: pa.Table, _: int) -> bytes:
    return "".join(f"{text}\n" for text in table.column("value").to_pylist()).encode()


def _one_file(count: int) -> pa.Table:
    """Return the row of a binary file whose content has ``count`` parts; no row for 0."""
    content = b"\x00\xffany" * count
    values = ["s3://data/x", datetime(1970, 1, 1, tzinfo=timezone.utc), len(content), content]
    columns = zip(values, BINARY_FILE_SCHEMA.types, strict=True)
    return pa.table([pa.array([value] if count else [], kind) for value, kind in columns], schema=BINARY_FILE_SCHEMA)


def _content(table: pa.Table, _: int) -> bytes:
    return b"".join(table.column("content").to_pylist())


_ORC_PRIMITIVE = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
    pa.date32(), pa.decimal128(5, 2), pa.decimal128(38, 0),
]  # fmt: skip
_ORC_TYPES = st.recursive(
    st.sampled_from(_ORC_PRIMITIVE),
    lambda inner: (
        inner.map(pa.list_)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda members: pa.struct([(f"f{n}", member) for n, member in enumerate(members)])
        )
        | inner.map(lambda kind: pa.map_(pa.string(), kind))
    ),
    max_leaves=4,
)
_PARQUET_TIMES = [
    (pa.timestamp("s"), None), (pa.timestamp("ms", "UTC"), None), (pa.timestamp("us"), None),
    (pa.timestamp("ns"), None), (pa.date32(), None), (pa.int32(), "s"), (pa.int64(), "us"), (pa.uint32(), "ms"),
    (pa.uint64(), "ms"), (pa.string(), "iso8601"), (pa.string(), "s"), (pa.float64(), "s"),
]  # fmt: skip
_ORC_TIMES = [
    (pa.timestamp("ms"), None), (UTC_US, None), (pa.timestamp("ns"), None), (pa.date32(), None), (pa.int32(), "s"),
    (pa.int64(), "us"), (pa.int16(), "ms"), (pa.string(), "iso8601"), (pa.float64(), "s"),
]  # fmt: skip
_PARQUET_OPTIONS = st.fixed_dictionaries(
    {
        "write_statistics": st.booleans(),
        "use_dictionary": st.booleans(),
        "compression": st.sampled_from(["none", "snappy", "zstd", "gzip", "lz4"]),
    }
)
_ORC_OPTIONS = st.fixed_dictionaries({"compression": st.sampled_from(ORC_CODECS)})
_SMALL = {"SMALL_BYTES": 100}
_LARGE = {**_SMALL, "TAIL_BYTES": 40}
_LARGE_PARQUET = {"parquet": _LARGE, "typed": _SMALL}
_STREAMED = {"HELD_BYTES": 0, "LEAST_REQUEST": 32, "MOST_REQUEST": 64}
_NO_GZIP = {"x.gz": b"no gzip at all"}
_TEXTS = pa.table({"c": ["1", "x"]})

CASES = {
    case.name: case
    for case in (
        Case(
            "parquet",
            parquet,
            ways=(
                _LARGE_PARQUET,
                {"parquet": _STREAMED},
                {**_LARGE_PARQUET, "parquet": {**_LARGE, **_STREAMED}},
            ),
            typed=True,
            nested=True,
            dotted_names=True,
            sealed=True,
            written=_PARQUET_OPTIONS,
            kinds=arrow_tables.types,
            times=_PARQUET_TIMES,
            bad=parquet(_TEXTS),
            corrupt={"x": b"no such object, but " * 10},
        ),
        Case(
            "orc",
            orc_file,
            ways=({"orc": {**_LARGE, "BLOCK_BYTES": 50}, "typed": _SMALL},),
            typed=True,
            nested=True,
            dotted_names=True,
            sealed=True,
            written=_ORC_OPTIONS,
            kinds=_ORC_TYPES,
            times=_ORC_TIMES,
            times_before_1970=False,
            bad=orc_file(_TEXTS),
            corrupt={"x": b"no such object, but " * 10},
        ),
        Case(
            "avro",
            _avro,
            ways=(
                {
                    "avro": {"WHOLE_BYTES": 100, "REQUEST_BYTES": 64},
                    "typed": _SMALL,
                    "surveys": {"WHOLE_BYTES": 100},
                },
            ),
            typed=True,
            nested=True,
            bad=_avro(_TEXTS, 10),
            corrupt={"x": b"no such object, but " * 10},
        ),
        Case(
            "json",
            _json,
            lines=True,
            any_case=False,
            inferred=pa.schema([("at", pa.string()), ("n", pa.int64()), ("s", pa.string())]),
            ways=({"json": {"BLOCK_BYTES": 50}},),
            nested=True,
            dotted_names=True,
            bad=b'{"c":1}\n{"c":"x"}\n',
            corrupt={**_NO_GZIP, "x": b'{"n": ]}\n'},
        ),
        Case(
            "csv",
            _csv,
            lines=True,
            options={"header": True, "infer_schema": True},
            ways=({"csv": {"BLOCK_BYTES": 50}},),
            lone_columns=False,
            bad=_csv(_TEXTS, 0),
            corrupt=_NO_GZIP,
        ),
        Case(
            "text",
            _lines,
            lines=True,
            rows=lambda count: pa.table({"value": pa.array([f"line {n}" for n in range(count)], pa.string())}),
            event_time=None,
            looked_at=False,
            ways=({"plain": {"BLOCK_BYTES": 10}},),
            columns_chosen=False,
            corrupt=_NO_GZIP,
        ),
        Case("binaryFile", _content, rows=_one_file, event_time="modificationTime", one_chunk=True, looked_at=False),
    )
}


TIME_TEXTS = ["1970-01-01T01:00+01:00", "1970-01-01", "2024-05-01T00:00:00.5Z", "?", "12", "9", "-1.5"]


@st.composite
def time_columns(draw: st.DrawFn, case: Case, rows: int) -> tuple[pa.Array, str | None]:
    """Return columns of event times, of any type that a format has, and the unit that each needs."""
    kind, unit = draw(st.sampled_from(case.times))
    if pa.types.is_string(kind):
        texts = st.none() | st.sampled_from(TIME_TEXTS)
        return pa.array(draw(st.lists(texts, min_size=rows, max_size=rows)), kind), unit
    if pa.types.is_timestamp(kind) and (kind.unit == "ns" or not case.times_before_1970):
        least, most = (-(2**62), 2**62) if case.times_before_1970 else (0, 2**40)
        numbers = draw(st.lists(st.none() | st.integers(least, most), min_size=rows, max_size=rows))
        return pa.array(numbers, pa.int64()).view(kind), unit
    return draw(arrow_tables.arrays(kind, rows)), unit
