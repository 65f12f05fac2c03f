"""Rows in a range of event times: a survey has the times that rows have once they are read."""

from __future__ import annotations

import json
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.formats.contract import CASES, TO_CONTINUE
from tests.readers.formats.files import avro, avro_format, logical, orc_format, parquet_format
from tests.support.objects.lab import Memory, chunk
from tidegate.errors import BadRecordError
from tidegate.readers.event_time.columns import EventTimeRange, RowTimes
from tidegate.readers.formats.bad_records import BadRecordPolicy
from tidegate.readers.formats.csv import CsvFormat
from tidegate.readers.formats.json import JsonFormat
from tidegate.readers.formats.parquet import ParquetObject
from tidegate.readers.objects.partitions import GivenColumns
from tidegate.readers.objects.values import TimeRange

KINDS = [
    (pa.int64(), "ms"),
    (pa.int32(), "s"),
    (pa.float64(), "s"),
    (pa.string(), None),
    (pa.string(), "ms"),
    (pa.date32(), None),
    (pa.timestamp("us", "UTC"), None),
    (pa.timestamp("us", "UTC"), "s"),
    (pa.timestamp("us"), "iso8601"),
]
VALUES = ["1767268800", "1767268800000", "1767268800.5", "1.7672688e12", "99999999999", "9" * 30, "-1", "true", "NaN"]
TEXTS = ["2026-01-01T12:00:00Z", "2026-01-01", "2026-1-1", "2026", "2026-01-01 12:00:00.123456+01:00", "soon", "5"]
NOON = 1_767_268_800_000


def made_of(suffix: str, cells: list[str], kind: pa.DataType, unit: str | None, **policy):
    """Return the format, the object with a column of cells, and the RowTimes that select rows."""
    times = RowTimes(EventTimeRange(0, None), "at", unit, parsed=("iso8601", "s"))
    given = {"bad_records": BadRecordPolicy(**policy), "read_times": times.column_of(pa.schema([("at", kind)]))}
    if suffix == "csv":
        memory = Memory("".join(f"{cell},x\n" for cell in cells).encode(), "x.csv")
        return CsvFormat(memory, unit, columns=GivenColumns(("at", "x")), **given), memory, times
    memory = Memory("".join(f'{{"at":{cell}}}\n' for cell in cells).encode())
    return JsonFormat(memory, unit, **given), memory, times


@given(
    st.sampled_from(["json", "csv"]),
    st.sampled_from(KINDS),
    st.lists(st.sampled_from([*VALUES, *map(json.dumps, TEXTS), "{}"]), min_size=1, max_size=4),
    st.sampled_from(["PERMISSIVE", "DROPMALFORMED"]),
)
def test_a_survey_has_the_times_of_the_rows_that_are_read(suffix, column, cells, mode):
    kind, unit = column
    made, memory, times = made_of(suffix, cells, kind, unit, mode=mode)
    survey, read = surveyed_and_read(made, memory, times, pa.schema([("at", kind)]))
    assert survey.rows - survey.malformed_rows == read


def surveyed_and_read(made, memory, times: RowTimes, schema: pa.Schema):
    """Return the survey of an object, and the number of rows that are read; both must have the same times."""
    (survey,) = made.survey(memory.object, times.column)
    read = []
    for batch in made.read(chunk(memory.object), schema):
        values = batch.column("at")
        if pa.types.is_struct(values.type):
            values = pc.struct_field(values, "t")
        read += times.column_of(schema).times(values).to_pylist()
    usable = [time for time in read if time is not None]
    assert survey.times == (TimeRange(min(usable), max(usable)) if usable else None)
    assert survey.rows_without_time == len(read) - len(usable)
    return survey, len(read)


