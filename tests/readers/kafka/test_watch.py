"""Waiting for records by fetch sessions, with a real broker."""

from __future__ import annotations

import random
import threading

import pytest

from tests.support.command import await_that
from tests.support.kafka.brokers import FaultyBroker, hand_on
from tests.support.kafka.lab import Record, encode
from tidegate.errors import BrokerTooOldError, CorruptDataError
from tidegate.readers.kafka import watch
from tidegate.readers.kafka.client import LATEST, KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.watch import Watch, WatchedEnd
from tidegate.readers.kafka.wire.connection import BrokerConnection

LONG_S, SHORT_S = 30.0, 0.2  # the time of a wait that must end early, and of one that must not


class Watched:
    """A topic of five partitions whose ends are watched."""

    def __init__(self, lab, client):
        self.lab, self.client, self.topic = lab, client, lab.new_topic(partitions=5)
        self.partitions = [TopicPartition(self.topic, number) for number in range(5)]
        self.look()

    def look(self):
        listed = self.client.list_offsets(dict.fromkeys(self.partitions, LATEST))
        self.client.watch({partition: WatchedEnd(end, end) for partition, (end, _) in listed.items()})

    def append(self, number):
        self.lab.append(self.topic, encode([Record(value=b"v" * 100)]), partition=number)

    @property
    def session(self):
        ((_, session),) = self.client._watch._sessions.items()
        return session


@pytest.fixture
def watched(lab):
    with KafkaClient(lab.config()) as client:
        yield Watched(lab, client)


@pytest.mark.parametrize("seed", range(4))
def test_each_record_since_the_last_look_ends_a_wait_and_nothing_else_does(watched, seed):
    dice, has_news = random.Random(seed), False
    for _ in range(30):
        match dice.choice(["append", "look", "wait"]):
            case "append":
                watched.append(dice.randrange(5))
                has_news = True
            case "look":
                watched.look()
                has_news = False
            case "wait":
                assert watched.client.wait(LONG_S if has_news else SHORT_S) == has_news


def test_an_evicted_session_is_begun_anew(watched):
    assert not watched.client.wait(SHORT_S)
    watched.session.id += 1
    assert watched.client.wait(LONG_S)
    watched.look()
    assert not watched.client.wait(SHORT_S)
    watched.append(2)
    assert watched.client.wait(LONG_S)


def test_without_a_broker_no_watch_says_that_all_is_quiet(watched):
    assert not watched.client.wait(SHORT_S)
    watched.session.connection._socket.close()
    assert watched.client.wait(LONG_S)
    assert not watched.client.wait(SHORT_S)


def test_a_partition_that_is_new_or_gone_belongs_to_the_watch_or_not(watched):
    watched.partitions.pop()
    watched.look()
    watched.append(4)
    assert not watched.client.wait(SHORT_S)
    watched.partitions.append(TopicPartition(watched.topic, 4))
    watched.look()
    assert not watched.client.wait(SHORT_S)
    watched.append(4)
    assert watched.client.wait(LONG_S)


def test_an_answer_that_is_broken_leaves_the_decision_to_the_next_look(watched, monkeypatch):
    def broken(*_):
        raise CorruptDataError("a fetch response is broken")

    assert not watched.client.wait(SHORT_S)
    with monkeypatch.context() as patch:
        patch.setattr(watch, "fetched_partitions", broken)
        assert watched.client.wait(SHORT_S)  # after a whole answer without a record, it would return False
    assert not watched.client.wait(SHORT_S)


def test_waits_that_fail_again_and_again_do_not_connect_each_time(watched, monkeypatch):
    asked = []

    def too_old(*_):
        asked.append(1)
        raise BrokerTooOldError("it has no fetch sessions")

    with monkeypatch.context() as patch:
        patch.setattr(BrokerConnection, "send", too_old)
        assert all(watched.client.wait(SHORT_S) for _ in range(4))
    assert len(asked) == 2


class TwoLeaders:
    """A cluster in which the leader of the first partition has another address."""

    def __init__(self, first, second):
        self.first, self.second = first, second

    def deadline(self, *_):
        return None

    def leaders(self, partitions, _):
        led = {self.first: [], self.second: []}
        for at in partitions:
            led[self.first if at.partition == 0 else self.second].append(at)
        return led, {}


class WatchOfTwo:
    """A watch of five partitions with two leaders.

    is_well: while this event is cleared, the leader of the first partition does not answer.
    """

    def __init__(self, watched, watch_of_two, is_well):
        self.watched, self.watch, self.is_well = watched, watch_of_two, is_well

    def begin(self, end_of_first=0, end_of_second=0):
        """Watch all five partitions; only the first two have records."""
        first, second, *others = self.watched.partitions
        ends = {first: end_of_first, second: end_of_second, **dict.fromkeys(others, 0)}
        watched = {partition: WatchedEnd(end, end) for partition, end in ends.items()}
        self.watch.begin(watched, self.watched.client.topic_ids)

    def become_quiet(self):
        """Watch until both leaders have answered all requests: on a busy machine, a wait may leave one behind."""
        self.begin()
        await_that(lambda: not self.watch.wait(SHORT_S) and not any(s.pending for s in self.watch._sessions.values()))


@pytest.fixture
def of_two(watched):
    is_well = threading.Event()

    def answer(broker, client, frame):
        while not is_well.wait(0.01):
            if broker.over.is_set():
                return
        client.sendall(frame)

    is_well.set()
    server = watched.lab.config().bootstrap_servers
    with (
        FaultyBroker(server, answer) as ill,
        FaultyBroker(server, hand_on) as well,
    ):
        watch_of_two = Watch(TwoLeaders(ill.address, well.address), watched.lab.config())
        try:
            yield WatchOfTwo(watched, watch_of_two, is_well)
        finally:
            watch_of_two.close()


def test_a_broker_that_hangs_hides_no_news_of_the_others(watched, of_two):
    of_two.become_quiet()
    of_two.is_well.clear()
    assert not of_two.watch.wait(SHORT_S)  # later waits take the answer of the leader that hangs
    watched.append(1)
    assert of_two.watch.wait(LONG_S)
    of_two.begin(end_of_second=1)
    assert not of_two.watch.wait(SHORT_S)
    watched.append(0)
    of_two.is_well.set()
    assert of_two.watch.wait(LONG_S)


def test_an_answer_of_before_the_look_is_no_news_after_it(watched, of_two):
    of_two.become_quiet()
    of_two.is_well.clear()
    watched.append(0)
    watched.append(1)
    assert of_two.watch.wait(LONG_S)  # the second leader ends the wait; the answer of the first is on its way
    of_two.begin(end_of_first=1, end_of_second=1)
    of_two.is_well.set()
    assert not of_two.watch.wait(SHORT_S)
    watched.append(0)
    assert of_two.watch.wait(LONG_S)


def test_a_broker_that_hangs_for_too_long_leaves_the_decision_to_the_next_look(of_two, monkeypatch):
    of_two.become_quiet()
    of_two.is_well.clear()
    monkeypatch.setattr(watch, "_ANSWER_S", watch._GRACE_S / 2)
    # On a busy machine the first wait may leave a request behind, which may take as long as before.
    await_that(lambda: of_two.watch.wait(SHORT_S))
