"""Partitions of a real broker as splits, and the heads that alignment sees."""

from __future__ import annotations

import itertools
import json
import time
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaProducer

from tests.support.command import await_that
from tests.support.kafka.lab import Lab, Record, encode
from tests.support.kafka.lab import batch as rows_of
from tests.support.streams import append, new_topic
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.splits import Extent, Head, Horizon
from tidegate.enumerators.kafka import enumerator as kafka_enumerator
from tidegate.enumerators.kafka.enumerator import KafkaTimestampEnumerator
from tidegate.enumerators.kafka.heads import HeadFinder
from tidegate.enumerators.kafka.offsets import ByTimestamp, OffsetsSpec
from tidegate.enumerators.kafka.subscription import Assign, Subscribe, SubscribePattern
from tidegate.errors import CheckpointError, ConnectorError, CorruptDataError, DeadlineError, OptionError
from tidegate.kafka_private import MetadataRequest
from tidegate.readers.event_time.assigners import JsonTimestamp, RecordTimestamp
from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.kafka import cluster
from tidegate.readers.kafka.batches import RecordBatch, split_batches
from tidegate.readers.kafka.client import EARLIEST, LATEST
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.servers import write_history

NAMES = (f"enumerators-{number}" for number in itertools.count())
FROM_EARLIEST = OffsetsSpec("startingOffsets", EARLIEST)


@pytest.fixture
def enumerate_(kafka):
    """Make enumerators, and close them at the end."""

    def made(subscription, starting=FROM_EARLIEST, stopping=None, state=None, **more):
        config = KafkaConnectionConfig(kafka.bootstrap_servers, **more.pop("config", {}))
        return KafkaTimestampEnumerator(config, subscription, starting, stopping, state, **more)

    with ExitStack() as stack:
        yield lambda *about, **more: stack.enter_context(closing(made(*about, **more)))


def latest(enumerator, ends):
    horizon = EventTimePolicy().horizon(int(time.time() * 1000))
    return TimeIndex(enumerator, horizon.at_ms).latest({split: Extent(0, end) for split, end in ends.items()})


def requests_of(enumerator, monkeypatch):
    """Return a list of the fetches that an enumerator requests from now on."""
    fetched, fetch = [], enumerator._client.fetch_parts
    monkeypatch.setattr(
        enumerator._client, "fetch_parts", lambda asked, *remainder: fetched.append(asked) or fetch(asked, *remainder)
    )
    return fetched


def transactional(kafka, topic):
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic, linger_ms=0)
    producer.init_transactions()
    producer.begin_transaction()
    return producer


class TestDiscovery:
    def test_a_pattern_may_match_nothing_yet(self, kafka, enumerate_):
        topic = next(NAMES)
        enumerator = enumerate_(SubscribePattern(topic))
        assert enumerator.discover() == []
        kafka.create_topic(topic)
        assert enumerator.discover() == [f"{topic}-0"]

    def test_a_pattern_that_matches_nothing_is_warned_of(self, kafka, enumerate_, caplog):
        topic = new_topic(kafka, [])
        assert enumerate_(SubscribePattern(topic[1:])).discover() == []
        (warning,) = caplog.messages
        assert warning.startswith(f"subscribePattern '{topic[1:]}' matches the whole name of none of the ")
        assert f"topics at {kafka.bootstrap_servers}; did you mean '" in warning
        caplog.clear()
        enumerate_(SubscribePattern(topic)).discover()
        assert caplog.messages == []

    def test_a_partition_that_is_only_not_subscribed_is_not_lost(self, kafka, enumerate_, monkeypatch):
        monkeypatch.setattr(cluster, "UNKNOWN_TOPIC_GRACE_S", 0.5)
        topic = new_topic(kafka, [], [])
        enumerator = enumerate_(Assign((TopicPartition(topic, 0),)))
        assert enumerator.lost({f"{topic}-1": 5, f"{topic}-7": 5, "deleted-0": 3}) == [f"{topic}-7", "deleted-0"]

    def test_a_missing_topic_is_named_with_the_nearest_one(self, kafka, enumerate_):
        topic = new_topic(kafka, [])
        with pytest.raises(ConnectorError, match=rf"^topic '{topic}s' does not exist at .*; did you mean '{topic}'\?$"):
            enumerate_(Subscribe((f"{topic}s",))).discover()

    def test_a_new_topic_that_a_broker_learns_of_later_is_found(self, kafka, enumerate_, monkeypatch):
        topic, decode, answers = new_topic(kafka, []), cluster.decode_response, []

        def late(request, frame):
            response = decode(request, frame)
            if isinstance(request, MetadataRequest) and len(answers) < 2:
                answers.append(response.topics)
                response.topics = []
            return response

        monkeypatch.setattr(cluster, "decode_response", late)
        assert enumerate_(Subscribe((topic,))).discover() == [f"{topic}-0"]
        assert len(answers) == 2

    def test_a_missing_partition_is_named_with_those_there_are(self, kafka, enumerate_):
        topic = new_topic(kafka, [], [])
        with pytest.raises(ConnectorError, match=rf"^topic '{topic}' has no partition 5, only 0 to 1$"):
            enumerate_(Assign((TopicPartition(topic, 5),))).discover()

    def test_a_wrong_server_is_told_within_seconds(self, monkeypatch):
        monkeypatch.setattr(kafka_enumerator, "_FIRST_CONTACT_S", 0.5)
        config = KafkaConnectionConfig("localhost:1")
        enumerator = KafkaTimestampEnumerator(config, Subscribe(("orders",)), FROM_EARLIEST, None)
        with pytest.raises(DeadlineError, match=r"within 0\.5 s: cannot connect to localhost:1"):
            enumerator.discover()


