"""The visible records: as kafka-python reads them, of transactions, of old logs, and behind holes and empty answers."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from kafka import KafkaProducer
from kafka.protocol.consumer import ListOffsetsRequest

from tests.readers.kafka.test_old_messages import old_segment, read_of_a_broker
from tests.support.command import await_that
from tests.support.kafka.lab import Lab, Record, encode, limit_reading, rows
from tidegate.alignment.index import TimeIndex
from tidegate.alignment.splits import Extent
from tidegate.enumerators.kafka.enumerator import KafkaEnumerator
from tidegate.enumerators.kafka.offsets import OffsetsSpec
from tidegate.enumerators.kafka.subscription import Subscribe
from tidegate.errors import DeadlineError
from tidegate.readers.kafka import client as kafka_client
from tidegate.readers.kafka.client import EARLIEST, EARLIEST_LOCAL, LATEST, MAX_TIMESTAMP, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.peek import peek
from tidegate.readers.kafka.watch import WatchedEnd
from tidegate.readers.kafka.wire import connection as kafka_connection
from tidegate.servers import KafkaServer

SHORT_S = 0.5
NEVER_ABORTED_MS = 900_000  # the longest time-out that a broker allows; its default ends a transaction after a minute


def limit_list_offsets(monkeypatch, newest):
    """Make new connections treat brokers as older ones."""
    connect = kafka_connection._connect

    def connect_to_older(*arguments):
        taken, versions = connect(*arguments)
        versions.api_versions[ListOffsetsRequest.API_KEY] = (1, newest)
        return taken, versions

    monkeypatch.setattr(kafka_connection, "_connect", connect_to_older)


class Tiers:
    """Removes the records from fetch responses, like a broker whose tiered storage does not answer."""

    def __init__(self, monkeypatch, local):
        self.silent_for = self.fetches = 0
        self._read = kafka_client.fetched_partitions
        list_offsets = KafkaClient.list_offsets

        def list_some_remote(client, timestamps, **level):
            listed = list_offsets(client, timestamps, **level)
            return {p: (local, -1) if timestamps[p] == EARLIEST_LOCAL else at for p, at in listed.items()}

        monkeypatch.setattr(kafka_client, "fetched_partitions", self.read)
        monkeypatch.setattr(KafkaClient, "list_offsets", list_some_remote)

    def read(self, *response):
        self.fetches += 1
        for partition, error_code, fetched in self._read(*response):
            silent = self.fetches <= self.silent_for
            yield partition, error_code, replace(fetched, records=memoryview(b"")) if silent else fetched


@pytest.fixture
def tiers(monkeypatch):
    return Tiers(monkeypatch, local=1_000)


def filled(lab):
    topic = lab.new_topic()
    lab.append(topic, encode([Record(7_000 + n) for n in range(5)]))
    return TopicPartition(topic, 0)


def test_records_that_tiered_storage_does_not_bring_at_once_are_read(lab, tiers):
    at = filled(lab)
    tiers.silent_for = 4
    assert [row["offset"] for row in lab.read(at.topic, 0, 5)] == [0, 1, 2, 3, 4]
    assert tiers.fetches == 5


def test_records_that_tiered_storage_never_brings_meet_the_deadline(lab, tiers, monkeypatch):
    at = filled(lab)
    limit_reading(monkeypatch, SHORT_S)
    tiers.silent_for = 1_000
    message = f"cannot read {at.split_id} up to 4 from Kafka at .* within 0.5 s: the broker sends nothing from 2 on"
    with pytest.raises(DeadlineError, match=message):
        lab.read(at.topic, 2, 4, config=lab.config(fetch_max_wait_ms=10))


def test_a_peek_into_tiered_storage_waits_for_the_record(lab, tiers, monkeypatch):
    one, other = filled(lab), filled(lab)
    with KafkaClient(lab.config()) as client:
        tiers.silent_for = 4
        assert peek(client, {one: 2, other: 3}) == {one: (2, 7_002), other: (3, 7_003)}
        tiers.silent_for = 1_000
        limit_reading(monkeypatch, SHORT_S)
        with pytest.raises(DeadlineError, match=r"within 0\.5 s: the broker sends nothing from 2 on"):
            peek(client, {one: 2})
        assert peek(client, {one: 5}) == {one: None}


def test_old_messages_are_read_and_a_hole_up_to_the_end_as_nothing_once_it_is_proven(tmp_path, monkeypatch):
    messages, held = old_segment()
    with KafkaServer(folder=tmp_path) as kafka:
        lab = Lab(kafka)
        old = lab.new_topic()
        # Both topics look as older brokers may leave them after compaction.
        before_transaction, at_end = (TopicPartition(lab.new_topic(segment_ms="1"), 0) for _ in range(2))
        for at in (before_transaction, at_end):
            lab.append(at.topic, *(encode([Record(n)]) for n in range(3)))
        producer = KafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers,
            transactional_id="open",
            linger_ms=0,
            transaction_timeout_ms=NEVER_ABORTED_MS,
        )
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(before_transaction.topic, value=b"open", partition=0).get(60)
        producer.close(timeout=0)  # it has no time to abort the transaction
        kafka.stop()
        folders = tmp_path / "broker-1" / "data"
        for file in (folders / f"{old}-0").glob("0*"):
            file.unlink()
        (folders / f"{old}-0" / f"{0:020}.log").write_bytes(messages)
        for at in (before_transaction, at_end):
            folder = folders / at.split_id
            for segment in folder.glob("*.log"):
                if segment.stem != f"{3:020}":
                    segment.write_bytes(b"")
            (folder / f"{3:020}.log").touch()
        kafka.start()
        read_of_a_broker(lab, old, held)

        committed = lab.config(isolation_level="read_committed")
        for at, config in ((before_transaction, committed), (at_end, lab.config())):
            with KafkaClient(config) as client:
                assert client.list_offsets({at: EARLIEST}) == {at: (0, -1)}
                assert client.list_offsets({at: LATEST}) == {at: (3, -1)}
                assert peek(client, {at: 0}) == {at: None}
            assert lab.read(at.topic, 0, 3, config=config) == []

        # Before Kafka 3.4, only records after a hole can prove it.
        limit_list_offsets(monkeypatch, 7)
        limit_reading(monkeypatch, SHORT_S)
        older = {"fetch_max_wait_ms": 10, "properties": {"client_id": "older"}}
        assert lab.read(before_transaction.topic, 0, 3, config=replace(committed, **older)) == []
        with pytest.raises(DeadlineError, match="the broker sends nothing from 0 on"):
            lab.read(at_end.topic, 0, 3, config=lab.config(**older))


def test_a_broker_before_kafka_3_is_asked_for_the_last_record_instead_of_the_latest(lab, monkeypatch):
    topic = lab.new_topic()
    at = TopicPartition(topic, 0)
    lab.append(topic, encode([Record(time_ms) for time_ms in (1_000, 3_000, 2_000)]))
    limit_list_offsets(monkeypatch, 6)
    with KafkaClient(lab.config()) as client:
        assert client.list_offsets({at: MAX_TIMESTAMP}) == {at: (-1, -1)}
        assert client.list_offsets({at: 2_500}) == {at: (1, 3_000)}
    enumerator = KafkaEnumerator(lab.config(), Subscribe((topic,)), OffsetsSpec("startingOffsets", EARLIEST), None)
    splits = enumerator.discover()
    enumerator.extents(splits)
    assert TimeIndex(enumerator).latest({at.split_id: Extent(0, 3)}) == {at.split_id: 2_000}
    enumerator.close()


LEVELS = ("read_uncommitted", "read_committed")


@pytest.fixture
def producer(lab):
    made = []

    def make(transactional_id):
        new = KafkaProducer(
            bootstrap_servers=lab.kafka.bootstrap_servers, transactional_id=transactional_id, linger_ms=0
        )
        new.init_transactions()
        made.append(new)
        return new

    yield make
    for producer_made in made:
        producer_made.close()


def send(producer, topic, value, count=3):
    for _ in range(count):
        producer.send(topic, value=value, partition=0, timestamp_ms=5000).get(60)


def test_interleaved_transactions_are_seen_as_the_consumer_sees_them(lab, producer):
    topic = lab.new_topic()
    one, two = producer(f"{topic}-one"), producer(f"{topic}-two")
    lab.append(topic, encode([Record(value=b"plain")]))
    for round_ in range(4):
        one.begin_transaction()
        two.begin_transaction()
        send(one, topic, b"one-%d" % round_)
        send(two, topic, b"two-%d" % round_)
        lab.append(topic, encode([Record(value=b"plain")]))
        send(one, topic, b"one-%d" % round_)
        (one.abort_transaction if round_ % 2 else one.commit_transaction)()
        send(two, topic, b"two-%d" % round_)
        (two.abort_transaction if round_ < 2 else two.commit_transaction)()
    end = lab.end(topic)

    for level in LEVELS:
        config = lab.config(isolation_level=level)
        records = lab.read(topic, 0, end, config=config)
        assert records == lab.consume(topic, 0, end, level)
        assert {bytes(row["value"]) for row in records} >= {b"plain", b"one-0", b"one-2", b"two-2", b"two-3"}
        for cut in range(end):
            assert lab.read(topic, 0, cut, config=config) + lab.read(topic, cut, end, config=config) == records


def test_an_open_transaction_ends_what_is_committed(lab, producer):
    topic = lab.new_topic()
    at = TopicPartition(topic, 0)
    lab.append(topic, encode([Record(value=b"plain")] * 2))
    one = producer(f"{topic}-open")
    one.begin_transaction()
    send(one, topic, b"open")
    with KafkaClient(lab.config(isolation_level="read_committed")) as client:
        assert client.list_offsets({at: LATEST}) == {at: (2, -1)}
        assert client.list_offsets({at: LATEST}, isolation_level="read_uncommitted") == {at: (5, -1)}
        assert peek(client, {at: 1})[at] == (1, 1000)
        assert peek(client, {at: 2}) == {at: None}
        one.abort_transaction()
        # The broker confirms that it will write the marker, not that it has.
        await_that(lambda: client.list_offsets({at: LATEST}) == {at: (6, -1)})
        assert peek(client, {at: 2}) == {at: None}
        lab.append(topic, encode([Record(7000, value=b"plain")]))
        assert peek(client, {at: 2}) == {at: (6, 7000)}
    with KafkaClient(lab.config()) as client:
        assert peek(client, {at: 2, TopicPartition(topic, 0): 3}) == {at: (3, 5000)}
        assert peek(client, {at: 5}) == {at: (6, 7000)}
        assert client.list_offsets({at: EARLIEST}) == {at: (0, -1)}


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_a_wait_ends_when_a_transaction_does_and_not_while_it_is_open(lab, producer, end):
    topic = lab.new_topic()
    at = TopicPartition(topic, 0)
    one = producer(f"{topic}-open")
    one.begin_transaction()
    send(one, topic, b"open")
    with KafkaClient(lab.config(isolation_level="read_committed")) as client:
        client.list_offsets({at: LATEST})
        client.watch({at: WatchedEnd(0, 3)})
        assert not client.wait(0.2)
        assert not client.wait(0.2)
        getattr(one, end)()
        assert client.wait(30)
        await_that(lambda: client.list_offsets({at: LATEST}) == {at: (4, -1)})
        client.watch({at: WatchedEnd(4, 4)})
        assert not client.wait(0.2)


CORNERS = [
    Record(0, None, None),
    Record(1, b"", b""),
    Record(-1, b"k", None),
    Record(1_700_000_000_000, None, b"v"),
    Record(5, b"\x00\xff", b"\xff" * 300, [("one", b"1")]),
    Record(6, b"k", b"v", [("a", None), ("b", b""), ("", b"c"), ("ü", b"\x00" * 200)]),
    Record(7, b"k" * 200, b"v" * 20_000, [("again", b"1"), ("again", b"2")]),
]


@pytest.mark.parametrize("codec", ["none", "gzip"])  # the consumer decompresses no other without more packages
def test_every_field_is_what_the_consumer_reads(lab, codec):
    topic = lab.new_topic()
    some = random.Random(codec)
    for _ in range(30):
        lab.append(topic, encode(some.choices(CORNERS, k=some.randrange(1, 40)), codec))
    end = lab.end(topic)

    expected = lab.consume(topic, 0, end)
    assert lab.read(topic, 0, end) == expected
    assert [row["offset"] for row in expected] == list(range(end))

    cuts = [0, *sorted(some.sample(range(end), 6)), end]
    pieces = [lab.read(topic, start, stop) for start, stop in pairwise(cuts)]
    assert [row for piece in pieces for row in piece] == expected


def test_the_broker_may_stamp_the_time(lab):
    topic = lab.new_topic(message_timestamp_type="LogAppendTime")
    lab.append(topic, encode(CORNERS), encode(CORNERS, "gzip"))
    end = lab.end(topic)
    expected = lab.consume(topic, 0, end)
    assert lab.read(topic, 0, end) == expected
    assert {row["timestampType"] for row in expected} == {1}


def test_values_may_exceed_every_limit(lab):
    topic = lab.new_topic(max_message_bytes="10000000")
    sizes = [10, 3_000_000, 20, 200_000, 30]
    for size in sizes:
        lab.append(topic, encode([Record(value=bytes([size % 251]) * size, headers=[("h" * 1000, b"x" * 1000)])]))
    config = lab.config(fetch_max_bytes=1000, max_partition_fetch_bytes=1000)
    batches = [*lab.batches(topic, 0, len(sizes), config=config, include_headers=True, max_batch_bytes=10_000)]
    assert rows(batches) == lab.consume(topic, 0, len(sizes))
    assert [batch.num_rows for batch in batches] == [1] * len(sizes)
