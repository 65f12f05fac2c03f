"""Options of times: durations, and bad and future event times."""

from datetime import timedelta

import pandas as pd
import pytest
from harness import OutboxHarness
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.memory.reference import MemorySource
from tests.support.kafka.lab import batch
from tidegate import KafkaSource, S3Source
from tidegate.alignment.splits import Horizon, SplitRange
from tidegate.conformance import Row
from tidegate.errors import CorruptDataError
from tidegate.readers.contract import ReadTask
from tidegate.readers.event_time.policy import LEAST_MS, EventTimePolicy
from tidegate.sources.options import parse_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("500 ms", timedelta(milliseconds=500)),
        ("10 minutes", timedelta(minutes=10)),
        ("1 hour 30 minutes", timedelta(minutes=90)),
        ("2 days", timedelta(days=2)),
        (" 1 second ", timedelta(seconds=1)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5 Hours", timedelta(minutes=90)),
        ("-2 days 3 s 250us", -timedelta(days=2, seconds=3, microseconds=250)),
        (timedelta(hours=1), timedelta(hours=1)),
    ],
)
def test_durations_are_read_as_people_write_them(text, duration):
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "1.5",
        "-3",
        "fast",
        "10 parsecs",
        "NaT",
        "nan",
        None,
        "P",
        "1e400 s",
        "5 minutes or so",
        "1 hour, 3",
    ],
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["106752 days", "-106752 days", "9999999999 hours"])
def test_a_duration_that_is_too_long_is_refused_with_the_longest(text):
    with pytest.raises(ValueError, match=r"^a duration is at most 106751 days$"):
        parse_duration(text)


_UNITS = ["ms", "millisecond", "s", "sec", "second", "m", "min", "minute", "h", "hour", "d", "day", "us"]


@given(st.lists(st.tuples(st.integers(0, 9_999), st.sampled_from(_UNITS), st.booleans()), min_size=1, max_size=3))
def test_numbers_with_units_are_what_pandas_makes_of_them(parts):
    text = " ".join(f"{number} {unit}{'s' * (plural and len(unit) > 3)}" for number, unit, plural in parts)
    assert parse_duration(text) == pd.Timedelta(text).to_pytimedelta()


OPTIONS = {"bad_event_time": "record-timestamp", "future_event_time": "hold", "max_future_skew": timedelta(seconds=2)}
WANTED = EventTimePolicy("record-timestamp", "hold", 2_000)
SOURCES = [
    (KafkaSource(bootstrap_servers="a:1", subscribe="t", **OPTIONS), 0),
    (S3Source(path="s3://b/p", file_format="json", state_location="s3://b/s", **OPTIONS), LEAST_MS),
    (MemorySource(address="ab:cd@e:1", **OPTIONS), 0),
]


@pytest.mark.parametrize(
    ("source", "earliest_ms"), SOURCES, ids=lambda parameter: getattr(parameter, "connector", None)
)
def test_every_source_has_the_policy_that_its_options_name(source, earliest_ms):
    assert source.event_time_policy == EventTimePolicy("record-timestamp", "hold", 2_000, earliest_ms)
    assert source.model_copy(update={"bad_event_time": "ignore"}).event_time_policy.bad == "ignore"


def test_records_are_judged_by_the_policy_of_their_source():
    assert SOURCES[0][0].event_times.policy == WANTED
    held = SOURCES[0][0].event_times.judge(batch(timestamps_ms=[5]), Horizon(2_001)).times
    assert held.to_pylist() == [5]


@pytest.mark.parametrize(
    ("own_ms", "stand_in_ms", "usable_ms"), [(5, None, 5), (None, 7, 7), (-1, 7, 7), (2**62, 7, 7), (-(2**70), 7, 7)]
)
def test_another_time_of_a_row_stands_in_for_a_bad_one(own_ms, stand_in_ms, usable_ms):
    source = SOURCES[2][0]
    assert source.usable_time_ms(own_ms, "row 1", Horizon(2_001), record_timestamp_ms=stand_in_ms) == usable_ms


@pytest.mark.parametrize("stand_in_ms", [None, -1, 2**62])
def test_a_row_for_whose_bad_time_nothing_can_stand_in_is_refused(stand_in_ms):
    with pytest.raises(CorruptDataError, match=r"^row 1 has no usable event time: it is neg.*; set badEventTime to ig"):
        SOURCES[2][0].usable_time_ms(-1, "row 1", Horizon(2_001), record_timestamp_ms=stand_in_ms)


def test_the_outbox_whose_rows_have_one_time_only_refuses_a_bad_one_where_another_is_to_stand_in():
    harness = OutboxHarness()
    writer = harness.create_split()
    writer.append([Row(0, 0, 5, ""), Row(0, 1, -1, "")])
    source = harness.source({"badEventTime": "record-timestamp"})
    task = ReadTask((SplitRange(writer.shard, 0, 2),))
    for ask in (
        lambda: source.enumerator(None).peek({writer.shard: 1}, Horizon()),
        lambda: [*source.reader(None).read(task)],
    ):
        with pytest.raises(CorruptDataError, match=r"the row 1 has no usable event time: it is negative, and its own"):
            ask()
    harness.close()


SECRET = "hunter2"  # noqa: S105 - no real one
NEEDED = {"kafka.bootstrap.servers": "here:9092", "subscribe": "orders"}


def of(**options):
    """Return the source of Spark's options; a name with two underscores stands for a dot."""
    return KafkaSource.from_options({**NEEDED, **{n.replace("__", "."): v for n, v in options.items()}})