class TestCluster:
    def test_the_snapshot_names_the_cluster_and_lets_the_next_run_go_on(self, kafka, enumerate_):
        topic = new_topic(kafka, [])
        first = enumerate_(Subscribe((topic,)))
        first.discover()
        assert list(first.snapshot()) == ["cluster"]
        second = enumerate_(Subscribe((topic,)), state=first.snapshot())
        second.discover()
        assert second.snapshot() == first.snapshot()

    def test_a_checkpoint_of_another_cluster_is_refused_unless_loss_is_accepted(self, kafka, enumerate_, caplog):
        topic = new_topic(kafka, [])
        other = {"cluster": "another-cluster"}
        with pytest.raises(CheckpointError, match=r"are of the Kafka cluster another-cluster, but .* answers"):
            enumerate_(Subscribe((topic,)), state=other).discover()
        committing = enumerate_(Subscribe((topic,)), state=other, commit_group_id="of-another-cluster")
        with pytest.raises(CheckpointError, match="another-cluster"):
            committing.commit({f"{topic}-0": 7})
        lenient = enumerate_(Subscribe((topic,)), state=other, fail_on_data_loss=False)
        assert lenient.discover() == [f"{topic}-0"]
        assert lenient.snapshot() != other
        assert "is taken to hold the same offsets" in caplog.text


@pytest.fixture(scope="module")
def history(kafka):
    return new_topic(kafka, [100, 200, 300], [150], [])


