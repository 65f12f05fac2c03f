"""Records without a usable event time, and results of functions that assign times."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.kafka.lab import batch
from tidegate.alignment.generators import GeneratorRun, SplitWatermark
from tidegate.errors import ContractError, CorruptDataError
from tidegate.readers.event_time.assigners import JsonTimestamp
from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.event_time.records import RecordTimes, marks_of, punctuated_by
from tidegate.readers.event_time.units import LARGEST_MS
from tidegate.readers.kafka.batches import corruption_named

NOW_MS = 1_700_000_000_000
TOMORROW_MS = NOW_MS + 86_400_000
HORIZON = EventTimePolicy().horizon(NOW_MS)
SECRET = b'{"at": "s3cret"}'
GOOD = b'{"at": 1700000000000}'
NEGATIVE = b'{"at": -1}'
BY_JSON = JsonTimestamp("/at", "ms")


def records(assigner: Any = BY_JSON, **options: Any) -> RecordTimes:
    return RecordTimes(assigner, EventTimePolicy(**options))


def times(rows: pa.RecordBatch, bad: Any, assigner: Any = BY_JSON) -> pa.Array:
    """Return the times of records by a policy for which nothing is in the future."""
    return records(assigner, bad=bad, future="hold").judge(rows, HORIZON).times


@pytest.mark.parametrize(
    ("value", "fault"), [(SECRET, "missing or unparsable"), (NEGATIVE, "negative"), (None, "missing or unparsable")]
)
def test_fail_names_the_first_bad_record_and_never_shows_it(value: bytes | None, fault: str) -> None:
    with pytest.raises(CorruptDataError) as error:
        times(batch([GOOD, value, NEGATIVE]), "fail")
    assert str(error.value) == (
        "orders-3: the record at offset 41 has no usable event time"
        f" from eventTime=json:/at: it is {fault}; set badEventTime to record-timestamp or ignore"
    )
    assert error.value.__cause__ is error.value.__context__ is None


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (b'{"at": "2026-11-23T08:00:00Z"}', "s", "iso8601"),
        (b'{"at": 1700000000}', "iso8601", "s"),
        (b'{"at": 1700000000000000}', "s", "us"),
    ],
)
def test_a_value_in_another_unit_than_the_one_in_use_is_named_by_its_unit(value: bytes, unit: Any, shown: str) -> None:
    with pytest.raises(CorruptDataError) as error:
        times(batch([value]), "fail", JsonTimestamp("/at", unit))
    clause = (
        f"from eventTime=json:/at, read in the unit {unit}, but the value looks like {shown} (eventTimeUnit): it is "
    )
    assert clause in str(error.value)


def test_without_any_usable_time_the_option_and_the_partition_are_named_once() -> None:
    with pytest.raises(CorruptDataError) as error, corruption_named("orders-3"):
        times(batch([SECRET]), "fail", JsonTimestamp("/at"))
    assert str(error.value) == (
        "orders-3: the record at offset 40 has no usable event time"
        " from eventTime=json:/at: it is missing or unparsable;"
        " set badEventTime to record-timestamp or ignore"
    )


def test_good_times_need_no_timestamp_to_stand_in() -> None:
    written = batch([GOOD, GOOD]).drop_columns(["timestamp"])
    assert times(written, "record-timestamp").to_pylist() == [1700000000000, 1700000000000]


def test_a_stand_in_from_the_future_is_in_the_future_itself() -> None:
    written = batch([SECRET, GOOD], timestamps_ms=[TOMORROW_MS + 1, 6])
    event_times, faults, _ = records(bad="record-timestamp").judge(written, HORIZON)
    assert (event_times.to_pylist(), faults.to_pylist()) == ([None, 1700000000000], ["bad", None])
    with pytest.raises(CorruptDataError, match=r"offset 40 has an event time of .*maxFutureSkew"):
        records(bad="record-timestamp", future="fail").judge(written, HORIZON)


@pytest.mark.parametrize(
    "returned", [np.array([1, -1, LARGEST_MS, LARGEST_MS + 1]), pa.array([1, None, LARGEST_MS, 2**63 - 1])]
)
def test_a_function_may_return_numpy_or_pyarrow(returned: Any) -> None:
    assert times(batch([b""] * 4), "ignore", lambda _: returned).to_pylist() == [1, None, LARGEST_MS, None]


@pytest.mark.parametrize(
    ("returned", "complaint"),
    [
        (None, "a NoneType"),
        ([1, 2], "a list"),
        (pa.chunked_array([[1, 2]]), "a ChunkedArray"),
        (np.array([1.0, 2.0]), "an array of float64"),
        (np.array([1, 2], np.uint64), "an array of uint64"),
        (np.array([1, 2], "M8[ms]"), "an array of datetime64"),
        (np.array([[1, 2]]), "with 2 dimensions"),
        (pa.array([1, 2], pa.int32()), "an array of int32"),
        (pa.array([1, 2], pa.timestamp("ms")), "an array of timestamp"),
        (pa.array([1]), "1 times"),
        (np.array([1, 2, 3]), "3 times"),
    ],
)
def test_a_function_that_returns_anything_else_breaks_the_contract(returned: Any, complaint: str) -> None:
    def ages(_: pa.RecordBatch) -> Any:
        return returned

    with pytest.raises(ContractError) as error:
        times(batch([b"", b""]), "ignore", ages)
    assert complaint in str(error.value)
    assert "ages returned" in str(error.value)
    assert "each of 2 rows" in str(error.value)


def test_a_function_is_named_without_its_arguments() -> None:
    with pytest.raises(CorruptDataError, match="event time from partial: it is negative") as error:
        times(batch([b""]), "fail", partial(lambda key, _: np.array([-1]), "s3cret"))
    assert "s3cret" not in str(error.value)


def test_records_that_are_set_aside_have_reasons_that_show_no_content_and_no_option() -> None:
    values = [SECRET, GOOD, NEGATIVE, b'{"at": %d}' % (TOMORROW_MS + 1)]
    judged = records(bad="record-timestamp", sets_aside=True).judge(batch(values, timestamps_ms=[-1, 5, 5, 5]), HORIZON)
    assert judged.times.to_pylist() == [None, NOW_MS, 5, None]
    assert judged.set_aside == {
        0: "has no usable event time from eventTime=json:/at: it is missing or unparsable, and its own timestamp is "
        "negative"
    }


def test_what_the_clock_refuses_is_not_set_aside() -> None:
    with pytest.raises(ValueError, match="rows that the clock refuses cannot be set aside"):
        records(future="fail", sets_aside=True)


def test_where_no_unit_was_detected_that_of_a_batch_s_first_usable_time_counts() -> None:
    undetected = records(JsonTimestamp("/at"), bad="ignore", future="hold")
    assert undetected.detect(batch([SECRET])) is None
    in_seconds, for_ever = b'{"at": 1700000001}', b'{"at": 253402300799}'
    judged = undetected.judge(batch([SECRET, in_seconds, for_ever]), HORIZON)
    assert judged.times.to_pylist() == [None, 1_700_000_001_000, 253_402_300_799_000]
    assert judged.faults.to_pylist()[0] == "bad"


def watermark(marks, times, **columns):
    run = GeneratorRun(punctuated_by(marks)(), SplitWatermark())
    run.add(pa.record_batch(columns), pa.array(times, pa.int64()))
    return run.end().watermark_ms


def test_a_mark_counts_also_on_a_row_without_an_event_time():
    values = pa.array([b'{"up to": 1700000000000}', b"{}"])
    assert watermark("json:/up to", [None, 5], value=values) == 1_700_000_000_000
    assert watermark("json:/up to", [None, None], value=values) == 1_700_000_000_000


def test_of_rows_that_are_marks_by_a_function_the_event_time_counts_if_there_is_one():
    def is_mark(rows):
        return rows.column("mark").to_numpy(zero_copy_only=False)

    assert watermark(is_mark, [10, 30, None], mark=pa.array([True, False, True])) == 10
    assert watermark(is_mark, [10, 30, None], mark=pa.array([False, False, True])) is None


def test_each_value_shows_its_own_unit():
    values = [
        b'{"at": "1970-01-01T00:00:07Z"}',
        b'{"at": 1700000000}',
        b'{"at": 1700000000123456}',
        b'{"at": "?"}',
        None,
    ]
    watermarks = marks_of("json:/at")(pa.record_batch({"value": pa.array(values, pa.binary())}))
    assert watermarks.to_pylist() == [7_000, 1_700_000_000_000, 1_700_000_000_123, None, None]


@pytest.mark.parametrize("marks", [[True], np.array([1.5]), np.array([True, True])])
def test_marks_of_another_shape_are_refused(marks):
    with pytest.raises(ContractError, match="expected a Boolean or an int64 for each of 1 rows"):
        watermark(lambda _: marks, [1], value=pa.array([b"x"]))
