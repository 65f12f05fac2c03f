"""Options of bad and future event times, as connectors get them."""

from datetime import timedelta

import pytest
from harness import OutboxHarness

from tests.conformance.memory.reference import MemorySource
from tests.support.kafka.lab import batch
from tidegate import KafkaSource, S3Source
from tidegate.alignment.splits import Horizon, SplitRange
from tidegate.conformance import Row
from tidegate.errors import CorruptDataError
from tidegate.readers.contract import ReadTask
from tidegate.readers.event_time.policy import LEAST_MS, EventTimePolicy

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
