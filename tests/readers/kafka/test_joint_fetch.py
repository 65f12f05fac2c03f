"""Fetches: whole, damaged on the way, of many partitions at once, of followers, and peeks at single records."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import NotLeaderForPartitionError

from tests.support.kafka.lab import BY_ID, BY_NAME, Record, answered, encode, response, rows
from tests.support.logs import StillClock
from tests.support.streams import delete_before
from tidegate.alignment.splits import SplitRange
from tidegate.errors import CorruptDataError, DataLossError
from tidegate.readers.contract import ReadTask
from tidegate.readers.kafka import client as kafka_client
from tidegate.readers.kafka.batches import RecordBatch
from tidegate.readers.kafka.client import FEW_BYTES, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.fetch import PreferredReplicas, fetched_partitions
from tidegate.readers.kafka.peek import PeekCache
from tidegate.readers.kafka.reader import KafkaSplitReader


@pytest.fixture
def fetches(monkeypatch):
    """Return a list that receives the number of partitions of each fetch."""
    sizes = []
    fetch = KafkaClient.fetch_parts

    def counted(client, positions, *remainder, **more):
        sizes.append(len(positions))
        return fetch(client, positions, *remainder, **more)

    monkeypatch.setattr(KafkaClient, "fetch_parts", counted)
    return sizes


def read(lab, ranges, fetch_max_bytes=50 << 20, **options):
    return rows(KafkaSplitReader(lab.config(fetch_max_bytes=fetch_max_bytes), **options).read(ReadTask(tuple(ranges))))


def fill(lab, sizes, value=b"x" * 50):
    topic = lab.new_topic(len(sizes))
    for partition, size in enumerate(sizes):
        records = [Record(1_000 + i, value=b"%d:%d" % (partition, i) + value) for i in range(size)]
        lab.append(topic, *(encode(records[i : i + 40]) for i in range(0, size, 40)), partition=partition)
    return [SplitRange(f"{topic}-{partition}", 0, size) for partition, size in enumerate(sizes)]


def test_many_small_ranges_take_a_few_fetches(lab, fetches):
    ranges = fill(lab, [30] * 200)
    records = read(lab, ranges)
    assert [(row["partition"], row["offset"]) for row in records] == [(p, o) for p in range(200) for o in range(30)]
    assert len(fetches) <= 4
    assert sum(fetches) == 200


def test_no_more_is_asked_for_than_one_fetch_may_bring_however_many_brokers_answer(lab, fetches):
    records = read(lab, fill(lab, [1] * 20), fetch_max_bytes=5 * FEW_BYTES)
    assert [row["partition"] for row in records] == [*range(20)]
    assert fetches == [5] * 4


def test_ranges_within_partitions_and_large_ones_among_small_ones_are_read_exactly(lab, fetches):
    small, large, other, last = fill(lab, [100, 5_000, 100, 100])
    wanted = [
        SplitRange(small.split_id, 35, 70),
        large,
        SplitRange(other.split_id, 3, 4),
        SplitRange(last.split_id, 90, 95),
    ]
    records = read(lab, wanted)
    expected = [(p, o) for p, r in enumerate(wanted) for o in range(r.start, r.end)]
    assert [(row["partition"], row["offset"]) for row in records] == expected
    assert all(row["value"].startswith(b"%d:%d" % (row["partition"], row["offset"])) for row in records)
    assert 2 in fetches


def test_a_batch_that_is_cut_short_among_others_is_asked_for_alone(lab):
    # A record has more bytes than a fetch of many partitions requests for each.
    ranges = fill(lab, [2, 2, 2], value=b"x" * 200_000)
    records = read(lab, ranges)
    assert [(row["partition"], row["offset"]) for row in records] == [(p, o) for p in range(3) for o in range(2)]


def test_what_came_is_kept_while_the_leader_of_another_one_is_looked_for(lab, monkeypatch):
    ranges = fill(lab, [30, 30, 30])
    moved = []

    def with_a_leader_that_moved(*response):
        *others, (last, error_code, fetched) = fetched_partitions(*response)
        yield from others
        has_moved = not moved
        moved.append(last)
        yield last, NotLeaderForPartitionError.errno if has_moved else error_code, fetched

    monkeypatch.setattr(kafka_client, "fetched_partitions", with_a_leader_that_moved)
    records = read(lab, ranges)
    assert moved[:2] == [moved[0]] * 2  # the partition was requested again
    assert [(row["partition"], row["offset"]) for row in records] == [(p, o) for p in range(3) for o in range(30)]
    assert all(row["value"].startswith(b"%d:%d" % (row["partition"], row["offset"])) for row in records)


def test_one_that_is_gone_is_reported_by_itself_and_the_others_are_read(lab):
    ranges = fill(lab, [10, 10, 10])
    delete_before(lab.kafka, TopicPartition.of(ranges[1].split_id).topic, 10, partition=1)
    with pytest.raises(DataLossError, match=f"records 0 to 10 of {ranges[1].split_id} are wanted"):
        read(lab, ranges)
    records = read(lab, ranges, fail_on_data_loss=False)
    assert [(row["partition"], row["offset"]) for row in records] == [(p, o) for p in (0, 2) for o in range(10)]


VERSIONS = pytest.mark.parametrize("version", [BY_NAME, BY_ID])


@VERSIONS
def test_a_response_is_read(version):
    ((partition, error_code, fetched),) = answered(response(version), version)
    assert (partition, error_code, bytes(fetched.records)) == (TopicPartition("orders", 3), 0, b"records")
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.aborted) == (100, 90, ((7, 15),))


@VERSIONS
def test_a_response_that_ends_too_early_gives_no_other_records(version):
    whole = response(version)
    for end in range(len(whole)):
        with suppress(CorruptDataError):
            for _, _, fetched in answered(whole[:end], version):
                assert b"records".startswith(bytes(fetched.records))


def test_a_topic_that_was_not_requested_is_corrupt():
    with pytest.raises(CorruptDataError, match="a topic id that was not requested"):
        answered(response(BY_ID), BY_ID, UUID(int=8))


P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
GRID = st.lists(st.tuples(st.sampled_from([P, Q]), st.integers(0, 9), st.integers(1, 10)), max_size=20)


def batch(first, last, data=b"xxxx"):
    return RecordBatch(np.frombuffer(bytearray(data), np.uint8), first, last, 0, None, -1, 0, 0, 1)


@given(GRID, st.integers(0, 100))
def test_a_position_is_found_in_the_batch_that_holds_it_and_in_no_other(kept, position):
    peeks = PeekCache()
    for partition, place, length in kept:
        peeks.keep(partition, batch(10 * place, 10 * place + length - 1))
    for partition in (P, Q):
        first = {
            place: length for p, place, length in reversed(kept) if p == partition
        }  # a second batch at a place is ignored
        expected = position % 10 < first.get(position // 10, 0)
        found_batch = peeks.at(partition, position)
        assert (found_batch is not None) == expected
        assert found_batch is None or found_batch.base_offset == position // 10 * 10
    peeks.forget()
    assert peeks.at(P, position) is None


def test_what_is_kept_outlives_the_response_and_is_bounded():
    peeks = PeekCache(most_bytes=10)
    response = bytearray(b"abcd")
    peeks.keep(P, RecordBatch(np.frombuffer(response, np.uint8), 0, 9, 0, None, -1, 0, 0, 1))
    response[:] = b"wxyz"
    assert peeks.at(P, 5).data.tobytes() == b"abcd"
    for first in (10, 20):
        peeks.keep(P, batch(first, first + 9))
    assert peeks.at(P, 15) is not None
    assert peeks.at(P, 25) is None
    peeks.forget()
    peeks.keep(P, batch(20, 29))
    assert peeks.at(P, 25) is not None


def test_from_where_there_is_nothing_is_known_until_it_is_forgotten():
    peeks = PeekCache()
    assert not peeks.is_nothing(P, 7)
    peeks.keep_nothing(P, 7)
    peeks.keep_nothing(P, 9)
    assert [peeks.is_nothing(P, position) for position in (6, 7, 8)] == [False, True, True]
    assert not peeks.is_nothing(Q, 7)
    peeks.forget()
    assert not peeks.is_nothing(P, 8)


def test_a_follower_is_asked_until_its_time_is_over_or_it_fails():
    clock, partition = StillClock(), TopicPartition("orders", 0)
    replicas = PreferredReplicas(10, clock)
    assert replicas.of(partition) is None
    assert not replicas.avoid(partition)  # the leader, not the follower, did not know a position
    assert not replicas.is_avoided(partition)
    replicas.prefer(partition, 2)
    assert replicas.of(partition) == 2
    replicas.forget(partition)
    assert replicas.of(partition) is None
    replicas.prefer(partition, 2)
    assert replicas.avoid(partition)
    assert replicas.of(partition) is None
    replicas.forget(partition)
    assert replicas.is_avoided(partition)
    clock.now = 10
    assert not replicas.is_avoided(partition)
    replicas.prefer(partition, 3)
    clock.now = 20
    assert replicas.of(partition) is None
