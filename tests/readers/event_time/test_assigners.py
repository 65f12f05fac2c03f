"""Event times, compared with the arithmetic of datetime and decimal."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.kafka.lab import SCHEMA, batch
from tidegate.readers.event_time.assigners import (
    HeaderTimestamp,
    JsonTimestamp,
    RecordTimestamp,
    assigner_of,
)
from tidegate.readers.event_time.units import LARGEST_MS, detect_unit

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)
UNITS = ("s", "ms", "us", "ns", "iso8601")
MS_PER = {"s": Decimal(1000), "ms": Decimal(1), "us": Decimal("0.001"), "ns": Decimal("0.000001")}

# Up to here, a double counts seconds with every microsecond.
times = st.datetimes(datetime(1971, 1, 1), datetime(2128, 1, 1), timezones=st.just(timezone.utc))  # noqa: DTZ001 - the strategy adds the zone
zones = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))
json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["at", "b"]), inner, max_size=3),
    max_leaves=6,
)


def by_json(values: list[Any], unit: Any) -> list[int | None]:
    written = [json.dumps({"at": value}).encode() for value in values]
    return JsonTimestamp("/at", unit)(batch(written)).to_pylist()


def by_header(texts: list[bytes | None], unit: Any) -> list[int | None]:
    return HeaderTimestamp("at", unit)(batch(headers=[[("at", text)] for text in texts])).to_pylist()


def microseconds(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def representations(time: datetime) -> dict[str, list[Any]]:
    """Return all JSON values that a time may have, by unit; all of them keep its microseconds."""
    us = microseconds(time)
    seconds, milliseconds = (f"{Decimal(us).scaleb(-digits):f}" for digits in (6, 3))
    return {
        "s": [float(seconds), seconds],
        "ms": [float(milliseconds), milliseconds],
        "us": [us, str(us), float(us)],
        "ns": [us * 1000, str(us * 1000 + 999)],
        "iso8601": [time.isoformat(), time.isoformat(" "), time.strftime("%Y-%m-%dt%H:%M:%S.%fz")],
    }


@given(times)
@example(datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=timezone.utc))
def test_a_time_is_the_same_in_every_unit_and_representation(time: datetime) -> None:
    expected = (time - EPOCH) // MILLISECOND
    for unit, values in representations(time).items():
        assert by_json(values, unit) == [expected] * len(values)
        texts = [str(value).encode() for value in values]
        assert by_header(texts, unit) == [expected] * len(values)


@given(
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=zones),  # noqa: DTZ001 - the strategy adds the zone
    st.sampled_from("T "),
    st.sampled_from(["minutes", "seconds", "milliseconds", "microseconds"]),
    st.booleans(),
)
def test_iso_8601_reads_what_datetime_writes(time: datetime, separator: str, precision: str, short: bool) -> None:
    text = time.isoformat(separator, timespec=precision)
    written = datetime.fromisoformat(text)
    if short:
        text = text[:-3] + text[-2:]  # +0200
    assert by_header([text.encode()], "iso8601") == [(written - EPOCH) // MILLISECOND]


@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32), st.integers(0, 25), st.integers(0, 61))
@example(1900, 2, 29, 0, 0)
@example(2000, 2, 29, 0, 0)
def test_dates_and_clocks_that_do_not_exist_are_no_times(year: int, month: int, day: int, hour: int, minute: int):
    try:
        expected = (datetime(year, month, day, hour, minute, tzinfo=timezone.utc) - EPOCH) // MILLISECOND
    except ValueError:
        expected = None
    if year:  # datetime has no year 0
        text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}"
        assert by_json([text], "iso8601") == [expected]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2024-05-01", datetime(2024, 5, 1, tzinfo=timezone.utc)),
        ("2024-05-01T10Z", datetime(2024, 5, 1, 10, tzinfo=timezone.utc)),
        ("2024-05-01T10:11", datetime(2024, 5, 1, 10, 11, tzinfo=timezone.utc)),
        ("2024-05-01T10:11:12,5Z", datetime(2024, 5, 1, 10, 11, 12, 500_000, tzinfo=timezone.utc)),
        ("2024-05-01 10:11:12.0009999999+02", datetime(2024, 5, 1, 8, 11, 12, tzinfo=timezone.utc)),
        ("1969-12-31T23:59:59.9999Z", EPOCH - MILLISECOND),
    ],
)
def test_iso_8601_may_be_short_or_have_any_number_of_digits(text: str, time: datetime) -> None:
    assert by_json([text], "iso8601") == by_header([text.encode()], "iso8601") == [(time - EPOCH) // MILLISECOND]
    assert by_json([text, "soon"], "iso8601") == [(time - EPOCH) // MILLISECOND, None]


@settings(max_examples=300)
@given(
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.integers() | st.floats() | st.integers(0, 10**18).map(lambda n: n / 1000),
)
@example("s", 1700000000.123)
@example("s", 999_999_999_999.999)
@example("ms", 2**64 - 1)
@example("us", -1)
def test_numbers_become_the_millisecond_before_or_null_and_never_wrap(unit: str, number: float) -> None:
    exact = Decimal(repr(number))
    limit = 2**63 / Decimal(1_000_000) if unit == "ns" else 10**15
    inside = exact.is_finite() and abs(exact * MS_PER[unit]) < limit
    expected = int((exact * MS_PER[unit]).to_integral_value(ROUND_FLOOR)) if inside else None
    assert by_json([number], unit) == by_header([repr(number).encode()], unit) == [expected]


@pytest.mark.parametrize(
    "value",
    [True, False, None, [], {}, [1700000000], {"at": 1}, "", " ", "nan", "NaN", "inf", "-Infinity", "true", "now",
     "0x10", "1_000", " 1700000000", "1700000000\n", "+1", ".5", "1e", "1e9999", "9" * 9999, "\u0661\u0667",
     "24-05-01", "2024-05-01T",
     "2024-05-01T10:11:12+24:00", "2024-05-01T10:11+02:0", "2024-05-01T24:00", "2024-05-01Z", "2024-05-01\n"],
)  # fmt: skip
def test_what_is_no_time_is_null_in_every_unit(value: Any) -> None:
    for unit in UNITS:
        assert by_json([value], unit) == [None]
        if isinstance(value, str):
            assert by_header([value.encode()], unit) == [None]


@given(st.lists(st.binary(max_size=12) | json_values.map(lambda v: json.dumps(v).encode()) | st.none(), min_size=1))
def test_no_value_whatever_raises(values: list[bytes | None]) -> None:
    given_batch = batch(values, headers=[[("at", value)] for value in values])
    for unit in UNITS:
        for assigner in (JsonTimestamp("/at", unit), JsonTimestamp("", unit), HeaderTimestamp("at", unit)):
            times_ms = assigner(given_batch)
            assert times_ms.type == pa.int64()
            assert len(times_ms) == len(values)
            assert assigner.detect(given_batch) in {None, *UNITS}


def test_record_timestamps_are_rounded_down_and_null_where_they_are_null() -> None:
    micros = pa.array([-(2**63), -1001, -1000, -1, None, 0, 1999, 2**63 - 1]).view(SCHEMA.field("timestamp").type)
    times_ms = RecordTimestamp()(pa.record_batch([micros], ["timestamp"])).to_pylist()
    assert times_ms == [-(2**63) // 1000, -2, -1, -1, None, 0, 1, LARGEST_MS]


def test_the_last_header_of_that_name_wins_also_in_a_slice() -> None:
    headers = [
        [("at", b"1")],
        [("at", b"2"), ("other", b"3"), ("at", b"4"), ("At", b"5")],
        None,
        [],
        [("other", b"6")],
        [("at", b"7"), ("at", None)],
        [("at", b"\xff")],
        [("at", b"8")],
    ]
    whole = batch(headers=headers)
    expected = [1, 4, None, None, None, None, None, 8]
    assert HeaderTimestamp("at", "ms")(whole).to_pylist() == expected
    assert HeaderTimestamp("at", "ms")(whole.slice(1, 6)).to_pylist() == expected[1:7]


# The examples of RFC 6901, section 5, without the whole document and the whole array, which are no times.
RFC_DOCUMENT = b'{"foo":["8","9"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\\\j":5,"k\\"l":6," ":7,"m~n":8,"~1":10}'


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [("", None), ("/foo", None), ("/foo/0", 8), ("/", 0), ("/a~1b", 1), ("/c%d", 2), ("/e^f", 3), ("/g|h", 4),
     ("/i\\j", 5), ('/k"l', 6), ("/ ", 7), ("/m~0n", 8), ("/~01", 10), ("/foo/1", 9), ("/foo/2", None),
     ("/foo/-", None), ("/foo/-1", None), ("/foo/01", None), ("/foo/" + "9" * 9999, None), ("/foo/0/x", None),
     ("/none/x", None)],
)  # fmt: skip
def test_json_pointers_are_those_of_rfc_6901(pointer: str, expected: int | None) -> None:
    assert JsonTimestamp(pointer, "ms")(batch([RFC_DOCUMENT])).to_pylist() == [expected]


def test_an_empty_pointer_is_the_whole_value() -> None:
    times_ms = JsonTimestamp("", "ms")(batch([b"17", b'"18"', b"", b"17 18", None])).to_pylist()
    assert times_ms == [17, 18, None, None, None]


def test_json_nested_too_deep_is_no_time() -> None:
    assert JsonTimestamp("/at", "ms")(batch([b'{"at":' + b"[" * 100_000])).to_pylist() == [None]


@given(times)
def test_the_unit_is_detected_from_any_representation_since_1971(time: datetime) -> None:
    for unit, values in representations(time).items():
        assert [detect_unit([value]) for value in values] == [unit] * len(values)


@pytest.mark.parametrize(
    ("value", "unit"),
    [(1, "s"), (5 * 10**9 - 1, "s"), (5 * 10**9, "ms"), (94_694_399_000, "ms"), (5 * 10**12 - 1, "ms"),
     (5 * 10**12, "us"), (5 * 10**15 - 1, "us"), (5 * 10**15, "ns"), ("1767225600000000000", "ns"), (5 * 10**18, None),
     (10**400, None), (0, None), (-1, None), (True, None), (float("nan"), None), (float("inf"), None),
     (None, None), ("1e11", "ms"), ("1e999", None), ("today", None), ({}, None), ("2024-05-01", "iso8601")],
)  # fmt: skip
def test_the_size_of_a_number_tells_its_unit(value: object, unit: str | None) -> None:
    assert detect_unit([value]) == unit


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, "0", "-0.00", "0e5"])
def test_zero_is_1970_in_every_unit_and_before_one_is_known(zero: Any) -> None:
    """Debezium writes zeros while it takes a snapshot; what is read with them must not decide what they mean."""
    for unit in (None, *UNITS):
        assert by_json([zero, "x"], unit) == [0, None]
        assert by_header([str(zero).encode(), b"x"], unit) == [0, None]


@pytest.mark.parametrize("value", [1_767_225_599_999_999_999, "1767225599999999999"])
def test_nanoseconds_are_exact_also_as_text(value: Any) -> None:
    assert by_json([value], "ns") == by_header([str(value).encode()], "ns") == [1_767_225_599_999]


def test_the_first_usable_value_decides() -> None:
    assert detect_unit([None, -1, "?", "1700000000", 1700000000000]) == "s"
    assert detect_unit([]) is None


@pytest.mark.parametrize(
    ("option", "unit", "expected"),
    [
        ("timestamp", None, RecordTimestamp()),
        ("header:created:at", "s", HeaderTimestamp("created:at", "s")),
        ("json:/a/0/b", None, JsonTimestamp("/a/0/b")),
        ("json:", "us", JsonTimestamp("", "us")),
    ],
)
def test_the_option_names_an_assigner(option: str, unit: Any, expected: Any) -> None:
    assert assigner_of(option, unit) == expected


@pytest.mark.parametrize(
    ("option", "unit", "sentence"),
    [
        ("timestmp", None, "expected timestamp, header:NAME or json:/.*; did you mean 'timestamp'"),
        ("heder:x", None, "did you mean 'header:'"),
        ("Json:/x", None, "did you mean 'json:'"),
        ("header", None, "did you mean 'header:'"),
        ("timestamp:", None, "did you mean 'timestamp'"),
        ("", None, "expected timestamp, header:NAME or json:/"),
        ("header:", None, "expected the name of a header"),
        ("json:a/b", None, "begins with '/'"),
        ("json:/a~2b", None, "'~' is written ~0"),
        ("json:/a~", None, "'~' is written ~0"),
        ("json:/a", "iso8061", "a unit of s, ms, us, ns or iso8601; did you mean 'iso8601'"),
        ("header:a", "minutes", "a unit of s, ms, us, ns or iso8601"),
        ("timestamp", "ms", "'ms' cannot be declared"),
    ],
)
def test_any_other_option_is_refused_with_a_remedy(option: str, unit: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        assigner_of(option, unit)
