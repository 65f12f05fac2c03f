"""Plans over a real broker, without Spark: a coordinator that looks at records."""

from datetime import timedelta

import numpy as np
import pytest

from tests.support.logs import coordinating, drain
from tidegate import KafkaSource, WatermarkStrategy
from tidegate.alignment.budget import Budget
from tidegate.enumerators.kafka.enumerator import KafkaEnumerator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.kafka_private import FetchRequest
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
