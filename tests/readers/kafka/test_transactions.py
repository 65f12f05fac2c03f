"""``isolation.level``: the visible records of transactions, and the holes of their markers."""

import pytest
from kafka import KafkaProducer

from tests.support.command import await_that
from tests.support.kafka.lab import Record, encode
from tidegate.readers.kafka.client import EARLIEST, LATEST, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.peek import peek
from tidegate.readers.kafka.watch import WatchedEnd

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
