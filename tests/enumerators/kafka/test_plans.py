"""Plans over a real broker, without Spark, and over one whose lookup by time does not answer with the first record."""

from datetime import datetime, timedelta, timezone
from unittest.mock import ANY

import numpy as np
import pytest

from tests.support.logs import coordinating, drain
from tests.support.streams import new_topic
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.alignment.budget import Budget
from tidegate.enumerators.kafka.enumerator import KafkaEnumerator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.kafka_private import FetchRequest, ListOffsetsRequest
from tidegate.readers.kafka import client as kafka_client
from tidegate.readers.kafka.wire.connection import BrokerConnection
from tidegate.servers import write_history

NOON, HOUR = 1_700_049_600_000, 3_600_000
RECORDS = 1_000
SIZES = (100, 2_000)  # of a value, by partition
OVERHEAD = 10  # of a record in its batch, about
TOPIC = "plans"


@pytest.fixture(scope="module")
def topic(kafka):
    """Make a topic whose partitions have equally many records over the same 6 hours, but of different sizes."""
    kafka.create_topic(TOPIC, len(SIZES))
    times = np.linspace(NOON, NOON + 6 * HOUR, RECORDS, endpoint=False).astype(np.int64)
    for partition, size in enumerate(SIZES):
        write_history(
            kafka.bootstrap_servers, TOPIC, partition, times, value_size=size, records_per_batch=16_384 // size
        )
    return TOPIC


def batches(kafka, topic, drift, budget):
    """Plan a bounded run to its end; return the number of records of each partition in each batch."""
    strategy = WatermarkStrategy()
    if drift is not None:
        strategy = strategy.with_watermark_alignment(max_drift=drift)
    source = KafkaSource(
        bootstrap_servers=kafka.bootstrap_servers, subscribe=[topic], starting_offsets="earliest", watermarks=strategy
    )
    sizes, before = [], [0, 0]
    with coordinating(source) as run:
        run.bound_run()
        start = INITIAL_OFFSET
        while (end := run.latest_offset(start, budget)) != start:
            positions = [end["positions"][f"{topic}-{partition}"] for partition in range(len(SIZES))]
            sizes.append([now - then for now, then in zip(positions, before, strict=True)])
            start, before = end, positions
    assert before == [RECORDS] * len(SIZES)
    return sizes


@pytest.mark.parametrize("drift", [None, timedelta(hours=3)])
@pytest.mark.parametrize("rows", [None, 240])
def test_batches_hold_the_bytes_that_are_allowed_whatever_the_sizes_of_records(kafka, topic, drift, rows):
    budget = Budget(bytes=400_000, rows=rows)
    *full, _ = batches(kafka, topic, drift, budget)
    assert len(full) >= 5
    for counts in full:
        in_bytes = sum(count * (size + OVERHEAD) for count, size in zip(counts, SIZES, strict=True))
        assert in_bytes <= budget.bytes
        if rows is None:
            assert in_bytes >= 0.85 * budget.bytes
        else:
            assert 0.85 * rows <= sum(counts) <= rows


@pytest.mark.parametrize("rows", [None, 500])
@pytest.mark.parametrize("drift", [timedelta.max, timedelta(days=365 * 200_000)])
def test_a_drift_that_is_longer_than_all_time_bounds_nothing(kafka, topic, drift, rows):
    assert len(batches(kafka, topic, drift, Budget(rows=rows))) in ({1} if rows is None else {4, 5})


def test_nobody_asks_for_ends_that_stay_the_same(kafka, monkeypatch):
    kafka.create_topic("quiet", 3)
    write_history(kafka.bootstrap_servers, "quiet", 0, np.array([NOON]))
    source = KafkaSource(bootstrap_servers=kafka.bootstrap_servers, subscribe=["quiet"], starting_offsets="earliest")
    asked, look = [], KafkaEnumerator.available_extents
    monkeypatch.setattr(KafkaEnumerator, "available_extents", lambda *of: asked.append(of) or look(*of))
    with coordinating(source) as run:
        _, start = drain(run, INITIAL_OFFSET)
        asked.clear()
        for _ in range(20):
            assert run.latest_offset(start) == start
        assert len(asked) <= 2
        write_history(kafka.bootstrap_servers, "quiet", 1, np.array([NOON]))
        for _ in range(5):
            end = run.latest_offset(start)
            if end != start:
                break
        assert end["positions"] == {"quiet-0": 1, "quiet-1": 1, "quiet-2": 0}


def test_a_plan_confirms_what_the_index_says_with_hardly_a_request_more(kafka, topic, monkeypatch):
    sent, send = [], BrokerConnection.send
    monkeypatch.setattr(BrokerConnection, "send", lambda at, request, s: sent.append(request) or send(at, request, s))
    plans = len(batches(kafka, topic, timedelta(minutes=15), Budget()))
    fetches = sum(isinstance(request, FetchRequest) for request in sent)
    assert plans == 24
    assert fetches <= 1.5 * plans  # each plan peeks at the next heads in any case


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
def lied_topic(request, kafka, monkeypatch):
    """A topic of two partitions, whose broker lies about each time of the first one."""
    lied_topic = new_topic(kafka, BUSY if request.param is last_of_equal_times else TIMES, TIMES)
    decode = kafka_client.decode_response

    def lying(sent, frame):
        response = decode(sent, frame)
        if isinstance(sent, ListOffsetsRequest):
            asked = {(t.name, p.partition_index): p.timestamp for t in sent.topics for p in t.partitions}
            for answer in (p for t in response.topics for p in t.partitions if p.partition_index == 0):
                if asked[lied_topic, 0] >= 0:
                    answer.offset, answer.timestamp = request.param(asked[lied_topic, 0])
        return response

    monkeypatch.setattr(kafka_client, "decode_response", lying)
    return lied_topic


def ranges(tasks):
    return {r.split_id: (r.start, r.end) for task in tasks for r in task.ranges}


def source_of(kafka, lied_topic, **options):
    return KafkaSource(bootstrap_servers=kafka.bootstrap_servers, subscribe=[lied_topic], **options)


def test_a_batch_begins_at_the_first_record_of_its_time(kafka, lied_topic):
    with coordinating(source_of(kafka, lied_topic, starting_timestamp=HALF_S)) as run:
        tasks, _ = run.everything()
    assert ranges(tasks) == {f"{lied_topic}-0": (500, ANY), f"{lied_topic}-1": (500, 1000)}


def test_a_batch_ends_before_the_first_record_of_its_time(kafka, lied_topic):
    with coordinating(source_of(kafka, lied_topic, starting_offsets="earliest", ending_timestamp=HALF_S)) as run:
        tasks, _ = run.everything()
    assert ranges(tasks) == {f"{lied_topic}-0": (0, 500), f"{lied_topic}-1": (0, 500)}
