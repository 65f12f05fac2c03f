"""Empty answers: a permanent hole, or records that the broker could not send in time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafka import KafkaProducer
from kafka.protocol.consumer import ListOffsetsRequest

from tests.support.kafka.lab import Lab, Record, encode, limit_reading
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


def test_a_hole_up_to_the_end_is_read_as_nothing_once_it_is_proven(tmp_path, monkeypatch):
    with KafkaServer(folder=tmp_path) as kafka:
        lab = Lab(kafka)
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
        for at in (before_transaction, at_end):
            folder = tmp_path / "broker-1" / "data" / at.split_id
            for segment in folder.glob("*.log"):
                if segment.stem != f"{3:020}":
                    segment.write_bytes(b"")
            (folder / f"{3:020}.log").touch()
        kafka.start()

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
