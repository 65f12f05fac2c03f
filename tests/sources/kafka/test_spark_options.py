"""The options that a job brings from Spark's built-in Kafka source, with Spark's meaning."""

import logging

import pytest

from tests.sources.kafka_options import of
from tidegate.enumerators.kafka.offsets import ByTimestamp
from tidegate.errors import OptionError
from tidegate.readers.kafka.client import EARLIEST
from tidegate.readers.kafka.config import TopicPartition
from tidegate.sources.kafka.java.table import NO_GROUP

BY_TIME, BY_OFFSET = '{"orders": {"0": 17}}', '{"orders": {"0": 3}}'
ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize("which", ["starting", "ending"])
@pytest.mark.parametrize(
    ("options", "point", "unused"),
    [
        ({"Offsets": BY_OFFSET}, 3, []),
        ({"Offsets": BY_OFFSET, "OffsetsByTimestamp": BY_TIME}, ByTimestamp(17), ["Offsets"]),
        ({"OffsetsByTimestamp": BY_TIME, "Timestamp": "5"}, ByTimestamp(5), ["OffsetsByTimestamp"]),
        ({"Offsets": "latest", "Timestamp": "5"}, ByTimestamp(5), ["Offsets"]),
    ],
)
def test_a_time_comes_before_offsets_and_a_time_of_all_partitions_before_those_of_each(which, options, point, unused):
    source = of(**{f"{which}{name}": value for name, value in options.items()})
    enumerator = source.enumerator(None)
    assert {"starting": enumerator._starting, "ending": enumerator._stopping}[which].point(ORDERS) == point
    assert [text.split()[0] for text in source.without_effect] == [f"{which}{name}" for name in unused]


@pytest.mark.parametrize(
    ("start", "end", "sentence"),
    [
        ({"Timestamp": "6"}, {"Timestamp": "5"}, "startingTimestamp is 6, after endingTimestamp, which is 5"),
        (
            {"Offsets": BY_OFFSET},
            {"Offsets": '{"orders": {"0": 2}}'},
            "startingOffsets is 3 for partition orders-0, after endingOffsets, which is 2",
        ),
        (
            {"Timestamp": "18"},
            {"OffsetsByTimestamp": BY_TIME},
            "startingTimestamp is 18 for partition orders-0, after endingOffsetsByTimestamp, which is 17",
        ),
    ],
)
def test_a_start_after_the_end_is_refused(start, end, sentence):
    options = {f"starting{name}": value for name, value in start.items()}
    with pytest.raises(OptionError) as raised:
        of(**options, **{f"ending{name}": value for name, value in end.items()})
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    "options",
    [
        {"startingTimestamp": "5", "endingTimestamp": "5"},
        {"startingOffsets": BY_OFFSET, "endingOffsets": '{"orders": {"0": -1}}'},
        {"startingOffsets": '{"orders": {"0": -1}}', "endingOffsets": BY_OFFSET},
        {"startingTimestamp": "5", "endingOffsets": BY_OFFSET},
        {"startingOffsetsByTimestamp": BY_TIME, "endingOffsets": BY_OFFSET},
        {"startingOffsets": BY_OFFSET, "startingTimestamp": "0", "endingOffsets": '{"orders": {"0": 1}}'},
    ],
)
def test_a_start_that_may_be_before_the_end_is_accepted(options):
    assert of(**options).enumerator(None) is not None


def test_a_batch_query_begins_at_the_earliest_offset_unless_a_time_comes_before_it():
    assert of().as_batch().starting_offsets == "earliest"
    assert of(startingTimestamp="5").as_batch().starting_offsets is None
    assert of(startingOffsets="latest", startingTimestamp="5").as_batch().starting_timestamp == 5
    with pytest.raises(OptionError, match="a batch query would read nothing"):
        of(startingOffsets="latest").as_batch()
    assert of().as_batch().enumerator(None)._starting.point(ORDERS) == EARLIEST


def test_what_has_no_effect_is_said_once_for_all_when_a_run_begins(caplog):
    source = of(groupIdPrefix="reports", fetchOffset__numRetries="3", startingOffsets="earliest", startingTimestamp="5")
    with caplog.at_level(logging.WARNING):
        source.enumerator(None)
    (record,) = caplog.records
    assert record.getMessage() == (
        "these options have no effect: fetchOffset.numRetries (kafka.default.api.timeout.ms limits every operation, "
        f"with all retries), groupIdPrefix ({NO_GROUP}), startingOffsets (startingTimestamp comes before it)"
    )
    caplog.clear()
    of(startingOffsets="earliest").enumerator(None)
    assert not caplog.records
