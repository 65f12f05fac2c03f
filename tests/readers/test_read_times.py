"""Rows in a range of event times: their chunks are known by the times that the rows have once they are read."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readers.memory_objects import Memory, chunk_of
from tidegate.errors import CorruptDataError
from tidegate.readers.bad_records import BadRecordPolicy
from tidegate.readers.csv_columns import GivenColumns
from tidegate.readers.csv_format import CsvFormat
from tidegate.readers.event_time_range import EventTimeRange, RowTimes
from tidegate.readers.json_format import JsonFormat
from tidegate.readers.objects import TimeRange

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
    """Return what reads a column of cells, the object, and the rows' times by which it is told which are wanted."""
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
    (survey,) = made.survey(memory.object, "at")
    schema = pa.schema([("at", kind)])
    rows = pa.Table.from_batches(made.read(chunk_of(memory.object, 0, memory.object.size), schema), schema)
    read = [
        time for batch in rows.to_batches() for time in times.column_of(schema).times(batch.column("at")).to_pylist()
    ]
    usable = [time for time in read if time is not None]
    assert survey.times == (TimeRange(min(usable), max(usable)) if usable else None)
    assert survey.rows_without_time == len(read) - len(usable)
    assert survey.rows - survey.malformed_rows == len(read)


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_a_value_that_ends_the_query_when_it_is_read_does_so_before(suffix):
    made, memory, _ = made_of(suffix, ["5", '"soon"'], pa.int64(), "ms")
    with pytest.raises(CorruptDataError, match=r"the line at byte \d+ has no int64 in 'at'$"):
        made.survey(memory.object, "at")


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_a_time_of_day_is_not_that_of_a_column_of_dates(suffix):
    made, memory, _ = made_of(suffix, ['"2026-01-01T12:00:00Z"'], pa.date32(), None)
    midnight = NOON - 12 * 3_600_000
    assert made.survey(memory.object, "at")[0].times == (midnight, midnight)