NUMBERS = [None, -1, NOON // 1000, NOON, 10**17]
TYPED = {
    pa.int64(): ("long", NUMBERS),
    pa.int32(): ("int", NUMBERS[:3]),
    pa.float64(): ("double", [None, 0.5, NOON / 1000, float(NOON), 1e300]),
    pa.string(): ("string", [None, "2026-01-01T12:00:00Z", "2026-01-01", "soon", str(NOON)]),
    pa.date32(): (logical("int", "date"), [None, 0, 20_454]),
    pa.timestamp("us", "UTC"): (
        logical("long", "timestamp-micros"),
        [None, -1000, NOON * 1000, NOON * 1000 - 43_200 * 10**6],
    ),
    pa.timestamp("us"): (logical("long", "local-timestamp-micros"), [None, -1000, NOON * 1000]),
    pa.bool_(): ("boolean", [None, True]),
}


def file_of(suffix: str, values: pa.Array, sibling: object) -> bytes:
    """Return an object with the column ``at``: the values, or with a sibling, structs of a value and the sibling."""
    if sibling is not None:
        values = pa.StructArray.from_arrays([values, pa.array([sibling] * len(values))], ["t", "other"])
    table = pa.table({"at": values})
    if suffix == "avro":
        return avro(table.to_pylist(), at=["null", TYPED[values.type][0]])
    return CASES[suffix].write(table, len(values))


@st.composite
def typed_values(draw: st.DrawFn) -> pa.Array:
    kind = draw(st.sampled_from([*TYPED]))
    values = draw(st.lists(st.sampled_from(TYPED[kind][1]), min_size=1, max_size=3))
    return pa.array(values, kind)


@given(
    st.sampled_from(["parquet", "orc", "avro"]),
    st.sampled_from(KINDS),
    typed_values(),
    st.sampled_from([None, 5, "text"]),
)
def test_a_survey_has_the_times_of_rows_whose_types_are_others_than_those_that_are_read(
    suffix, column, values, sibling
):
    kind, unit = column
    sibling = None if suffix == "avro" else sibling
    wanted = kind if sibling is None else pa.struct([("t", kind), ("other", pa.int64())])
    schema = pa.schema([("at", wanted)])
    times = RowTimes(EventTimeRange(0, None), "at" if sibling is None else "at.t", unit, parsed=("iso8601", "s"))
    memory = Memory(file_of(suffix, values, sibling), f"x.{suffix}")
    made = {"parquet": parquet_format, "orc": orc_format, "avro": avro_format}[suffix](
        memory, unit, read_times=times.column_of(schema)
    )
    try:
        made.survey(memory.object, times.column)
    except BadRecordError as surveyed:
        with pytest.raises(BadRecordError) as read:
            list(made.read(chunk(memory.object), schema))
        assert str(surveyed) == str(read.value)  # noqa: PT017 - a survey is as good
    else:
        surveyed_and_read(made, memory, times, schema)


def test_where_types_differ_and_every_value_fits_statistics_tell_the_times():
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    values = pa.array([NOON * 1000] * 100_000, pa.timestamp("us"))
    memory = Memory(file_of("parquet", values, None), "x.parquet")
    times = RowTimes(EventTimeRange(0, None), "at").column_of(schema)
    with mock.patch.object(ParquetObject, "_decoded", side_effect=AssertionError("it was read")):
        (survey,) = parquet_format(memory, read_times=times).survey(memory.object, "at")
    assert survey.times == (NOON, NOON)


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_a_value_that_ends_the_query_when_it_is_read_does_so_before(suffix):
    made, memory, _ = made_of(suffix, ["5", '"soon"'], pa.int64(), "ms")
    with pytest.raises(BadRecordError, match=r"the line at byte \d+ has no BIGINT in 'at'" + TO_CONTINUE + "$"):
        made.survey(memory.object, "at")


NESTED = pa.struct([("t", pa.int64()), ("other", pa.int64())])
CELLS = ["5", "null", "{}", '{"t":5}', '{"t":"soon"}', '{"t":6,"other":"x"}', '{"t":7,"other":1}', '[{"t":8}]']


@given(st.lists(st.sampled_from(CELLS), min_size=1, max_size=3), st.sampled_from(["PERMISSIVE", "DROPMALFORMED"]))
def test_a_survey_of_nested_json_has_the_times_of_the_rows_that_are_read(cells, mode):
    schema, times = pa.schema([("at", NESTED)]), RowTimes(EventTimeRange(0, None), "at.t", "ms")
    memory = Memory("".join(f'{{"at":{cell}}}\n' for cell in cells).encode())
    made = JsonFormat(memory, "ms", bad_records=BadRecordPolicy(mode), read_times=times.column_of(schema))
    survey, read = surveyed_and_read(made, memory, times, schema)
    assert survey.rows - survey.malformed_rows == read
