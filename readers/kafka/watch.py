"""Watches the ends of partitions with fetch sessions (KIP-227), so that ends that stay the same need not be requested.

A broker keeps the partitions of a session with the positions from which they are fetched, here their ends.  It holds a
fetch back until any of them shows a record, and its answer names only those that changed, so a wait costs the same for
ten partitions and for ten thousand.

"Nothing has changed" means that all leaders that answered in time said so, to a fetch that was sent during the wait.
It is never older news.  If a broker is late, a later wait takes its answer, so it hides no news of the others.  A
broker that stays silent ends the watch.  The watch is only a hint: a caller in doubt requests the ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, NamedTuple, cast
from uuid import UUID

from kafka import errors as kafka_errors

from tidegate.errors import RefusedError, TidegateError, TransientError
from tidegate.readers.kafka.cluster import KafkaCluster
from tidegate.readers.kafka.config import KafkaConnectionConfig, TopicPartition
from tidegate.readers.kafka.fetch import NO_SESSION_ID, FetchedPartition, fetch_request, fetched_partitions
from tidegate.readers.kafka.wire.connection import BrokerConnection
from tidegate.readers.kafka.wire.login import decode_response

_PAUSE_S = 30.0  # the rest after a refused session, or after two failed waits in a row
_ANSWER_S = 5.0  # after the time for which it holds a fetch, a healthy broker answers within so long
_GRACE_S = 0.1  # the wait for an answer that is on its way
_NO_ERROR = kafka_errors.NoError.errno


class WatchedEnd(NamedTuple):
    """The last known end; the position is before the high watermark while a transaction is open."""

    position: int
    high_watermark: int


@dataclass(slots=True)
class _Session:
    """A fetch session with one broker.

    ends: the ends of its partitions, as the broker knows them without the changes.
    topic_ids: the ids of all its topics; if empty, requests use names.
    id: the id of the session; None before the first answer.
    pending: the request that the broker holds, with its id.
    answer_due_s: when a healthy broker has answered it.
    """

    connection: BrokerConnection
    ends: dict[TopicPartition, WatchedEnd]
    topic_ids: Mapping[str, UUID]
    id: int | None = None
    epoch: int = 0
    pending: tuple[Any, int] | None = None
    answer_due_s: float = 0.0
    changes: dict[TopicPartition, WatchedEnd] = field(default_factory=dict)


class Watch:
    """Tells when the ends of partitions may have changed; not thread-safe.

    cluster: knows the leaders.  The watch has its own connections, because a held fetch would block others.
    """

    def __init__(self, cluster: KafkaCluster, config: KafkaConnectionConfig) -> None:
        self._cluster, self._config = cluster, config
        self._ends: Mapping[TopicPartition, WatchedEnd] = {}
        self._topic_ids: Mapping[str, UUID] = {}
        self._sessions: dict[str, _Session] = {}
        self._is_known = False
        self._rests_until = 0.0
        self._has_failed = False

    def begin(self, ends: Mapping[TopicPartition, WatchedEnd], topic_ids: Mapping[str, UUID]) -> None:
        """Watch these partitions from now on."""
        self._is_known = self._is_known and ends == self._ends and topic_ids == self._topic_ids
        self._ends, self._topic_ids = ends, dict(topic_ids)

    def wait(self, seconds: float) -> bool:
        """Wait for a change since ``begin``, for about this time; return whether there may be one."""
        if time.monotonic() < self._rests_until or not self._ends:
            return True
        try:
            may_have_changed = self._wait(seconds)
        except RefusedError:
            # This refusal is not reported, and repeated attempts may lock out a login.
            self._rests_until = math.inf
            self.close()
            return True
        except (TidegateError, TransientError, OSError):
            # These are, for example, brokers before Kafka 1.1; ten waits a second must not open a connection each.
            if self._has_failed:
                self._rests_until = time.monotonic() + _PAUSE_S
            self._has_failed = True
            self.close()
            return True
        self._has_failed = False
        return may_have_changed

    def close(self) -> None:
        """Close the connections; the watch may be used again."""
        self._is_known = False
        while self._sessions:
            self._sessions.popitem()[1].connection.close()

    def _wait(self, seconds: float) -> bool:
        if not self._is_known and not self._tell_sessions():
            return True
        until_s = time.monotonic() + seconds
        to_ask = list(self._sessions.values())
        while True:
            for session in [session for session in to_ask if not session.pending]:
                self._send(session, max(0.0, until_s - time.monotonic()))
                to_ask.remove(session)
            held = {s.connection.fileno(): (s, *s.pending) for s in self._sessions.values() if s.pending}
            if not held:
                return False
            readable = cast("list[int]", wait(held, max(0.0, until_s + _GRACE_S - time.monotonic())))
            if not readable:
                break
            if any(self._has_news(*held[socket]) for socket in readable):
                return True
        if any(session.answer_due_s <= time.monotonic() for session, *_ in held.values()):
            raise TransientError("a broker does not answer")
        return False

    def _tell_sessions(self) -> bool:
        """Note for each broker's session what has changed; return whether all partitions are in one."""
        led, failures = self._cluster.leaders(self._ends, self._cluster.deadline("watch partitions", _ANSWER_S))
        if failures:
            return False
        for address in self._sessions.keys() - led.keys():
            self._sessions.pop(address).connection.close()
        for address, partitions in led.items():
            ends = {partition: self._ends[partition] for partition in partitions}
            session = self._sessions.get(address)
            if session is not None and session.ends.keys() == ends.keys():
                moved = {partition: end for partition, end in ends.items() if session.ends[partition] != end}
                session.changes, session.ends = {**session.changes, **moved}, ends
                continue
            if session is not None:
                session.connection.close()
            connection = BrokerConnection(address, self._config.properties, _ANSWER_S)
            self._sessions[address] = _Session(connection, ends, self._ids_of(ends), changes=ends)
        self._is_known = True
        return True

    def _ids_of(self, partitions: Iterable[TopicPartition]) -> Mapping[str, UUID]:
        topics = {partition.topic for partition in partitions}
        known = {topic: topic_id for topic in topics if (topic_id := self._topic_ids.get(topic)) is not None}
        return known if known.keys() == topics else {}

    def _send(self, session: _Session, seconds: float) -> None:
        numbers = (session.id or NO_SESSION_ID, session.epoch)
        positions = {partition: end.position for partition, end in session.changes.items()}
        isolation_level, wait_ms = self._config.isolation_level, int(seconds * 1000)
        request = fetch_request(isolation_level, positions, session.topic_ids, wait_ms, session=numbers)
        session.pending = (request, session.connection.send(request, _ANSWER_S))
        session.answer_due_s = time.monotonic() + seconds + _ANSWER_S
        session.changes = {}

    def _has_news(self, session: _Session, request: Any, request_id: int) -> bool:
        """Receive the answer, and return whether an end has moved."""
        session.pending = None
        response = decode_response(request, session.connection.receive(request_id, _ANSWER_S))
        if response.error_code != _NO_ERROR or response.session_id == NO_SESSION_ID:
            # The session was evicted, or the broker has no room for sessions.
            if session.id is None:
                self._rests_until = time.monotonic() + _PAUSE_S
            raise TransientError("the broker keeps no fetch session")
        session.id, session.epoch = response.session_id, session.epoch % (2**31 - 1) + 1
        answered = [*fetched_partitions(response, session.topic_ids)]
        if any(error != _NO_ERROR for _, error, _ in answered):
            raise TransientError("a partition of a fetch session has another leader, or none")
        return any(_is_news(part, session.ends.get(partition)) for partition, _, part in answered)


def _is_news(part: FetchedPartition, end: WatchedEnd | None) -> bool:
    """Return whether an end has moved; it moves past a transaction when that ends."""
    if end is None or part.high_watermark != end.high_watermark:
        return True
    # Without an open transaction, these are records of before the last look: the broker answered an older request.
    return end.position < end.high_watermark and len(part.records) > 0
