"""A client's knowledge of its cluster, after lost connections and after a rest."""

import time
from types import SimpleNamespace

import pytest

from tidegate.errors import RefusedError, TransientError
from tidegate.readers.kafka import watch
from tidegate.readers.kafka.cluster import KafkaCluster, LeaderCall
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.retry import Deadline

ADDRESS = "here:9092"


def test_a_request_that_fails_on_a_lost_connection_leaves_the_next_one_alone():
    cluster = KafkaCluster(KafkaConnectionConfig(ADDRESS))
    lost, reopened = (SimpleNamespace(address=ADDRESS, is_closed=closed) for closed in (True, False))
    cluster._connections[ADDRESS] = reopened
    cluster.lost(lost)
    assert cluster._connections == {ADDRESS: reopened}
    reopened.is_closed = True
    cluster.lost(reopened)
    assert cluster._connections == {}


def test_a_topic_that_was_absent_before_a_rest_may_come_after_it(monkeypatch):
    cluster = KafkaCluster(KafkaConnectionConfig(ADDRESS))
    began = time.monotonic()
    cluster._absences.observe(["orders"], [])
    monkeypatch.setattr(time, "monotonic", lambda: began + 600)
    assert cluster.doubt([], ["orders"]) is None
    cluster.close()
    cluster._absences.observe(["orders"], [])
    assert "orders" in str(cluster.doubt([], ["orders"]))


def test_a_watch_that_is_refused_logs_in_once(monkeypatch):
    config, attempts = KafkaConnectionConfig(ADDRESS), []

    def refused(*_):
        attempts.append(1)
        raise RefusedError("the password has changed")

    monkeypatch.setattr(watch, "BrokerConnection", refused)
    cluster = KafkaCluster(config)
    monkeypatch.setattr(cluster, "leaders", lambda partitions, _: ({ADDRESS: [*partitions]}, {}))
    watching = watch.Watch(cluster, config)
    for end in range(3):
        watching.begin({TopicPartition("orders", 0): end}, {})
        assert watching.wait(0)
    assert len(attempts) == 1


def test_leaders_are_asked_for_again_after_metadata_max_age_ms(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    cluster = KafkaCluster(KafkaConnectionConfig(ADDRESS, metadata_max_age_s=5))
    asked = []

    def refresh(topics, *_):
        asked.append(topics)
        cluster._leaders[TopicPartition("orders", 0)] = ADDRESS

    monkeypatch.setattr(cluster, "_refresh_leaders", refresh)
    for later_s, times in ((0, 1), (4.9, 1), (5.1, 2), (9.9, 2), (10.3, 3)):
        now[0] = 100 + later_s
        led, _ = cluster.leaders([TopicPartition("orders", 0)], cluster.deadline("test"))
        assert led == {ADDRESS: [TopicPartition("orders", 0)]}
        assert len(asked) == times


class EndsFirst:
    """A connection to a broker that ends the first ones instead of answering, for these reasons."""

    def __init__(self, *reasons):
        self.address, self.is_closed = ADDRESS, False
        self._reasons = [*reasons]

    def send(self, *_):
        self.is_closed = False
        return 1

    def receive(self, *_):
        if not self._reasons:
            return memoryview(b"")
        self.is_closed = True
        raise TransientError("lost the Kafka broker") from self._reasons.pop()


@pytest.mark.parametrize(
    ("reasons", "answers"),
    [
        ([ConnectionResetError()], {TopicPartition("orders", 0): 7}),
        ([ConnectionResetError()] * 2, {}),
        ([TimeoutError()], {}),
    ],
    ids=["ended", "ended twice", "silent"],
)
def test_a_call_without_patience_is_repeated_once_if_the_broker_ends_its_connection(monkeypatch, reasons, answers):
    cluster = KafkaCluster(KafkaConnectionConfig(ADDRESS))
    cluster.patience_s = 0.0
    partition, connection = TopicPartition("orders", 0), EndsFirst(*reasons)
    monkeypatch.setattr(cluster, "leaders", lambda partitions, *_, **__: ({ADDRESS: [*partitions]}, {}))
    monkeypatch.setattr(cluster, "connection", lambda *_: connection)
    monkeypatch.setattr(Deadline, "pause", lambda *_: None)
    call = LeaderCall(cluster, "test", [partition], list, lambda *_: iter([(partition, 0, 7)]))
    assert call.reached()[0] == answers