class TestStarts:
    def starts(self, enumerate_, history, spec, *, first=True):
        enumerator = enumerate_(Subscribe((history,)), spec)
        starts = enumerator.starts(enumerator.discover(), first=first)
        return [starts[f"{history}-{p}"] for p in range(3)]

    def test_words_and_times_are_resolved(self, enumerate_, history):
        assert self.starts(enumerate_, history, OffsetsSpec("startingOffsets", EARLIEST)) == [0, 0, 0]
        assert self.starts(enumerate_, history, OffsetsSpec("startingOffsets", LATEST)) == [3, 1, 0]
        assert self.starts(enumerate_, history, OffsetsSpec("startingTimestamp", ByTimestamp(160))) == [1, 1, 0]
        times = {TopicPartition(history, p): ByTimestamp(at) for p, at in enumerate([LATEST, EARLIEST, 0])}
        spec = OffsetsSpec("startingOffsetsByTimestamp", by_partition=times)
        assert self.starts(enumerate_, history, spec) == [3, 0, 0]

    def test_offsets_may_be_given_for_every_partition(self, enumerate_, history):
        points = {
            TopicPartition(history, 0): 2,
            TopicPartition(history, 1): LATEST,
            TopicPartition(history, 2): EARLIEST,
        }
        assert self.starts(enumerate_, history, OffsetsSpec("startingOffsets", by_partition=points)) == [2, 1, 0]

    def test_a_time_past_the_last_record_is_an_error_when_asked_for(self, enumerate_, history):
        spec = OffsetsSpec("startingTimestamp", ByTimestamp(250), without_record="error")
        with pytest.raises(OptionError, match=rf"partition {history}-1 has no record so late"):
            self.starts(enumerate_, history, spec)

    @pytest.mark.parametrize(
        ("points", "sentence"),
        [
            ({0: 4, 1: 0, 2: 0}, "startingOffsets is 4 for partition {topic}-0, which ends at 3"),
            ({0: 0, 1: 0}, "startingOffsets does not name partition {topic}-2"),
            ({0: 0, 1: 0, 2: 0, 7: 0}, "startingOffsets names partition {topic}-7, which is not among those"),
        ],
    )
    def test_offsets_that_fit_no_partition_are_refused(self, enumerate_, history, points, sentence):
        spec = OffsetsSpec("startingOffsets", by_partition={TopicPartition(history, p): at for p, at in points.items()})
        with pytest.raises(OptionError, match=sentence.format(topic=history)):
            self.starts(enumerate_, history, spec)

    @pytest.mark.parametrize(
        ("option", "point", "hint", "named"),
        [
            ("startingOffsets", int, r" \(-2 is its beginning, -1 its end\)", {-2: 0, -1: 2}),
            ("startingOffsetsByTimestamp", ByTimestamp, r" \(-2 is its beginning, -1 its end\)", {-2: 0, -1: 2}),
            ("endingOffsets", int, r", also a new one \(-1 is its end, and 0 reads nothing\)", {-1: 2, 0: 0}),
            (
                "endingOffsetsByTimestamp",
                ByTimestamp,
                r", also a new one \(-1 is its end, and 0 reads nothing\)",
                {-1: 2, 0: 0},
            ),
        ],
    )
    def test_a_partition_that_a_start_or_an_end_lacks_can_be_named_as_the_error_says(
        self, kafka, enumerate_, option, point, hint, named
    ):
        topic = new_topic(kafka, [100])

        def resolved(by_partition):
            spec = OffsetsSpec(option, by_partition={TopicPartition(topic, p): at for p, at in by_partition.items()})
            if option.startswith("starting"):
                enumerator = enumerate_(Subscribe((topic,)), spec)
                return enumerator.starts(enumerator.discover(), first=True)
            enumerator = enumerate_(Subscribe((topic,)), stopping=spec)
            return enumerator.stops(enumerator.discover())

        assert resolved({0: point(0)}) == {f"{topic}-0": 0}
        kafka.add_partitions(topic, 2)
        enumerator = enumerate_(Subscribe((topic,)))
        await_that(lambda: len(enumerator.discover()) == 2)
        append(kafka, topic, {1: [200, 300]})
        with pytest.raises(OptionError, match=f"^{option} does not name partition {topic}-1, .*every partition{hint}$"):
            resolved({0: point(0)})
        for number, offset in named.items():
            assert resolved({0: point(0), 1: point(number)}) == {f"{topic}-0": 0, f"{topic}-1": offset}

    def test_stops_are_resolved_the_same_way(self, enumerate_, history):
        enumerator = enumerate_(Subscribe((history,)), stopping=OffsetsSpec("endingTimestamp", ByTimestamp(200)))
        stops = enumerator.stops(enumerator.discover())
        assert [stops[f"{history}-{p}"] for p in range(3)] == [1, 1, 0]
        endless = enumerate_(Subscribe((history,)))
        assert set(endless.stops(endless.discover()).values()) == {None}


class TestExtents:
    def test_an_open_transaction_leaves_a_partition_unsettled(self, kafka, enumerate_):
        topic = new_topic(kafka, [1, 2])
        enumerator = enumerate_(Subscribe((topic,)), config={"isolation_level": "read_committed"})
        splits = enumerator.discover()
        producer = transactional(kafka, topic)
        producer.send(topic, b"x", partition=0, timestamp_ms=3).get(60)
        assert enumerator.extents(splits) == {f"{topic}-0": Extent(0, 2, settled=False)}
        producer.commit_transaction()
        producer.close()
        await_that(lambda: enumerator.extents(splits)[f"{topic}-0"].settled)
        assert enumerator.extents(splits) == {f"{topic}-0": Extent(0, 4)}


@pytest.fixture(scope="module")
def committed(kafka):
    """A topic of ten transactions."""
    topic = new_topic(kafka, [])
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic, linger_ms=0)
    producer.init_transactions()
    for at in range(100, 1100, 100):
        producer.begin_transaction()
        producer.send(topic, b"x", partition=0, timestamp_ms=at).get(60)
        producer.commit_transaction()
    producer.close()
    # The broker confirms that it will write the last marker, not that it has.
    await_that(lambda: Lab(kafka).end(topic, isolation_level="read_committed") == 20)
    return topic


