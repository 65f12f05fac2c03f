"""The record of a batch that alignment sees, and the knowledge that the search gains."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.kafka.lab import Record, encode
from tests.support.kafka.lab import batch as rows_of
from tidegate.enumerators.kafka.heads import HeadFinder
from tidegate.errors import CorruptDataError
from tidegate.readers.event_time.assigners import JsonTimestamp, RecordTimestamp
from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.kafka.batches import RecordBatch, split_batches
from tidegate.readers.kafka.config import TopicPartition

ORDERS = TopicPartition("orders", 3)
NOW_MS = 1_700_000_000_000
FUTURE_MS = NOW_MS + 10**9
HORIZON = EventTimePolicy().horizon(NOW_MS)


def finder(assigner: Any = RecordTimestamp(), **policy: Any) -> HeadFinder:  # noqa: B008 - it is frozen
    return HeadFinder(RecordTimes(assigner, EventTimePolicy(**policy)))


def batch_of(*records: Record) -> RecordBatch:
    (batch,) = split_batches(memoryview(encode(list(records))))
    return batch


def stamped(*times_ms: int) -> RecordBatch:
    return batch_of(*(Record(value=b"x", timestamp=at) for at in times_ms))


@given(
    st.lists(st.sampled_from([5, NOW_MS, FUTURE_MS, FUTURE_MS + 1]), min_size=1, max_size=6),
    st.integers(0, 5),
    st.integers(1, 6),
    st.sampled_from([RecordTimestamp(), JsonTimestamp("/at", "ms")]),
)
def test_what_is_held_is_found_within_a_range(times_ms: list[int], start: int, end: int, assigner: Any) -> None:
    batch = batch_of(*(Record(value=json.dumps({"at": at}).encode(), timestamp=at) for at in times_ms))
    first = next(((at, t) for at, t in enumerate(times_ms) if start <= at < end and t >= HORIZON.at_ms), None)
    head = finder(assigner, future="hold").first_held(HORIZON, {ORDERS.split_id: end}, ORDERS, batch, start)
    assert (None if head is None or head[0] >= end else head) == first
    assert head is not None or batch.last_offset + 1 < end, "the search goes on behind the range"


@given(
    st.lists(st.sampled_from([-1, 0, NOW_MS, NOW_MS + 1_000, NOW_MS + 1_001, FUTURE_MS]), min_size=1, max_size=6),
    st.integers(0, 6),
    st.builds(
        EventTimePolicy,
        st.sampled_from(["fail", "record-timestamp", "ignore"]),
        st.sampled_from(["ignore", "hold", "fail"]),
        st.just(1_000),
    ),
)
def test_the_planner_sees_and_refuses_what_an_executor_does(times_ms, position, policy):
    def by_executor():
        rows = rows_of(timestamps_ms=times_ms, first_offset=0)
        for offset in range(position, len(times_ms)):
            (at_ms,) = RecordTimes(policy=policy).judge(rows.slice(offset, 1), horizon).times.to_pylist()
            if at_ms is not None:
                return offset, at_ms
        return None

    def outcome(ask):
        try:
            return ask()
        except CorruptDataError as error:
            return str(error)

    find, horizon = HeadFinder(RecordTimes(policy=policy)), policy.horizon(NOW_MS)
    assert outcome(lambda: find(horizon, ORDERS, stamped(*times_ms), position)) == outcome(by_executor)


def test_times_in_the_payload_are_passed_over_by_the_same_policy() -> None:
    values = [b"no json", json.dumps({"at": FUTURE_MS}).encode(), *[b"{}"] * 20, json.dumps({"at": NOW_MS}).encode()]
    batch = batch_of(*(Record(value=value) for value in values))
    head = finder(assigner=JsonTimestamp("/at", "ms"), bad="ignore")(HORIZON, ORDERS, batch, 0)
    assert head == (22, NOW_MS)


def test_the_unit_is_learnt_from_the_first_usable_time() -> None:
    find = finder(assigner=JsonTimestamp("/at"), bad="ignore")
    assert find(HORIZON, ORDERS, batch_of(Record(value=b"no json")), 0) is None
    assert find.event_times.unit_is_unknown
    assert find(HORIZON, ORDERS, batch_of(Record(value=b'{"at": 1700000000}')), 0) == (0, NOW_MS)
    assert (
        find(HORIZON, ORDERS, batch_of(Record(value=b'{"at": 1700000000000}')), 0) is None
    )  # in seconds that is no time


def test_the_size_of_a_record_is_learnt_by_partition() -> None:
    find, other = finder(), TopicPartition("orders", 4)
    assert find.bytes_per_record(ORDERS) == 1.0
    find(HORIZON, ORDERS, batch_of(*[Record(value=b"v" * 1000)] * 50), 0)
    find(HORIZON, other, batch_of(*[Record(value=b"v" * 100)] * 50), 0)
    assert 1000 < find.bytes_per_record(ORDERS) < 1100
    assert 100 < find.bytes_per_record(other) < 200
    assert 500 < find.bytes_per_record(TopicPartition("orders", 5)) < 650
