"""Brokers whose lookup by time does not answer with the first record, as Redpanda's and tiered storage's did."""

from datetime import datetime, timedelta, timezone
from unittest.mock import ANY

import pytest

from tests.support.logs import coordinating
from tests.support.streams import new_topic
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.kafka_private import ListOffsetsRequest
from tidegate.readers.kafka import client as kafka_client

HALF_S = datetime.fromtimestamp(0.5, timezone.utc)
TIMES = [*range(1000)]
BUSY = [*range(500), *[500] * 10, *range(501, 1000)]
"""Ten records of one time."""


def none(_asked_ms):
    return -1, -1


def later(_asked_ms):
    return 700, 700


def last_of_equal_times(_asked_ms):
    return 509, 500


@pytest.fixture(params=[none, later, last_of_equal_times])
def topic(request, kafka, monkeypatch):
    """A topic of two partitions, whose broker lies about each time of the first one."""
    topic = new_topic(kafka, BUSY if request.param is last_of_equal_times else TIMES, TIMES)
    decode = kafka_client.decode_response

    def lying(sent, frame):
        response = decode(sent, frame)
        if isinstance(sent, ListOffsetsRequest):
            asked = {(t.name, p.partition_index): p.timestamp for t in sent.topics for p in t.partitions}
            for answer in (p for t in response.topics for p in t.partitions if p.partition_index == 0):
                if asked[topic, 0] >= 0:
                    answer.offset, answer.timestamp = request.param(asked[topic, 0])
        return response

    monkeypatch.setattr(kafka_client, "decode_response", lying)
    return topic


def ranges(tasks):
    return {r.split_id: (r.start, r.end) for task in tasks for r in task.ranges}


def source_of(kafka, topic, **options):
    return KafkaSource(bootstrap_servers=kafka.bootstrap_servers, subscribe=[topic], **options)


def test_a_batch_begins_at_the_first_record_of_its_time(kafka, topic):
    with coordinating(source_of(kafka, topic, starting_timestamp=HALF_S)) as run:
        tasks, _ = run.everything()
    assert ranges(tasks) == {f"{topic}-0": (500, ANY), f"{topic}-1": (500, 1000)}


def test_a_batch_ends_before_the_first_record_of_its_time(kafka, topic):
    with coordinating(source_of(kafka, topic, starting_offsets="earliest", ending_timestamp=HALF_S)) as run:
        tasks, _ = run.everything()
    assert ranges(tasks) == {f"{topic}-0": (0, 500), f"{topic}-1": (0, 500)}


def test_a_stream_cuts_all_partitions_at_one_time(kafka, topic):
    drift = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(milliseconds=500))
    source = source_of(kafka, topic, starting_offsets="earliest", watermarks=drift)
    with coordinating(source) as run:
        assert run.latest_offset(INITIAL_OFFSET)["positions"] == {f"{topic}-0": 500, f"{topic}-1": 500}
        assert run.source_progress()["inexactSplits"] == 1