class TestTransactionalHistory:
    """Every commit leaves a marker that carries the wall clock, and Kafka finds the marker for any time."""

    @pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
    @pytest.mark.parametrize(("time_ms", "offset"), [(0, 0), (100, 0), (101, 2), (500, 8), (501, 10), (1000, 18)])
    def test_a_time_is_resolved_to_its_record(self, enumerate_, committed, isolation_level, time_ms, offset):
        spec = OffsetsSpec("endingTimestamp", ByTimestamp(time_ms))
        enumerator = enumerate_(Subscribe((committed,)), spec, spec, config={"isolation_level": isolation_level})
        splits = enumerator.discover()
        starts, stops = enumerator.starts(splits, first=True), enumerator.stops(splits)
        assert starts == stops
        head = enumerator.peek(starts, Horizon())[f"{committed}-0"]
        assert (head.position, head.event_time_ms) == (offset, max(100, -(-time_ms // 100) * 100))

    def test_a_time_past_all_records_is_the_end(self, enumerate_, committed):
        enumerator = enumerate_(Subscribe((committed,)), OffsetsSpec("endingTimestamp", ByTimestamp(1001)))
        assert enumerator.starts(enumerator.discover(), first=True) == {f"{committed}-0": 20}


class TestTimeIndex:
    def test_the_latest_time_is_that_of_a_record_before_the_end(self, kafka, enumerate_):
        topic = new_topic(kafka, [100, 900, 300], [150], [])
        enumerator = enumerate_(Subscribe((topic,)))
        enumerator.extents(enumerator.discover())
        ends = {f"{topic}-0": 3, f"{topic}-1": 1, f"{topic}-2": 0}
        assert latest(enumerator, ends) == {f"{topic}-0": 900, f"{topic}-1": 150, f"{topic}-2": None}
        assert latest(enumerator, {f"{topic}-0": 1}) == {f"{topic}-0": 100}

    def test_peeks_nearby_share_one_request_until_the_next_plan(self, kafka, enumerate_, monkeypatch):
        topic = new_topic(kafka, [*range(500)], [*range(500, 1000)])
        enumerator = enumerate_(Subscribe((topic,)))
        splits = list(enumerator.discover())
        fetched = requests_of(enumerator, monkeypatch)
        for position in (7, 499, 8, 0):
            seen = enumerator.peek(dict.fromkeys(splits, position), Horizon())
            assert seen == {splits[0]: Head(position, position), splits[1]: Head(position, 500 + position)}
        assert len(fetched) == 1
        assert enumerator.peek({splits[0]: 500}, Horizon()) == {splits[0]: None}
        enumerator.extents(splits)
        enumerator.peek({splits[0]: 7}, Horizon())
        assert len(fetched) == 3

    def test_ignored_records_at_the_end_are_looked_through_about_once(self, kafka, enumerate_, monkeypatch):
        topic = new_topic(kafka, [])
        in_2099 = np.full(40_000, 4_070_908_800_000)
        write_history(kafka.bootstrap_servers, topic, 0, np.concatenate([[100], in_2099]), records_per_batch=500)
        enumerator = enumerate_(Subscribe((topic,)))
        extents = enumerator.extents(enumerator.discover())
        fetched = requests_of(enumerator, monkeypatch)
        end = extents[f"{topic}-0"].end
        horizon = EventTimePolicy().horizon(int(time.time() * 1000))
        assert enumerator.peek({f"{topic}-0": 1}, horizon) == {f"{topic}-0": None}
        once = len(fetched)
        enumerator.extents(enumerator.discover())
        fetched.clear()
        assert latest(enumerator, {f"{topic}-0": end}) == {f"{topic}-0": 100}
        assert len(fetched) < 2 * once + 40  # the other requests of the search, each once
        assert once > 40

    def test_the_marker_of_a_transaction_is_no_record(self, kafka, enumerate_):
        topic = new_topic(kafka, [])
        producer = transactional(kafka, topic)
        for at in (100, 200):
            producer.send(topic, b"x", partition=0, timestamp_ms=at).get(60)
        producer.commit_transaction()
        producer.close()
        split = f"{topic}-0"
        enumerator = enumerate_(Subscribe((topic,)), config={"isolation_level": "read_committed"})
        splits = enumerator.discover()
        await_that(lambda: enumerator.extents(splits) == {split: Extent(0, 3)})
        assert enumerator.lookup(150, {split: 0}) == {split: Head(1, 200)}
        assert enumerator.lookup(250, {split: 0})[split].position == 2  # the marker, which carries the wall clock
        assert enumerator.peek({split: 2}, Horizon()) == {split: None}
        assert latest(enumerator, {split: 3}) == {split: 200}


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
